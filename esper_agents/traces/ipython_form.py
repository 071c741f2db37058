"""Stack traces as IPython and Jupyter print them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.domain.stack_trace import LONGEST_MESSAGE, LONGEST_TEXT, StackTrace, TraceFrame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HEADER = re.compile(r"\s*(?P<type>[A-Za-z_][\w.]*) {3,}Traceback \(most recent call last\)\s*$")
_FRAME = re.compile(
    r"""\s*(?:
    File\ (?P<file>[^"\n]+?):(?P<line>\d+)(?:,\ in\ (?P<function>.+))?
    |(?P<cell>(?:Cell\ In|Input\ In)\ ?\[\d+\]),?\ (?:line\ (?P<cell_line>\d+).*
        |in\ <cell\ line:\ (?P<old_cell_line>\d+)>.*)
    |(?P<old>(?:<ipython-input-[\w-]+>|/\S+|~\S+|[A-Za-z]:\\\S+))\ in\ (?P<old_function>[\w<>.]+)(?P<arguments>\(.*\))?
    )\s*$""",
    re.VERBOSE,
)
_ARROW = re.compile(r"\s*-+> ?(?P<line>\d+) ?(?P<text>.*)$")
_NUMBERED = re.compile(r"\s*\d+ ?.*$")
_MOST_LINES = 40


def read(lines: Sequence[str]) -> Iterator[tuple[int, int, StackTrace]]:
    """Yield the traces of a text with the indices of their first and last lines."""
    at = 0
    while at < len(lines):
        if header := _HEADER.match(lines[at]):
            last, trace = _trace(lines, at, header["type"])
            yield at, last, trace
            at = last + 1
        else:
            at += 1


def _trace(lines: Sequence[str], first: int, exception: str) -> tuple[int, StackTrace]:
    frames: list[TraceFrame] = []
    at = first + 1
    end = re.compile(rf"\s*(?:[\w.]*\.)?{re.escape(exception.rpartition('.')[2])}(?::\s?(?P<message>.*))?$")
    while at < len(lines) and not _HEADER.match(lines[at]):
        if frame := _FRAME.match(lines[at]):
            frames.append(_frame(frame))
        elif (arrow := _ARROW.match(lines[at])) and frames:
            frames[-1] = TraceFrame(
                frames[-1].path, int(arrow["line"]), frames[-1].function, arrow["text"].strip()[:LONGEST_TEXT]
            )
        elif match := end.match(lines[at]):
            last, message = _message(lines, at, match["message"] or "")
            return last, StackTrace(exception, message, tuple(frames))
        at += 1
    return at - 1, StackTrace(exception, "", tuple(frames))


def _message(lines: Sequence[str], at: int, first: str) -> tuple[int, str]:
    message = [first]
    for line in lines[at + 1 : at + _MOST_LINES]:
        if not line.strip() or line.startswith("```") or _HEADER.match(line):
            break
        message.append(line)
    return at + len(message) - 1, "\n".join(message)[:LONGEST_MESSAGE]


def _frame(match: re.Match[str]) -> TraceFrame:
    if match["cell"]:
        return TraceFrame(match["cell"], int(match["cell_line"] or match["old_cell_line"] or 0), "<module>")
    if match["old"]:
        return TraceFrame(match["old"], 0, match["old_function"])
    name = (match["function"] or "").partition("(")[0]
    return TraceFrame(match["file"], int(match["line"]), name)
