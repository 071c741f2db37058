"""Stack traces: exceptions with their messages and frames, as printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Bounds of what a trace keeps of a text; recursion prints the same frames a thousand times.
MOST_FRAMES = 120
MOST_CAUSES = 8
LONGEST_MESSAGE = 6_000
LONGEST_TEXT = 300


@dataclass(frozen=True, slots=True)
class TraceFrame:
    """One frame of a stack trace.

    Attributes:
        path: File as printed: of any machine, or a notebook cell such as `Cell In[3]`.
        line: Line, from 1; 0 if the trace does not print it.
        function: Name of the function; empty if it is not printed.
        text: Source line as printed, without indentation; empty if it is not printed.
        marked: Part of the text that the trace underlines with `^` and `~`; empty if it underlines none.
    """

    path: str
    line: int
    function: str = ""
    text: str = ""
    marked: str = ""


@dataclass(frozen=True, slots=True)
class StackTrace:
    """An exception as printed, bounded in size.

    Attributes:
        exception: Type of the exception as printed, such as `torch.OutOfMemoryError`; empty if the trace is truncated.
        message: Message, with its notes and without the C++ stack that torch appends.
        frames: Frames, outermost first; empty for an error line without a trace.
        cause: Exception that it was raised from, or whose handling it interrupted.
        origin: Process that printed it, such as `rank 0` or `worker process 1`; empty if it is not printed.
    """

    exception: str
    message: str
    frames: tuple[TraceFrame, ...] = ()
    cause: StackTrace | None = None
    origin: str = ""

    @property
    def type_name(self) -> str:
        """Type of the exception without its module."""
        return self.exception.rpartition(".")[2]

    @property
    def headline(self) -> str:
        """Type and first line of the message, as the last line of a trace shows them."""
        first = self.message.strip().partition("\n")[0]
        return f"{self.exception}: {first}" if self.exception and first else self.exception or first

    @property
    def chain(self) -> Iterator[StackTrace]:
        """The exception and its causes, the latest first."""
        trace: StackTrace | None = self
        while trace is not None:
            yield trace
            trace = trace.cause
