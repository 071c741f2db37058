"""Place in the user's code, as measurements report it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlace:
    """Line of the user's code, with its function and text; of a function that is not known by line, its name."""

    file: str = ""
    line: int = 0
    function: str = ""
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedReport:
    """Report on a line of the user's code.

    Attributes:
        place: The line; None if unknown.
        outside: Place outside the project; None if unknown.
    """

    place: SourcePlace | None = None
    outside: str | None = None

    @property
    def where(self) -> str:
        """`file:line in function`, or the known part of it."""
        at = self.place
        return f"{at.file}:{at.line} in {at.function}" if at else self.outside or "place unknown"

    @property
    def source(self) -> tuple[int, str] | None:
        """Number and text of the line; None if unknown."""
        return None if self.place is None else (self.place.line, self.place.source or "")

    @property
    def at(self) -> tuple[str, int]:
        """File and line; empty and 0 if unknown."""
        return ("", 0) if self.place is None else (self.place.file, self.place.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedFailure(PlacedReport):
    """Reason why torch could not trace code.

    Attributes:
        kind: Torch's name for it.
        explanation: Torch's explanation.
        hints: Torch's hints.
        page: Number of the documentation page.
        link: Address of that page.
        context: Torch's description of the code.
        after: What torch did after it.
        change: Remedy.
    """

    kind: str | None = None
    explanation: str | None = None
    hints: tuple[str, ...] | None = None
    page: str | None = None
    link: str | None = None
    context: str | None = None
    after: str | None = None
    change: str | None = None
