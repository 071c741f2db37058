"""Check whether a target exports: export modes, numeric equality and remedies."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from esper_agents.domain.pluralize import number_of
from esper_agents.torchlab import graph_break_remedies
from esper_agents.torchlab.measurement import (
    MeasuredClaim,
    MeasurementDescriptor,
    MeasurementOutline,
    ReportSection,
    missing_section,
)
from esper_agents.torchlab.measurement_codes import EXPORT_FAILED
from esper_agents.torchlab.worker.export.result import ExportRun
from esper_agents.torchlab.worker.results import shallow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import ReportSubject
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell
    from esper_agents.torchlab.worker.export.result import ExportAttempt

_CHANGES = {
    r"froze a value|second call": (
        "Something outside the inputs changes from call to call, and the program holds the value it had while it was "
        "traced. Hand it in as an input, or keep it in a registered buffer."
    ),
    r"[Dd]ata-dependent|data dependent error": (
        "The line decides by a tensor's values. Choose with torch.where or torch.cond, or state what always holds with "
        "torch._check before it."
    ),
    r"specialized it to be a constant|Not all values of|Constraints violated": (
        "The code works only for some sizes of that dimension. Take the condition or the number out of the code "
        "(x.view(-1, 8) rather than x.view(4, 8)), or declare the dimension with the range that it supports."
    ),
    r"Guard failed|Runtime assertion failed": (
        "The program took on a condition of the inputs that it was traced with. Express the choice with torch.cond, or "
        "export once for each case."
    ),
    r"not a known type|unrecognized type|pytree": (
        "Return tensors, numbers, tuples, lists or dictionaries; a data class of your own needs "
        "torch.export.register_dataclass."
    ),
    r"fake impl|fake kernel": "Give the custom operator a fake implementation with register_fake.",
    r"RandomValueSource|random_call": "Draw random numbers with torch, or hand them in: Python's would be frozen.",
    r"[Uu]nbacked symbol": (
        "A size depends on the values. Keep the shape, with torch.where or a mask, or state the size's range with "
        "torch._check."
    ),
    r"assigned .*attribute|attribute.* assigned|leaked|mutat": (
        "forward changes the module or an input. Register the state as a buffer, or return it."
    ),
    r"ScriptModule|torch\.jit": "Export the original eager module: what torch.jit made cannot be exported.",
    r"Dim\b|dynamic_shapes": "Say for each input which dimensions may change.",
}
_INFERENCE = "ONNX programs are for inference, and the module is in training mode: export it after .eval()."
_GENERIC = "Read the draft export's issues: they list everything that stands in the way, not only the first."


_STYLES = {"exports": "green", "partly": "yellow", "fails": "red"}
_WORDS = {
    "exports": "exports",
    "issues": "exports, and takes things for granted",
    "differs": "exports, and the program gives other numbers",
    "raises": "exports, and the program raises",
    "fails": "does not export",
}
# Draft export continues after failures, so its success proves less.
_WAYS = ("strict", "non-strict", "dynamic-batch", "onnx")
_AGAINST = frozenset(("fails", "raises", "differs"))


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of `esper torch export`: none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportDiagnosis(ExportRun):
    """Result of an export diagnosis, with its status and the status in one sentence."""

    status: Literal["exports", "partly", "fails"] | None = None
    headline: str = ""


def run(lab: Lab, target: TargetSpec, _options: ExportOptions, tell: Tell | None) -> MeasurementReport:
    """Check whether a target exports: strict, non-strict, draft, with a dynamic batch, and to ONNX.

    Each exported program is run on new inputs and compared with the eager code.

    Args:
        lab: Lab that runs the target in a measurement process; never in this one.
        target: A function or an nn.Module.
        tell: Progress callback.

    Returns:
        A report whose `result` is an `ExportDiagnosis` as JSON.

    Raises:
        UsageError: The target cannot be used.
        WorkerError: The target itself raised, hung or crashed.
    """
    return MEASUREMENT.concluded(lab.job("export", target, {}, tell=tell))


def explained(run: ExportRun, _subject: ReportSubject) -> ExportDiagnosis:
    """Return the result with remedies in words."""
    attempts = {
        name: each if each.outcome == "exports" else replace(each, change=change_for(each))
        for name, each in run.attempts.items()
    }
    good = [name for name in _ordered(attempts) if attempts[name].outcome == "exports"]
    bad = [name for name in _ordered(attempts) if name not in good]
    said = [f"exports: {', '.join(good)}" if good else "does not export"]
    said += [f"does not: {', '.join(bad)}"] if good and bad else []
    status: Literal["exports", "partly", "fails"] = "exports" if not bad else "partly" if good else "fails"
    return ExportDiagnosis(**shallow(replace(run, attempts=attempts)), status=status, headline="; ".join(said))


def _ordered(attempts: dict[str, ExportAttempt]) -> list[str]:
    """Return the names of the attempts in the order in which they were made: a stored report sorts them."""
    order = ("strict", "non-strict", "draft", "dynamic-batch", "onnx")
    return sorted(attempts, key=lambda name: order.index(name) if name in order else len(order))


def change_for(attempt: ExportAttempt) -> str:
    """Return the remedy for an attempt with an `outcome` other than `exports`."""
    if attempt.page is not None:
        return graph_break_remedies.change_for(attempt)
    if attempt.is_training:
        return _INFERENCE
    issues = " ".join(issue.kind for issue in attempt.issues or ())
    said = " ".join(each or "" for each in (attempt.difference, attempt.message, attempt.explanation)) + issues
    return next((change for words, change in _CHANGES.items() if re.search(words, said)), _GENERIC)


def sections(result: ExportDiagnosis, _subject: ReportSubject) -> Iterator[ReportSection]:
    """Yield what the terminal shows."""
    status = result.status or "fails"
    yield ReportSection(((status, result.headline),), _STYLES[status])
    told: dict[tuple[str, str, str], str] = {}
    for name in _ordered(result.attempts):
        each = result.attempts[name]
        yield ReportSection(title=name, facts=(_WORDS[each.outcome], _facts(each)))
        if each.outcome != "exports":
            first = told.setdefault((each.where, each.why, each.change or ""), name)
            if first == name:
                yield from _failure(each)
            else:
                yield ReportSection((("", f"as {first}"),))
    yield missing_section(result.missing, "")


def _failure(each: ExportAttempt) -> Iterator[ReportSection]:
    if each.place is not None:
        yield ReportSection((("at", each.where),), "dim")
        yield ReportSection(source=each.source)
    pairs = [("why", each.why)] if each.why else []
    pairs += [("issue", issue.said) for issue in each.issues or ()]
    pairs.append(("change", each.change or ""))
    further = (("suggestion", each.suggestion), ("link", each.link))
    yield ReportSection((*pairs, *((label, text) for label, text in further if text is not None)), "dim")


def _facts(each: ExportAttempt) -> str:
    facts = [] if each.op_count is None else [number_of(each.op_count, "operation")]
    if each.compared:
        facts.append(f"the same as eager on {number_of(each.compared, 'input')}")
    return ", ".join(facts)


def claims(result: ExportDiagnosis, _subject: ReportSubject) -> Iterator[MeasuredClaim]:
    """Yield a diagnostic for each line at which attempts fail; failures at the same line support each other."""
    by_place: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name in _against(result):
        by_place[result.attempts[name].at].append(name)
    for (file, line), names in by_place.items():
        told = result.attempts[names[0]]
        said = told.message or told.difference or told.kind or "its numbers differ from eager"
        yield MeasuredClaim(
            EXPORT_FAILED,
            file,
            line,
            f"{' and '.join(names)} export {told.outcome} here: {said}",
            told.change or told.suggestion or "write it in operations that can be traced",
            tuple(f"{each} export" for each in names),
            possible=len([way for way in _WAYS if way in result.attempts]),
        )


def _against(result: ExportDiagnosis) -> list[str]:
    return [name for name in _WAYS if name in result.attempts and result.attempts[name].outcome in _AGAINST]


def outline(target: str, result: ExportDiagnosis) -> MeasurementOutline:
    """Return the most important part of a result."""
    names = _ordered(result.attempts)
    status = "exports" if names and not _against(result) else "fails"
    said = ", ".join(f"{name} {result.attempts[name].outcome}" for name in names) or "no mode was tried"
    return MeasurementOutline(f"export of {target}: {said}", {"status": status}, tuple(f"{n} export" for n in names))


MEASUREMENT = MeasurementDescriptor(
    kind="export",
    summary="Check whether a target can be exported",
    details=(
        "Tries torch.export (strict, non-strict, draft, with a dynamic batch size) and ONNX, and compares each "
        "exported program with eager mode."
    ),
    examples=(
        'esper torch export model.py:make_model --input "randn(32,128)"',
        "esper torch export model.py:make_model --capture train.py --fail-on error",
    ),
    options=ExportOptions,
    run=run,
    measured=ExportRun,
    result=ExportDiagnosis,
    explained=explained,
    sections=sections,
    claims=claims,
    outline=outline,
    is_against=lambda result: result.status != "exports",
    fail_on="error",
    fail_help="Exit 3 unless all exports succeed",
)
