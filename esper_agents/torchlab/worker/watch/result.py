"""Result of the job `watch`."""

from __future__ import annotations

from dataclasses import dataclass

from ..results import UserFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedLine:
    """Watched lines with the number of their runs, and that number in words."""

    file: str
    line: int
    end_line: int
    times: int
    said: str = ""


@dataclass(frozen=True, slots=True)
class RaisedException:
    """Exception that ended the last call: its type, its message and the frames of the project, innermost last."""

    type: str
    message: str
    frames: tuple[UserFrame, ...]

    def is_raised_at(self, line: WatchedLine) -> bool:
        """Return whether it was raised on watched lines, or below them in library code."""
        last = self.frames[-1] if self.frames else None
        return last is not None and last.file == line.file and line.line <= last.line <= line.end_line

    def __str__(self) -> str:
        """Return type and first line of the message."""
        first = (self.message.splitlines() or [""])[0]
        return f"{self.type}: {first[:200]}" if first else self.type


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchResult:
    """Result of watching lines.

    Attributes:
        calls: Number of calls that were started.
        lines: The lines.
        raised: Exception that ended the last call; None without one.
        headline: The result in one sentence.
    """

    calls: int
    lines: tuple[WatchedLine, ...]
    raised: RaisedException | None
    headline: str = ""
