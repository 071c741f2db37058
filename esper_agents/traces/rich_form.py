"""Stack traces in a box, as Rich prints them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.domain.stack_trace import LONGEST_MESSAGE, LONGEST_TEXT, StackTrace, TraceFrame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOP = re.compile(r"\s*╭─+ Traceback \(most recent call last\) ─+╮?")
_BOTTOM = re.compile(r"\s*╰─+")
_FRAME = re.compile(r"(?P<path>\S[^:]*(?::[\\/][^:]*)?):(?P<line>\d+) in (?P<function>\S+)$")
_CELL = re.compile(r"in (?P<function><[^>]*>):(?P<line>\d+)$")
_ARROW = re.compile(r"❱ +(?P<line>\d+) │(?P<text>.*)$")
_TYPE = re.compile(r"\s*(?P<type>[A-Za-z_][\w.]*)(?::\s?(?P<message>.*))?$")
_MOST_LINES = 40


def read(lines: Sequence[str]) -> Iterator[tuple[int, int, StackTrace]]:
    """Yield the traces of a text with the indices of their first and last lines."""
    at = 0
    while at < len(lines):
        if _TOP.match(lines[at]):
            last, trace = _trace(lines, at)
            yield at, last, trace
            at = last
        at += 1


def _trace(lines: Sequence[str], first: int) -> tuple[int, StackTrace]:
    frames: list[TraceFrame] = []
    at = first + 1
    while at < len(lines) and not _BOTTOM.match(lines[at]):
        text = lines[at].strip().removeprefix("│").removesuffix("│").strip()
        if frame := _FRAME.match(text):
            frames.append(TraceFrame(frame["path"], int(frame["line"]), frame["function"]))
        elif cell := _CELL.match(text):
            frames.append(TraceFrame(cell["function"], int(cell["line"]), "<module>"))
        elif (arrow := _ARROW.match(text)) and frames:
            source = arrow["text"].replace("│", " ").strip()[:LONGEST_TEXT]
            frames[-1] = TraceFrame(frames[-1].path, int(arrow["line"]), frames[-1].function, source)
        at += 1
    error = _TYPE.match(lines[at + 1]) if at + 1 < len(lines) else None
    if error is None:
        return min(at, len(lines) - 1), StackTrace("", "", tuple(frames))
    message = [error["message"] or ""]
    for line in lines[at + 2 : at + _MOST_LINES]:
        if not line.strip() or _TOP.match(line):
            break
        message.append(line)
    return at + len(message), StackTrace(error["type"], "\n".join(message)[:LONGEST_MESSAGE], tuple(frames))
