"""Small SVG drawings that take their colours from the page.

Texts are escaped, and numbers are formatted alike on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from esper_agents.certificates.views.escaping import EscapedText, shortened, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 480
_MARGIN = 8
_LONGEST_LABEL = 40
# Closer to an edge than this fraction of the width, a label is aligned away from it.
_EDGE = 0.3


@dataclass
class Drawing:
    """Marks and labels in a frame of fixed width.

    Attributes:
        height: Height of the frame.
        says: Alternative text for screen readers.
        parts: SVG elements, in drawing order.
    """

    height: int
    says: str
    parts: list[str] = field(default_factory=list)

    def line(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Draw a line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline class="{style}" points="{path}"/>')

    def band(self, left: float, right: float, top: float, height: float) -> None:
        """Draw a filled band."""
        wide = max(right - left, 1.0)
        self.parts.append(
            f'<rect class="band" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{height:.1f}" rx="2"/>'
        )

    def dot(self, x: float, y: float) -> None:
        """Draw a round mark."""
        self.parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')

    def cross(self, x: float, y: float) -> None:
        """Draw a cross mark, distinct from a dot."""
        self.parts.append(f'<path class="cross" d="M{x - 4:.1f} {y - 4:.1f}l8 8M{x - 4:.1f} {y + 4:.1f}l8 -8"/>')

    def label(self, x: float, y: float, text: str, style: str = "label") -> None:
        """Write a text next to a point, towards the middle of the drawing."""
        anchor = "start" if x < WIDTH * _EDGE else "end" if x > WIDTH * (1 - _EDGE) else "middle"
        said = escape(shortened(visible(text), _LONGEST_LABEL))
        self.parts.append(f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{said}</text>')

    def finished(self) -> EscapedText:
        """Return the drawing as an SVG element."""
        head = f'<svg class="plot" viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(self.says)}">'
        return EscapedText(f"{head}{''.join(self.parts)}</svg>")


@dataclass(frozen=True, slots=True)
class Scale:
    """Linear scale from numbers to coordinates.

    Attributes:
        least: Number at the start.
        most: Number at the end.
        start: Coordinate of the start.
        end: Coordinate of the end.
    """

    least: float
    most: float
    start: float = _MARGIN
    end: float = WIDTH - _MARGIN

    def at(self, number: float) -> float:
        """Return the coordinate of a number."""
        span = self.most - self.least
        return self.start + (self.end - self.start) * ((number - self.least) / span if span else 0.5)


def share_bar(share: float) -> EscapedText:
    """Return a bar that fills a fraction of its width, from 0 to 1."""
    wide = 100 * min(max(share, 0.0), 1.0)
    track = '<rect class="track" width="100" height="8"/>'
    return EscapedText(
        '<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'{track}<rect class="fill" width="{wide:.1f}" height="8"/></svg>'
    )
