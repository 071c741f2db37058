"""Stack frames from texts and exceptions."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in ([^\s,]+)')
_RESUMED = re.compile(r"^(?:torch_dynamo|__torch_dynamo)_resume_in_(.+?)_at_\d+$")


@dataclass(frozen=True)
class StackFrame:
    """One entry of a stack.

    Attributes:
        filename: As Python knows it.
        line: From 1.
        function: The function's name; for the rest of one that dynamo resumes, the name of the whole.
    """

    filename: str
    line: int
    function: str


def frame(filename: str, line: int, function: str) -> StackFrame:
    """Return a frame with the function's own name, where dynamo gave the rest of it another."""
    resumed = _RESUMED.match(function)
    return StackFrame(filename, line, resumed[1] if resumed else function)


def frames_in(text: str) -> list[StackFrame]:
    """Return the frames that a message prints, outermost first."""
    return [frame(name, int(line), function) for name, line, function in _FRAME.findall(text)]


def frames_of(error: BaseException) -> list[StackFrame]:
    """Return the frames that an exception knows: where it was raised, then where torch says that it comes from."""
    raised = [frame(each.filename, each.lineno or 1, each.name) for each in traceback.extract_tb(error.__traceback__)]
    said = frames_in(str(error))
    known = getattr(error, "real_stack", None) or ()
    return raised + [frame(each.filename, each.lineno or 1, each.name) for each in known] + said
