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
        filename: File name as Python reports it.
        line: Line, from 1.
        function: Name of the function; for a resume function of Dynamo, the name of the original.
    """

    filename: str
    line: int
    function: str


def frame(filename: str, line: int, function: str) -> StackFrame:
    """Return a frame with the function's original name, if Dynamo renamed its remainder."""
    resumed = _RESUMED.match(function)
    return StackFrame(filename, line, resumed[1] if resumed else function)


def frames_in(text: str) -> list[StackFrame]:
    """Return the frames printed in a message, outermost first."""
    return [frame(name, int(line), function) for name, line, function in _FRAME.findall(text)]


def frames_of(error: BaseException) -> list[StackFrame]:
    """Return the frames of an exception: its traceback, then the user stack that torch attached."""
    raised = [frame(each.filename, each.lineno or 1, each.name) for each in traceback.extract_tb(error.__traceback__)]
    said = frames_in(str(error))
    known = getattr(error, "real_stack", None) or ()
    return raised + [frame(each.filename, each.lineno or 1, each.name) for each in known] + said
