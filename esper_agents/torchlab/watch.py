"""Count how often lines run when a target is called, and record a raised exception."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell

CALLS = 3


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


def watch(
    lab: Lab,
    target: TargetSpec,
    spans: Sequence[LineRange],
    *,
    calls: int = CALLS,
    train: bool = False,
    tell: Tell | None = None,
) -> MeasurementReport:
    """Call a target and count the runs of project lines.

    A target that raises is not an error here: the exception and its location are a result.

    Args:
        lab: Lab for the calls.
        target: The called target.
        spans: Lines to watch; for a statement over several lines, the highest count applies.
        calls: Number of calls, each on new inputs.
        train: Also run backward.
        tell: Progress callback.

    Returns:
        A report whose `result` has `calls`, `lines` (each with `times` and `said`), `raised` and `headline`.

    Raises:
        UsageError: The target cannot be used, or there is nothing to watch.
        WorkerError: It hung or crashed.
    """
    if not spans:
        raise UsageError("there is no line to watch", remedy="name one with --line FILE:LINE")
    if calls < 1:
        raise UsageError(f"invalid number of calls: {calls}", remedy="use --calls 1 or more")
    by_file: dict[str, list[list[int]]] = {}
    for each in sorted({(span.path, span.line, span.end_line) for span in spans}):
        by_file.setdefault(each[0], []).append([each[1], each[2]])
    asked = {"root": str(lab.project), "lines": by_file, "calls": calls, "train": train, "seed": target.seed}
    report = lab.job("watch", target, asked, tell=tell)
    request = {name: asked[name] for name in ("lines", "calls", "train", "seed")}
    return replace(report, body={**report.body, "request": request, "result": explained(report.result)})


def explained(result: JsonObject) -> JsonObject:
    """Return the counts with their conclusions; a pure function of the counts."""
    calls, raised = result["calls"], result["raised"]
    lines = [{**each, "said": _said(each, calls, raised)} for each in result["lines"]]
    came = f"{calls} calls came back" if calls > 1 else "one call came back"
    headline = came if raised is None else f"call {calls} raised {_error(raised)}"
    return {**result, "lines": lines, "headline": headline}


def raises_at(raised: JsonObject | None, line: JsonObject) -> bool:
    """Return whether the exception that ended a call was raised on a watched line, or below it in library code."""
    frames = raised["frames"] if raised else []
    if not frames:
        return False
    last = frames[-1]
    return bool(last["file"] == line["file"] and line["line"] <= last["line"] <= line["end_line"])


def _said(line: JsonObject, calls: int, raised: Any) -> str:
    if raises_at(raised, line):
        return f"raises {_error(raised)}"
    if not line["times"]:
        return "does not run"
    times = "once" if line["times"] == 1 else f"{line['times']} times"
    return f"runs {times} in {calls} calls" if calls > 1 else f"runs {times} in one call"


def _error(raised: JsonObject) -> str:
    first = (str(raised["message"]).splitlines() or [""])[0]
    return f"{raised['type']}: {first[:200]}" if first else str(raised["type"])
