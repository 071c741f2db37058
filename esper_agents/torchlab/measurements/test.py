"""Draft a test of a target from its first calls, and run it once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from shlex import quote
from typing import TYPE_CHECKING, Literal

from esper_agents.domain.evidence import OWN_HARNESS_ENDS
from esper_agents.domain.pluralize import number_of
from esper_agents.torchlab.drafted_test import (
    assertions,
    destination,
    draft_file,
    draft_text,
    edited_draft,
    preamble,
    write_draft,
)
from esper_agents.torchlab.harness import HarnessPlan
from esper_agents.torchlab.measurement import MeasurementDescriptor, MeasurementOutline, ReportSection, option
from esper_agents.torchlab.measurements import scaffold
from esper_agents.torchlab.report import now
from esper_agents.torchlab.worker.results import shallow
from esper_agents.torchlab.worker.test.result import DraftedTestRun, DraftedTestRuns, ObservedBehaviour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import MeasuredClaim, ReportSubject
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell
    from esper_agents.torchlab.worker.scaffold.result import ScaffoldSearch
    from esper_agents.torchlab.worker_handle import WorkerReply

_RUN = "a run of the drafted test"
_NOT_ASSERTED = "values against a reference, other sizes, and the errors that it raises"
_MOST_SHOWN = 4


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """Options of `esper torch test`."""

    runs: int = option(80, "Maximum number of runs that search for inputs", metavar="N", least=1)
    seconds: int = option(20, "Time limit of that search in seconds", metavar="N", least=1, tool_default=10)


@dataclass(frozen=True, slots=True)
class DraftedTest:
    """Measured part of a result.

    Attributes:
        target: The target.
        search: Result of the search for inputs in one sentence.
        error: Exception that stood in its way; empty if inputs were found.
        draft: Test file, relative to the project; empty if none was written.
        copy_to: Where it belongs.
        text: Its text.
        is_synthetic: Whether the program chose the inputs.
        is_edited: Whether the user had edited the file, which was then run as it is.
        asserted: What each test function asserts, in a few words.
        unasserted: What the calls showed that is no assertion.
        runs: Runs of its test functions.
    """

    target: str
    search: str
    error: str = ""
    draft: str = ""
    copy_to: str = ""
    text: str = ""
    is_synthetic: bool = False
    is_edited: bool = False
    asserted: tuple[str, ...] = ()
    unasserted: tuple[str, ...] = ()
    runs: tuple[DraftedTestRun, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftedTestResult(DraftedTest):
    """Result with its conclusions.

    Attributes:
        status: `passed` or `failed`; `none` if no inputs were found.
        headline: The result in one sentence.
        copy_command: Command that copies the file to its place; empty without a file.
    """

    status: Literal["passed", "failed", "none"] = field(kw_only=True)
    headline: str = field(kw_only=True)
    copy_command: str = field(kw_only=True)


def run(lab: Lab, target: TargetSpec, options: DraftOptions, tell: Tell | None) -> MeasurementReport:
    """Search for inputs of a target, write a test of what its calls show, and run that test once.

    A drafted test that the user edited is run as it is.

    Args:
        lab: Lab that runs the code in measurement processes; never in this one.
        target: Class, method or function.
        options: Limits of the search.
        tell: Progress callback.

    Returns:
        A report whose `result` is a `DraftedTestResult` as JSON.

    Raises:
        UsageError: The target cannot be called with any arguments, or a file cannot be written.
        WorkerError: The import of the target raised, hung or crashed.
        EvidenceError: The measurement process returned an invalid result.
    """
    started = now(), time.monotonic_ns()
    found = scaffold.search(lab, target, scaffold.ScaffoldOptions(options.runs, options.seconds), tell)
    place = {"file": found.file or None, "line": found.line if found.file else None}
    about: JsonObject = {**target.described(), "kind": "function", **place}
    request: JsonObject = {"runs": options.runs, "seconds": options.seconds, "seed": target.seed}
    drafted = _drafted(lab, target, found, tell)
    return MEASUREMENT.concluded(lab.report("test", about, request, {}, started=started), drafted)


def _drafted(lab: Lab, target: TargetSpec, found: ScaffoldSearch, tell: Tell | None) -> DraftedTest:
    searched = scaffold.explained_search(found)
    if searched.status == "none":
        return DraftedTest(target.name, searched.headline, searched.error or searched.headline)
    file = draft_file(target.name)
    copy_to = destination(lab.project, file)
    if edited := edited_draft(lab.project, file):
        runs = _ask(lab, target, file, edited, phase="run", tell=tell).read(DraftedTestRuns).runs
        return DraftedTest(target.name, searched.headline, "", file, copy_to, edited, is_edited=True, runs=runs)
    plan = HarnessPlan(found.target, found.kind, found.module, found.qualname, found.folder, found.make, found.call)
    beginning = preamble(plan, found.harness if found.ended in OWN_HARNESS_ENDS or found.captured else "")
    seen = _ask(lab, target, file, beginning, phase="observe", tell=tell).read(ObservedBehaviour)
    made = assertions(target.name, seen)
    text = draft_text(beginning, made)
    runs = _ask(lab, target, file, text, phase="run", tell=tell).read(DraftedTestRuns).runs
    write_draft(lab.project, file, text)
    return DraftedTest(
        target=target.name,
        search=searched.headline,
        draft=file,
        copy_to=copy_to,
        text=text,
        is_synthetic=searched.is_synthetic,
        asserted=tuple(each.words for each in made),
        unasserted=tuple(_unasserted(seen)),
        runs=runs,
    )


def _ask(lab: Lab, target: TargetSpec, file: str, text: str, *, phase: str, tell: Tell | None) -> WorkerReply:
    request: JsonObject = {
        "root": str(lab.project),
        "file": file,
        "text": text,
        "phase": phase,
        "memory_bytes": lab.settings.memory_bytes,
        "seed": target.seed,
    }
    lab.warm("test")
    with lab.worker(device="cpu") as worker:
        return worker.ask("test", request, tell=tell or lab.tell, name=target.name)


def _unasserted(seen: ObservedBehaviour) -> Iterator[str]:
    """Yield what the calls of a target showed that is no assertion, as clauses."""
    if seen.left_out:
        yield f"the result has {number_of(seen.left_out, 'further part')}"
    if any(not value.is_finite for value in seen.values):
        yield "the result contains NaN or Inf with these inputs"
    if not seen.is_repeatable and any(value.kind != "other" for value in seen.values):
        yield "two calls from one seed return different results"
    if seen.unreached:
        yield f"no gradient reaches {', '.join(seen.unreached[:_MOST_SHOWN])}"
    if seen.backward:
        yield f"backward raises {seen.backward}"
    if seen.has_dropout and not seen.is_moded:
        yield "dropout has no visible effect in training, or an effect in evaluation"
    if seen.kept:
        yield f"a call does not change the parameters of `{'`, `'.join(seen.kept[:_MOST_SHOWN])}` with these inputs"
    if seen.changed:
        yield f"a call changes its arguments at positions {', '.join(map(str, seen.changed))}"


def explained(found: DraftedTest, _subject: ReportSubject) -> DraftedTestResult:
    """Return a drafted test with its conclusions; a pure function of it."""
    failed = [each for each in found.runs if each.error]
    if not found.draft:
        headline = f"no test was written: {found.search}"
        return DraftedTestResult(**shallow(found), status="none", headline=headline, copy_command="")
    count = number_of(len(found.runs), "test")
    whose = "your edited draft" if found.is_edited else "drafted"
    outcome = f"{len(failed)} of {count} failed: {failed[0].error}" if failed else f"{count} passed"
    headline = f"{whose} in {found.draft}: {outcome}, run once"
    command = f"cp {quote(found.draft)} {quote(found.copy_to)}"
    status: Literal["passed", "failed"] = "failed" if failed else "passed"
    return DraftedTestResult(**shallow(found), status=status, headline=headline, copy_command=command)


def sections(found: DraftedTestResult, _subject: ReportSubject) -> Iterator[ReportSection]:
    """Yield what the terminal shows."""
    yield ReportSection((("test", found.headline),), "red" if found.status != "passed" else "green")
    if found.error:
        yield ReportSection((("error", found.error), ("next", f"esper torch scaffold {quote(found.target)}")))
        return
    rows = [("asserts", each) for each in found.asserted]
    rows += [("observed", each) for each in found.unasserted]
    rows += [("open", _NOT_ASSERTED)]
    yield ReportSection(
        tuple(("" if at and rows[at - 1][0] == label else label, text) for at, (label, text) in enumerate(rows))
    )
    failed = [each for each in found.runs if each.error]
    if failed:
        yield ReportSection(
            heads=("test", "exception"), cells=tuple((each.name, each.error) for each in failed), is_apart=True
        )
    yield ReportSection((("file", found.draft), ("next", found.copy_command)), is_apart=True)


def claims(_found: DraftedTestResult, _subject: ReportSubject) -> Iterator[MeasuredClaim]:
    """Yield no diagnostic: the assertions are what the code did, and not what it should do."""
    yield from ()


def outline(target: str, found: DraftedTestResult) -> MeasurementOutline:
    """Return the most important part of a result."""
    facts: dict[str, object] = {
        "status": found.status,
        "draft": found.draft,
        "copy_command": found.copy_command,
        "error": found.error,
        # By definitions, because long texts are cut.
        "code": [each.strip("\n") for each in found.text.split("\n\n\n")[1:]],
    }
    if found.is_synthetic:
        facts["synthetic"] = True
    parts = ("asserted", "unasserted", "runs", "headline", "search")
    return MeasurementOutline(f"{target}: {found.headline}", facts, (_RUN,), parts)


MEASUREMENT = MeasurementDescriptor(
    kind="test",
    summary="Draft a test of a target and run it once",
    details=(
        "Searches for inputs as `esper torch scaffold` does, calls the target, and writes what held as test functions "
        "to `.esper/tests`: shape, type, finite values, equal results for equal seeds, gradients, training and "
        "evaluation. Runs them once. The test says what the code does, not what it should do: add values from a "
        "reference. A draft that was edited is run, not replaced."
    ),
    target="`FILE.py:NAME` or `package.module:Class.method`",
    examples=("esper torch test model.py:Encoder", "esper torch test losses.py:focal_loss"),
    options=DraftOptions,
    run=run,
    measured=DraftedTest,
    result=DraftedTestResult,
    explained=explained,
    sections=sections,
    claims=claims,
    outline=outline,
    compared=("asserted", "headline"),
    is_against=lambda result: result.status != "passed",
    fail_on="error",
    fail_help="Exit 3 if no test was written or one fails",
    has_inputs=False,
)
