"""SVG plots of a report: time of a call by part, and memory over time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from esper_agents.domain.quantities import bytes_text, percent, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.torchlab.profiling.result import BottleneckAnalysis

_WIDTH, _LEFT, _RIGHT, _ROW = 960, 380, 150, 22
_CHART = _WIDTH - _LEFT - _RIGHT
_COLOURS = {
    "compute": "#3b6fb6",
    "bandwidth": "#c4772d",
    "dispatch": "#8a8a8a",
    "allocation": "#a03c5a",
    "cpu-compute": "#3b6fb6",
    "memory-bandwidth": "#c4772d",
    "dispatch-and-python": "#8a8a8a",
    "memory-allocation": "#a03c5a",
    "data-loading": "#4c8a4a",
    "synchronisation": "#7a5aa6",
    "gpu": "#2f8f8f",
}
# XML 1.0 cannot represent these characters, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_BARS = 12
_LONGEST_LABEL = 56
_LEAST_SHARE = 0.005


@dataclass
class _Drawing:
    """SVG elements of a drawing, from top to bottom.

    Attributes:
        height: Height used so far.
    """

    height: int = 16
    parts: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", weight: str = "normal"
    ) -> None:
        clean = escape(_FORBIDDEN.sub("\ufffd", text))
        style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" {style}>{clean}</text>')

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height}" fill="{colour}"/>'
        )

    def heading(self, text: str) -> None:
        self.height += 26
        self.text(16, self.height, text, size=15, weight="bold")
        self.height += 10

    def bars(self, rows: Sequence[tuple[str, float, str, str]]) -> None:
        """Draw a bar for each label, share of 1, colour and trailing text."""
        longest = max((share for _, share, _, _ in rows), default=1.0) or 1.0
        for label, share, colour, behind in rows:
            shown = label if len(label) <= _LONGEST_LABEL else f"\u2026{label[1 - _LONGEST_LABEL :]}"
            self.text(_LEFT - 8, self.height + 15, shown, anchor="end")
            self.bar(_LEFT, self.height + 4, _CHART * share / longest, _ROW - 8, colour)
            self.text(_LEFT + _CHART * share / longest + 6, self.height + 15, behind)
            self.height += _ROW

    def steps(self, points: Sequence[tuple[float, float]], *, height: int = 160) -> None:
        """Draw bytes over nanoseconds as a step curve, with the peak and the length labelled."""
        until, sizes = points[-1][0] or 1.0, [size for _, size in points]
        # Memory allocated earlier may be freed, which makes the curve negative.
        lowest, peak = min(0, *sizes), max(0, *sizes)
        scale = height / ((peak - lowest) or 1.0)
        bottom = self.height + 10 + height
        zero = bottom + scale * lowest
        path = [f"M{_LEFT} {zero - scale * sizes[0]:.1f}"]
        for at, size in points[1:]:
            path.append(f"H{_LEFT + _CHART * at / until:.1f}V{zero - scale * size:.1f}")
        self.parts.append(f'<path d="{"".join(path)}" fill="none" stroke="{_COLOURS["compute"]}" stroke-width="1.2"/>')
        self.parts.append(f'<path d="M{_LEFT} {bottom - height}V{bottom}" fill="none" stroke="#444"/>')
        self.parts.append(f'<path d="M{_LEFT} {zero:.1f}H{_LEFT + _CHART}" fill="none" stroke="#444"/>')
        self.text(_LEFT - 8, bottom - height + 10, bytes_text(peak), anchor="end")
        self.text(_LEFT - 8, zero, "0", anchor="end")
        self.text(_LEFT + _CHART, bottom + 16, time_text(until), anchor="end")
        self.height = bottom + 24

    def finished(self) -> str:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{self.height + 16}" '
        head += f'viewBox="0 0 {_WIDTH} {self.height + 16}" font-family="system-ui, sans-serif" fill="#222">'
        return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *self.parts, "</svg>", ""])


def profile_plot(name: str, analysis: BottleneckAnalysis, timeline: Sequence[tuple[float, float]]) -> str:
    """Return a plot of a profile.

    Args:
        name: Name of the target.
        analysis: The analysis.
        timeline: Nanoseconds since the start of a call, and allocated bytes; empty without allocations.
    """
    drawing = _Drawing()
    drawing.heading(f"{name}: {time_text(analysis.call.ns)} a call, bound by {analysis.bottleneck}")
    shares = sorted(analysis.shares.items(), key=lambda each: -each[1])
    drawing.bars([(kind, share, _COLOURS[kind], percent(share)) for kind, share in shares if share >= _LEAST_SHARE])
    drawing.heading("Operations, as part of a call")
    drawing.bars(
        [
            (row.label, row.share, _COLOURS[row.bound], f"{percent(row.share)} {row.bound}")
            for row in analysis.operations[:_MOST_BARS]
        ]
    )
    if len(timeline) > 1:
        drawing.heading("Memory held during a call, above what there was before")
        drawing.steps(timeline)
    return drawing.finished()


def memory_plot(
    title: str, timelines: Sequence[tuple[str, Sequence[tuple[float, float]]]], bars: Sequence[tuple[str, int]] = ()
) -> str:
    """Return a plot of memory.

    Args:
        title: Title of the plot.
        timelines: Curves with headings: nanoseconds (or step numbers) and allocated bytes.
        bars: Categories with their bytes, such as parameters and activations.
    """
    drawing = _Drawing()
    drawing.heading(title)
    total = sum(size for _, size in bars) or 1
    drawing.bars([(what, size / total, _COLOURS["compute"], bytes_text(size)) for what, size in bars])
    for heading, points in timelines:
        drawing.heading(heading)
        if len(points) > 1:
            drawing.steps(points)
    return drawing.finished()
