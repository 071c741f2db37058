"""Stack traces as pytest prints them, in its long and short styles."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.domain.stack_trace import LONGEST_MESSAGE, LONGEST_TEXT, StackTrace, TraceFrame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ERROR = re.compile(r"E {2,}(?P<text>.*)$")
_TYPE = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?::\s?(?P<message>.*))?$")
_PLACE = re.compile(
    r"(?P<path>[^\s:][^:\n]*\.(?:py|pyx|ipynb)):(?P<line>\d+): (?:in (?P<function>\S.*)|(?P<type>[A-Z]\w*))?\s*$"
)
_TEXT = re.compile(r">\s(?P<text>\s*\S.*)$")
_DEFINITION = re.compile(r"\s*(?:async )?def (?P<name>\w+)\(")
_TITLE = re.compile(r"_{3,} .* _{3,}$|={5,}")
_NO_TYPE = ("assert", "where", "and", "use", "Use", "At", "Full", "Left", "Right")


def read(lines: Sequence[str]) -> Iterator[tuple[int, int, StackTrace]]:
    """Yield the failures of a pytest report with the indices of their first and last lines."""
    if not any(_ERROR.match(line) for line in lines):
        return
    first = 0
    for at, line in enumerate([*lines, "====="]):
        if _TITLE.match(line):
            if (trace := _failure(lines[first:at])) is not None:
                yield first, at - 1, trace
            first = at


def _failure(lines: Sequence[str]) -> StackTrace | None:
    """Return the trace of one failure; None if the lines report none."""
    frames: list[TraceFrame] = []
    errors: list[str] = []
    function = text = ""
    for index, line in enumerate(lines):
        if error := _ERROR.match(line):
            errors.append(error["text"])
        elif place := _PLACE.match(line):
            following = lines[index + 1].strip() if index + 1 < len(lines) else ""
            source = following if place["function"] and not _ERROR.match(following) else text
            name = place["function"] or function
            frames.append(TraceFrame(place["path"], int(place["line"]), name, source[:LONGEST_TEXT]))
            function = text = ""
        elif match := _TEXT.match(line):
            text = match["text"].strip()
        elif match := _DEFINITION.match(line):
            function = match["name"]
    if not errors:
        return None
    exception, message = _exception(errors, lines)
    return StackTrace(exception, message[:LONGEST_MESSAGE], tuple(frames))


def _exception(errors: Sequence[str], lines: Sequence[str]) -> tuple[str, str]:
    match = _TYPE.match(errors[0])
    if match and match["type"].rpartition(".")[2] not in _NO_TYPE and match["type"].rpartition(".")[2][0].isupper():
        return match["type"], "\n".join([match["message"] or "", *errors[1:]])
    places = [place for line in lines if (place := _PLACE.match(line)) and place["type"]]
    return (places[-1]["type"] if places else "AssertionError"), "\n".join(errors)
