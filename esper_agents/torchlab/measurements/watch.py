"""Count how often lines run when a target is called, and record a raised exception."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.errors import UsageError
from esper_agents.torchlab.measurement import (
    MeasurementDescriptor,
    MeasurementOutline,
    ReportSection,
    option,
    train_option,
)
from esper_agents.torchlab.worker.watch.result import RaisedException, WatchedLine, WatchResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import MeasuredClaim, ReportSubject
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell

_LINES = re.compile(r"(?P<file>.+):(?P<line>[1-9]\d{0,8})(?:-(?P<last>[1-9]\d{0,8}))?")
_TRACE = "a trace of the line"


@dataclass(frozen=True, slots=True)
class LineRange:
    """Range of lines in a file.

    Attributes:
        path: Relative to the project, with forward slashes.
        line: First line, from 1.
        end_line: Last line.
    """

    path: str
    line: int
    end_line: int

    def __str__(self) -> str:
        """Return `FILE:LINE` or `FILE:LINE-LINE`."""
        return f"{self.path}:{self.line}" + (f"-{self.end_line}" if self.end_line != self.line else "")

    @staticmethod
    def parse(text: str) -> LineRange:
        """Return the lines that `FILE:LINE` or `FILE:FIRST-LAST` names.

        Raises:
            UsageError: The text names no line.
        """
        found = _LINES.fullmatch(text)
        if found is None or int(found["last"] or found["line"]) < int(found["line"]):
            raise UsageError(f"{text!r} names no line", remedy="write FILE:LINE or FILE:FIRST-LAST")
        return LineRange(found["file"], int(found["line"]), int(found["last"] or found["line"]))


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Options of `esper torch watch`; for a statement over several lines, the highest count applies."""

    line: tuple[LineRange, ...] = option(
        MISSING,
        "Line or range FILE:FIRST-LAST (repeatable)",
        metavar="FILE:LINE",
        is_target=True,
        parse=LineRange.parse,
        type_=list[str],
    )
    calls: int = option(3, "Number of calls", metavar="N", least=1)
    train: bool = train_option()


def run(lab: Lab, target: TargetSpec, options: WatchOptions, tell: Tell | None) -> MeasurementReport:
    """Call a target and count the runs of project lines.

    A target that raises is not an error here: the exception and its location are a result.

    Args:
        lab: Lab for the calls, each of which gets new inputs.
        target: The called target.
        options: The lines and the number of calls.
        tell: Progress callback.

    Returns:
        A report whose `result` is a `WatchResult` as JSON.

    Raises:
        UsageError: The target cannot be used, or there is nothing to watch.
        WorkerError: It hung or crashed.
    """
    if not options.line:
        raise UsageError("there is no line to watch", remedy="name one with --line FILE:LINE")
    if options.calls < 1:
        raise UsageError(f"invalid number of calls: {options.calls}", remedy="use --calls 1 or more")
    by_file: dict[str, list[list[int]]] = {}
    for path, line, end_line in sorted({(each.path, each.line, each.end_line) for each in options.line}):
        by_file.setdefault(path, []).append([line, end_line])
    request = {"lines": by_file, "calls": options.calls, "train": options.train, "seed": target.seed}
    report = lab.job("watch", target, {**request, "root": str(lab.project)}, tell=tell)
    return MEASUREMENT.concluded(replace(report, body={**report.body, "request": request}))


def explained(result: WatchResult, _subject: ReportSubject) -> WatchResult:
    """Return the counts with their conclusions."""
    calls, raised = result.calls, result.raised
    lines = tuple(replace(line, said=_said(line, calls, raised)) for line in result.lines)
    came = f"{calls} calls came back" if calls > 1 else "one call came back"
    return replace(result, lines=lines, headline=came if raised is None else f"call {calls} raised {raised}")


def _said(line: WatchedLine, calls: int, raised: RaisedException | None) -> str:
    if raised is not None and raised.is_raised_at(line):
        return f"raises {raised}"
    if not line.times:
        return "does not run"
    times = "once" if line.times == 1 else f"{line.times} times"
    return f"runs {times} in {calls} calls" if calls > 1 else f"runs {times} in one call"


def sections(result: WatchResult, _subject: ReportSubject) -> Iterator[ReportSection]:
    """Yield what the terminal shows."""
    yield ReportSection(note=result.headline, style="green" if result.raised is None else "red")
    cells = tuple((str(LineRange(line.file, line.line, line.end_line)), line.said) for line in result.lines)
    yield ReportSection(cells=cells, is_apart=True)


def claims(_result: WatchResult, _subject: ReportSubject) -> Iterator[MeasuredClaim]:
    """Yield no diagnostic: a count alone is no problem."""
    yield from ()


def outline(target: str, result: WatchResult) -> MeasurementOutline:
    """Return the most important part of a result."""
    status = "returns" if result.raised is None else "raises"
    return MeasurementOutline(f"{target}: {result.headline}", {"status": status}, (_TRACE,))


MEASUREMENT = MeasurementDescriptor(
    kind="watch",
    summary="Count how often lines run",
    details=(
        "Calls the target with new inputs each time, counts the executions of each line and reports the line that "
        "raised. This confirms or refutes a finding of static analysis."
    ),
    examples=(
        'esper torch watch model.py:make_model --input "randn(32,128)" --line model.py:41',
        "esper torch watch train.py:make_step --line train.py:30-34 --calls 10",
    ),
    options=WatchOptions,
    run=run,
    measured=WatchResult,
    result=WatchResult,
    explained=explained,
    sections=sections,
    claims=claims,
    outline=outline,
    is_against=lambda result: result.raised is not None,
    fail_on="error",
    fail_help="Exit 3 if a call raises",
)
