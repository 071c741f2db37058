"""Find arguments with which a function or module runs, and write them as a harness."""

from __future__ import annotations

import ast
import time
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING, Literal, cast

from esper_agents.domain.pluralize import number_of
from esper_agents.errors import UsageError
from esper_agents.torchlab.harness import (
    HarnessPlan,
    harness_text,
    has_captured_inputs,
    is_edited,
    own_harness_file,
    remove_harness,
    write_harness,
)
from esper_agents.torchlab.measurement import MeasurementDescriptor, MeasurementOutline, ReportSection, option
from esper_agents.torchlab.report import now
from esper_agents.torchlab.worker.results import WrittenFiles, shallow
from esper_agents.torchlab.worker.scaffold.result import HarnessRun, ScaffoldRun, ScaffoldSearch
from esper_agents.torchlab.worker_failure import WorkerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import MeasuredClaim, ReportSubject
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell
    from esper_agents.torchlab.worker.scaffold.result import ScaffoldCapture
    from esper_agents.torchlab.worker_handle import WorkerReply

_MOST_SHOWN = 6
_MOST_TEXT, _MOST_ARGUMENT_TEXT = 160, 2_000
_MOST_DIGITS, _MOST_DIMENSIONS = 6, 8
_SEARCH = "runs of the target"
# Kinds of targets in reports.
_KINDS = {"class": "module", "": "step"}
# Ends of a search after which other arguments would not help; the last run shows the reason.
_DECISIVE = frozenset(("gpu", "package", "network", "exit", "abstract", "unstable", "hang", "arguments"))
_REASONS = {
    "gpu": "it needs a GPU",
    "package": "it needs a package that is not installed",
    "network": "it needs the network",
    "exit": "it ends the process",
    "abstract": "it raises NotImplementedError: name a class that implements it",
    "unstable": "it ran in the search and failed in a new process",
    "hang": "it does not return within the time of a run",
    "runs": "no run returned within the number of runs",
    "time": "no run returned within the time",
    "arguments": "it does not run with the given arguments",
    "exhausted": "no run returned, and no other arguments are left to try",
}


@dataclass(frozen=True, slots=True)
class ScaffoldOptions:
    """Options of `esper torch scaffold`."""

    runs: int = option(80, "Maximum number of runs", metavar="N", least=1)
    seconds: int = option(20, "Time limit of the search in seconds", metavar="N", least=1, tool_default=10)
    shape: str = option("", "Shape of the first input in the first run: 8,3,32,32", metavar="SIZES")
    batch: int = option(0, "Larger first dimension of the found inputs: 128", metavar="N", least=0)
    make: str = option(
        "",
        "Constructor arguments, ... for chosen ones",
        metavar="ARGUMENTS",
        tool_help="Arguments of the constructor: `dim=64, heads=...`, where `...` is chosen",
    )
    call: str = option(
        "",
        "Arguments of the call, ... for chosen ones",
        metavar="ARGUMENTS",
        tool_help="Arguments of the call: `..., 4, mask=...`",
    )
    overwrite: bool = option(default=False, text="Replace a harness that you edited", in_tool=False)
    capture: str = option(
        "",
        "Script or test whose calls give the inputs",
        metavar="SOURCE",
        is_target=True,
        tool_help="`SCRIPT.py ARGUMENTS`, `FILE.py:FUNCTION` or `tests/test_x.py::test_y`, whose calls give the inputs",
    )
    shapes_only: bool = option(default=False, text="With --capture, save shapes but no values", in_tool=False)


@dataclass(frozen=True, slots=True)
class ScaffoldResult(ScaffoldSearch):
    """Result with its conclusions.

    Attributes:
        status: `runs` if there is something to run, otherwise `none`.
        headline: The result in one sentence.
        runnable: Target for other measurements; empty if there is none.
        is_synthetic: Whether the program chose its arguments.
        error: Exception that stands in the way; empty if there is none.
    """

    status: Literal["runs", "none"]
    headline: str
    runnable: str
    is_synthetic: bool
    error: str


def run(lab: Lab, target: TargetSpec, options: ScaffoldOptions, tell: Tell | None) -> MeasurementReport:
    """Search for arguments with which a target runs, and write them as a harness.

    A harness that the user edited is run once as it is, unless it is to be replaced.

    Args:
        lab: Lab that runs the code in a measurement process; never in this one.
        target: Class, method or function.
        options: Limits of the search.
        tell: Progress callback.

    Returns:
        A report whose `result` is a `ScaffoldResult` as JSON.

    Raises:
        UsageError: The target cannot be called with any arguments, or the harness cannot be written.
        WorkerError: The import of the target or the edited harness raised, hung or crashed.
        EvidenceError: The measurement process returned an invalid result.
    """
    started = now(), time.monotonic_ns()
    found = search(lab, target, options, tell)
    place = {"file": found.file or None, "line": found.line if found.file else None}
    about = {**target.described(), "kind": _KINDS.get(found.kind, "function"), **place}
    report = lab.report("scaffold", about, _request(target, options), {}, started=started)
    return MEASUREMENT.concluded(report, found)


def search(lab: Lab, target: TargetSpec, options: ScaffoldOptions, tell: Tell | None) -> ScaffoldSearch:
    """Return a search; the arguments and errors are those of `run`."""
    file = own_harness_file(lab.project, target.name)
    lab.warm("scaffold")
    is_kept = is_edited(lab.project, file) or (has_captured_inputs(lab.project, file) and not options.capture)
    if is_kept and not options.overwrite:
        ended = "edited" if is_edited(lab.project, file) else "captured"
        return _run_of_harness(target.name, file, ended, _output(lab, target, options, tell, file))
    found, tensors = _found(lab, target, options, tell)
    if found.ended != "found":
        return found
    write_harness(lab.project, file, harness_text(harness_plan(found)), tensors)
    # New processes may read the files that existed at the last refresh.
    lab.begin_measurement()
    # The report claims that the file runs.
    try:
        return replace(found, harness=file, output=_output(lab, target, options, tell, file))
    except WorkerError as error:
        remove_harness(lab.project, file)
        failed = ScaffoldRun("call", error.problem[:_MOST_TEXT], "", "")
        return replace(found, ended="unstable", runs=(*found.runs, failed))


def find_arguments(
    lab: Lab, root: Path, target: TargetSpec, options: ScaffoldOptions, tell: Tell | None
) -> ScaffoldSearch:
    """Return a search in a folder that the lab can read, such as another revision; writes no harness.

    The arguments and errors are those of `run`.

    Args:
        lab: The lab.
        root: Folder for resolving the target's name.
        target: Class, method or function.
        options: Limits of the search.
        tell: Progress callback.
    """
    lab.warm("scaffold")
    return _found(lab, target, options, tell, root)[0]


def _found(
    lab: Lab, target: TargetSpec, options: ScaffoldOptions, tell: Tell | None, root: Path | None = None
) -> tuple[ScaffoldSearch, Path | None]:
    answer, tensors = _answer(lab, target, options, tell, root=root)
    # The target's code runs in that process, and must not name another target or file.
    return replace(answer.read(ScaffoldSearch), target=target.name, harness="", artifacts=()), tensors


def _shape(text: str) -> list[int]:
    """Return the sizes of a shape.

    Raises:
        UsageError: It is not a list of sizes.
    """
    sizes = [each.strip() for each in text.split(",")]
    if not all(size.isdecimal() and len(size) <= _MOST_DIGITS for size in sizes) or len(sizes) > _MOST_DIMENSIONS:
        raise UsageError(f"--shape {text!r} is no list of sizes", remedy="write it as in --shape 8,3,32,32")
    return [int(size) for size in sizes]


def _given(name: str, text: str) -> list[list[str]]:
    """Return stated arguments as pairs of a name, empty for a positional one, and a literal or `...`.

    Raises:
        UsageError: They are no arguments of a call, or neither literals nor `...`.
    """
    try:
        node = cast("ast.Call", ast.parse(f"f({text[:_MOST_ARGUMENT_TEXT]})", mode="eval").body)
        given = [("", each) for each in node.args] + [(each.arg or "", each.value) for each in node.keywords]
        return [[name, "..." if _is_open(each) else repr(ast.literal_eval(each))] for name, each in given]
    except (AttributeError, SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        remedy = f'write numbers, texts, lists or ..., as in --{name} "dim=64, heads=..."'
        raise UsageError(f"--{name} {text[:_MOST_TEXT]!r} is no list of arguments", remedy=remedy) from None


def _is_open(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _output(lab: Lab, target: TargetSpec, options: ScaffoldOptions, tell: Tell | None, harness: str) -> str:
    """Run a harness once and return a description of what the target returned."""
    return _answer(lab, target, options, tell, harness)[0].read(HarnessRun).output


def _answer(
    lab: Lab,
    target: TargetSpec,
    options: ScaffoldOptions,
    tell: Tell | None,
    harness: str = "",
    *,
    root: Path | None = None,
) -> tuple[WorkerReply, Path | None]:
    """Return the reply of a measurement process, and the file of captured tensors."""
    request: JsonObject = {
        **_request(target, options),
        "shape": _shape(options.shape) if options.shape else [],
        "batch": options.batch,
        "make": _given("make", options.make),
        "call": _given("call", options.call),
        "root": str(root or lab.project),
        "name": target.name,
        "harness": harness,
        "capture": options.capture,
        "values": not options.shapes_only,
        "memory_bytes": lab.settings.memory_bytes,
    }
    patience_s = lab.settings.timeout_s if harness else lab.settings.timeout_s / 2 + options.seconds
    if options.capture:
        patience_s += lab.settings.timeout_s
    with lab.worker(root=root, device="cpu") as worker:
        named = f"{harness}:make" if harness else target.name
        answer = worker.ask("scaffold", request, timeout_s=patience_s, tell=tell or lab.tell, name=named)
        made = [lab.kept(worker.scratch, artifact).path for artifact in answer.read(WrittenFiles).artifacts]
    return answer, made[0] if made else None


def _request(target: TargetSpec, options: ScaffoldOptions) -> JsonObject:
    """Return the options as stored in reports."""
    capture: JsonObject = {"capture": options.capture, "shapes_only": options.shapes_only} if options.capture else {}
    shape: JsonObject = {"shape": options.shape} if options.shape else {}
    batch: JsonObject = {"batch": options.batch} if options.batch else {}
    stated: JsonObject = {name: text for name, text in (("make", options.make), ("call", options.call)) if text}
    return {
        "runs": options.runs,
        "seconds": options.seconds,
        "seed": target.seed,
        **shape,
        **batch,
        **stated,
        **capture,
    }


def _run_of_harness(target: str, harness: str, ended: str, output: str) -> ScaffoldSearch:
    """Return the result of running a harness that stands already."""
    return ScaffoldSearch(
        target=target,
        harness=harness,
        kind="",
        module="",
        qualname="",
        folder="",
        file="",
        line=0,
        make=(),
        call=(),
        runs=(),
        number=1,
        ended=ended,
        output=output,
        trains=False,
    )


def harness_plan(found: ScaffoldSearch) -> HarnessPlan:
    """Return the plan of the harness of a search that found arguments."""
    captured = found.captured
    return HarnessPlan(
        found.target,
        found.kind,
        found.module,
        found.qualname,
        found.folder,
        found.make,
        found.call,
        captured.source if captured else "",
        captured.guessed if captured else (),
        captured is not None and captured.is_whole,
    )


def explained(found: ScaffoldSearch, _subject: ReportSubject) -> ScaffoldResult:
    """Return a search with its conclusions; a pure function of it."""
    return explained_search(found)


def explained_search(found: ScaffoldSearch) -> ScaffoldResult:
    """Return a search with its conclusions, outside a report."""
    captured = found.captured
    is_synthetic = found.ended == "found" and not (captured and captured.is_whole)
    runnable = f"{found.harness}:make" if found.harness else found.target if found.ended == "direct" else ""
    runs = number_of(found.number, "run")
    match found.ended:
        case "found" if captured and captured.is_whole:
            headline = f"runs with the inputs of a call by {captured.source}: {found.output}"
        case "found" if captured and captured.has_values:
            headline = (
                f"runs with captured inputs and {number_of(len(captured.guessed), 'guessed argument')}: {found.output}"
            )
        case "found" if captured:
            headline = f"runs with captured shapes and synthetic values, found in {runs}: {found.output}"
        case "found":
            headline = f"runs with synthetic arguments, found in {runs}: {found.output}"
        case "captured":
            headline = f"runs with the captured call in the project's own harness {found.harness}: {found.output}"
        case "direct":
            headline = f"runs without arguments: {found.output}"
        case "edited":
            headline = f"runs with the project's own harness {found.harness}: {found.output}"
        case _:
            headline = f"no arguments found in {runs}: {_REASONS.get(found.ended, found.ended)}"
    if found.backward:
        headline = f"{headline}; backward raises {_short(found.backward)}"
    return ScaffoldResult(
        **shallow(found),
        status="runs" if runnable else "none",
        headline=headline,
        runnable=runnable,
        is_synthetic=is_synthetic,
        error="" if runnable else _error(found),
    )


def _error(found: ScaffoldSearch) -> str:
    """Return the exception of the run that got furthest: the first one in a call, otherwise the last one."""
    if found.ended in _DECISIVE and found.runs:
        return found.runs[-1].error
    called = next((each.error for each in found.runs if each.stage == "call"), "")
    return called or (found.runs[-1].error if found.runs else "")


def sections(found: ScaffoldResult, _subject: ReportSubject) -> Iterator[ReportSection]:
    """Yield what the terminal shows."""
    style = "green" if found.status == "runs" else "red"
    yield ReportSection((("scaffold", found.headline),), style)
    if failed := [each for each in found.runs if each.error]:
        yield ReportSection(
            heads=("run", "arguments", "exception"),
            cells=tuple(
                (str(number), _short(_arguments(each)), _short(each.error))
                for number, each in enumerate(failed[:_MOST_SHOWN], 1)
            ),
            is_apart=True,
        )
        returned = found.number - len(found.runs) + sum(not each.error for each in found.runs)
        if (more := found.number - returned - _MOST_SHOWN) > 0:
            yield ReportSection(note=f"and {number_of(more, 'run')} more")
    cells = [("constructor", each.name, each.text) for each in found.make]
    cells += [("call", each.name, each.text) for each in found.call]
    if cells:
        yield ReportSection(cells=tuple(cells), is_apart=True)
    pairs = [("error", found.error)] if found.error else []
    pairs += _about_capture(found.captured) if found.captured else []
    if found.ended == "found":
        raised = f"raises {found.backward}" if found.backward else "does not run: no output has a gradient"
        pairs += [("backward", "runs" if found.trains else raised)]
    if found.harness:
        pairs.append(("harness", found.harness))
    if found.runnable:
        pairs.append(("next", f"esper torch profile {quote(found.runnable)}"))
    elif found.ended not in _DECISIVE:
        pairs.append(("next", f"esper torch scaffold {quote(found.target)} --capture SCRIPT.py"))
    yield ReportSection(tuple(pairs), is_apart=True)


def _about_capture(captured: ScaffoldCapture) -> list[tuple[str, str]]:
    sizes = f", with {number_of(len(captured.shapes), 'different shape')}" if len(captured.shapes) > 1 else ""
    pairs = [("captured", f"{number_of(captured.calls, 'call')} by {captured.source}{sizes}; the first one is used")]
    if captured.nbytes and not captured.has_values:
        pairs.append(("values", "synthetic: the tensors of the call are not saved"))
    if captured.unwritten:
        pairs.append(("omitted", f"values that have no source text: {', '.join(captured.unwritten)}"))
    if captured.guessed:
        pairs.append(("guessed", ", ".join(captured.guessed)))
    if captured.ended:
        pairs.append(("ended", f"{captured.source} raised {captured.ended}"))
    return pairs


def _arguments(run: ScaffoldRun) -> str:
    return run.call if run.stage == "call" else run.make


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}..."


def claims(_found: ScaffoldResult, _subject: ReportSubject) -> Iterator[MeasuredClaim]:
    """Yield no diagnostic: a search that ends without arguments says nothing against the code."""
    yield from ()


def outline(target: str, found: ScaffoldResult) -> MeasurementOutline:
    """Return the most important part of a result."""
    facts = {"status": found.status, "runnable": found.runnable, "trains": found.trains, "error": found.error}
    if found.is_synthetic:
        facts["synthetic"] = True
    if found.backward:
        facts["backward_error"] = found.backward
    if found.runs and found.runs[0].error:
        facts["first_error"] = found.runs[0].error
    parts = ("harness", "make", "call", "number", "ended", "output", "headline")
    return MeasurementOutline(f"{target}: {found.headline}", facts, (_SEARCH,), parts)


MEASUREMENT = MeasurementDescriptor(
    kind="scaffold",
    summary="Find arguments with which code runs",
    details=(
        "Guesses the arguments of a class, method or function from its signature and documentation, runs it, and "
        "changes what the exception names until it returns. Writes a harness with these synthetic inputs to "
        "`.esper/harness`, which other measurements take as their target. A harness that "
        "was edited is run, not replaced. With --capture, a script or a test is run, and the arguments of its first "
        "call of the target are used."
    ),
    target="`FILE.py:NAME` or `package.module:Class.method`, with required arguments",
    examples=(
        "esper torch scaffold model.py:Encoder",
        "esper torch scaffold losses.py:focal_loss --capture tests/test_losses.py::test_focal",
        "esper torch scaffold model.py:Encoder --capture train.py",
    ),
    options=ScaffoldOptions,
    run=run,
    measured=ScaffoldSearch,
    result=ScaffoldResult,
    explained=explained,
    sections=sections,
    claims=claims,
    outline=outline,
    compared=("status",),
    is_against=lambda result: result.status == "none",
    fail_on="error",
    fail_help="Exit 3 if no arguments were found",
    has_inputs=False,
)
