"""Find the origin and the cause of the first NaN or Inf of a run, and suggest remedies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from esper_agents.errors import UsageError
from esper_agents.torchlab.measurement import (
    MeasuredClaim,
    MeasurementDescriptor,
    MeasurementOutline,
    ReportSection,
    missing_section,
    option,
    train_option,
)
from esper_agents.torchlab.measurement_codes import NON_FINITE
from esper_agents.torchlab.nan_remedies import CHANGES
from esper_agents.torchlab.worker.nan.result import NanRun, short_name
from esper_agents.torchlab.worker.results import shallow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import ReportSubject
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell
    from esper_agents.torchlab.worker.nan.result import (
        AffectedBatch,
        HarmlessOperation,
        NonfiniteCause,
        NonfiniteOperation,
    )

_WORDS = {"nan": "NaN", "inf": "Inf"}
_ARTICLES = {
    "output": "an output",
    "loss": "the loss",
    "gradient": "a gradient",
    "parameter": "a weight",
    "buffer": "a buffer",
    "optimizer state": "the optimizer's state",
    "exception": "an exception",
}
_UNKNOWN = "unclassified"
_STYLES = {"clean": "green", "inf": "red", "nan": "red"}
_WATCH = "a check of every operation"
_MOST = 5
_STATISTICS = ("min", "max", "mean", "nan", "inf", "zeros", "negatives")
_HISTORY = ("loss", "largest_weight", "largest_gradient")


@dataclass(frozen=True, slots=True)
class NanOptions:
    """Options of `esper torch nan`."""

    steps: int = option(10, "Maximum number of calls", metavar="N", least=1, tool_default=20)
    lr: float | None = option(
        None, "Update weights by gradient descent at this rate", metavar="RATE", least=0.0, in_tool=False
    )
    train: bool = train_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class NanResult(NanRun):
    """Result of a search for NaN and Inf, with its status in one sentence and a remedy."""

    headline: str = ""
    change: str | None = None


def run(lab: Lab, target: TargetSpec, options: NanOptions, tell: Tell | None) -> MeasurementReport:
    """Find the first operation of a target that produces a NaN or Inf which reaches a relevant tensor.

    Args:
        lab: Lab that runs the target in a measurement process; never in this one.
        target: A function, an nn.Module or a training step.
        options: The options; a learning rate implies training.
        tell: Progress callback.

    Returns:
        A report whose `result` is a `NanResult` as JSON.

    Raises:
        UsageError: The target cannot be used, or there is no step to run.
        WorkerError: The target itself raised, hung or crashed, and not because of NaN or Inf.
    """
    if options.steps < 1:
        raise UsageError(f"invalid number of steps: {options.steps}", remedy="use --steps 1 or more")
    request: dict[str, Any] = {"steps": options.steps, "train": options.train or options.lr is not None}
    if options.lr is not None:
        request["lr"] = options.lr
    return MEASUREMENT.concluded(lab.job("nan", target, request, tell=tell))


def explained(run: NanRun, _subject: ReportSubject) -> NanResult:
    """Return the result with a headline and a remedy."""
    change = None if run.cause is None else change_for(run.cause)
    return NanResult(**shallow(run), headline=headline(run), change=change)


def change_for(cause: NonfiniteCause) -> str:
    """Return the remedy for a cause; for a cause class that leaves the mechanism open, also one for the operation."""
    change = CHANGES.get(cause.class_, CHANGES[_UNKNOWN])
    if cause.class_ in {"learning-rate-too-high", "bad-initialisation"} and cause.mechanism == "half-overflow":
        return f"{change}; {CHANGES[cause.mechanism]}"
    return change


def headline(result: NanRun) -> str:
    """Return the status in one sentence."""
    steps = result.steps_run
    ran = "1 step" if steps == 1 else f"{steps} steps"
    if result.status == "clean":
        skipped = len(result.skipped_steps)
        but = f"; {skipped} of them skipped their update because gradients overflowed" if skipped else ""
        return f"no NaN and no Inf reached an output, a loss, a gradient or a weight in {ran}{but}"
    what = _WORDS[result.status]
    *others, last = dict.fromkeys(_ARTICLES[each.what] for each in result.reached or ())
    reached = f"{', '.join(others)} and {last}" if others else last
    if result.first is None or result.cause is None:
        return f"{what} in {reached} of step {steps}, from outside the operations that were watched"
    made = f"{_WORDS[result.first.holds]} from {result.first.short} at {result.first.place}"
    return f"{made}, {result.cause.class_}; in step {steps} it reached {reached}"


def sections(result: NanResult, _subject: ReportSubject) -> Iterator[ReportSection]:
    """Yield what the terminal shows."""
    yield ReportSection(((result.status, result.headline),), _STYLES[result.status])
    if result.first is not None:
        yield from _operation_sections(result.first, "first")
        if result.became_nan is not None:
            yield from _operation_sections(result.became_nan, "then")
    if result.cause is not None and result.batch is not None:
        pairs = (("cause", f"{result.cause.class_}: {result.cause.because}"), ("change", result.change or ""))
        yield ReportSection((*pairs, ("batch", _batch(result.batch))))
    if reached := [f"{each.what} {each.name}" for each in result.reached or ()]:
        more = f" and {len(reached) - _MOST} more" if len(reached) > _MOST else ""
        yield ReportSection((("reached", ", ".join(reached[:_MOST]) + more),))
    history = result.history or ()
    if result.status != "clean" and len(history) > 1:
        yield ReportSection(
            heads=("step", *(each.replace("_", " ") for each in _HISTORY)),
            is_apart=True,
            cells=tuple((str(each.step + 1), *_shown(each, _HISTORY)) for each in history[-_MOST:]),
        )
    yield ReportSection(tuple(("noticed", _noticed(each)) for each in (result.noticed or ())[:_MOST]), "dim")
    yield missing_section(result.missing or ())


def _operation_sections(found: NonfiniteOperation, label: str) -> Iterator[ReportSection]:
    """Yield an operation: its location, source line and inputs."""
    when = f"{found.phase} of step {found.step + 1}"
    node = f", {found.node}" if found.node else ""
    pairs = [(label, f"{found.short} ({found.operation}{node}) at {found.place}, {when}")]
    if found.source:
        pairs.append(("", found.source))
    if found.backward_started is not None:
        pairs.append(("backward", found.backward_started.place))
    if found.module_name:
        pairs.append(("module", found.module_name))
    if found.at is not None and found.at.operands:
        operands = ", ".join(f"{name} = {number}" for name, number in found.at.operands.items())
        pairs.append(("element", f"{list(found.at.index)}: {operands}"))
    yield ReportSection(tuple(pairs), "bold", is_apart=True)
    if found.inputs:
        tensors = [*found.inputs, *([replace(found.output, name="output")] if found.output else [])]
        rows = [
            (tensor.name or "", f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]", *_shown(tensor, _STATISTICS))
            for tensor in tensors
            if tensor.shape is not None
        ]
        yield ReportSection(heads=("input", "shape", *_STATISTICS), cells=tuple(rows))


def _shown(thing: object, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("" if (each := getattr(thing, name)) is None else str(each) for name in names)


def _batch(batch: AffectedBatch) -> str:
    sample = "" if batch.sample is None else f", sample {batch.sample}"
    return f"step {batch.step + 1}, seed {batch.seed}{sample}"


def _noticed(found: HarmlessOperation) -> str:
    times = f" ({found.times} times)" if found.times > 1 else ""
    made = f"{_WORDS[found.holds]} from {short_name(found.operation)} at {found.place}"
    return f"{made}, which had no effect on the result{times}"


def claims(result: NanResult, _subject: ReportSubject) -> Iterator[MeasuredClaim]:
    """Yield a diagnostic for the line of the first operation."""
    first = result.first
    if first is None or result.cause is None:
        return
    where = f" in {first.module_name}" if first.module else ""
    message = (
        f"the first {_WORDS[first.holds]} comes from {first.operation}{where} ({first.phase}, step {first.step}): "
        f"{result.cause.because}"
    )
    yield MeasuredClaim(NON_FINITE, first.file or "", first.line or 0, message, result.change or "", (_WATCH,))


def outline(target: str, result: NanResult) -> MeasurementOutline:
    """Return the most important part of a result."""
    effects = (f"its effect on the {each.what}" for each in (result.reached or ())[:1])
    return MeasurementOutline(f"{target}: {result.headline}", {"status": result.status}, (_WATCH, *effects))


MEASUREMENT = MeasurementDescriptor(
    kind="nan",
    summary="Find the first operation producing NaN or Inf",
    details=(
        "Reports the module and line in forward or backward, the statistics of its inputs, the cause and the first "
        "affected batch."
    ),
    examples=(
        "esper torch nan train.py:make_step --steps 100",
        'esper torch nan model.py:make_model --input "randn(32,128)" --train --lr 0.1 --fail-on nonfinite',
    ),
    options=NanOptions,
    run=run,
    measured=NanRun,
    result=NanResult,
    explained=explained,
    sections=sections,
    claims=claims,
    outline=outline,
    is_against=lambda result: result.status != "clean",
    fail_on="nonfinite",
    fail_help="Exit 3 on NaN or Inf",
)
