"""SVG shapes of the plots: interval, time series and non-finite values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.certificates.evidence_values import power_of, ratio_text
from esper_agents.certificates.views.svg import WIDTH, Drawing, Scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.certificates.views.escaping import EscapedText


def drawn_interval(lower: float, estimate: float, upper: float, asked: float | None) -> EscapedText:
    """Return the plot of an estimate with its interval, and the required value if there is one."""
    known = [1.0, lower, upper, *([asked] if asked is not None else [])]
    room = 0.08 * ((max(known) - min(known)) or 1.0)
    scale = Scale(min(known) - room, max(known) + room)
    drawing = Drawing(118, "The interval of the speed-up against what was to be shown; the numbers stand below")
    drawing.line([(scale.start, 84), (scale.end, 84)], "axis")
    drawing.line([(scale.at(1.0), 78), (scale.at(1.0), 90)], "axis")
    drawing.label(scale.at(1.0), 108, "1x: no faster")
    if asked is not None:
        drawing.line([(scale.at(asked), 24), (scale.at(asked), 84)], "asked")
        drawing.label(scale.at(asked), 16, f"to be shown: {ratio_text(asked)}")
    drawing.band(scale.at(lower), scale.at(upper), 50, 14)
    drawing.line([(scale.at(lower), 46), (scale.at(lower), 68)], "course")
    drawing.line([(scale.at(upper), 46), (scale.at(upper), 68)], "course")
    drawing.dot(scale.at(estimate), 57)
    drawing.label(scale.at(estimate), 40, ratio_text(estimate), "label strong")
    return drawing.finished()


def drawn_course(sizes: Sequence[float], write: Callable[[float], str], unit: str, says: str) -> EscapedText:
    """Return the plot of values over consecutive units, with the axis from zero.

    Args:
        sizes: Values, the first one for unit 1.
        write: Formats a value.
        unit: Name of the unit of the horizontal axis.
        says: Alternative text of the drawing.
    """
    across = Scale(1, len(sizes), 96, WIDTH - 12)
    up = Scale(min(0.0, *sizes), max(0.0, *sizes), 112, 16)
    drawing = Drawing(142, says)
    drawing.line([(88, 8), (88, up.at(0.0)), (WIDTH - 4, up.at(0.0))], "axis")
    points = [(across.at(at), up.at(size)) for at, size in enumerate(sizes, 1)]
    drawing.line(points, "course")
    for point in points:
        drawing.dot(*point)
    drawing.label(4, up.at(max(0.0, *sizes)) + 4, write(max(0.0, *sizes)))
    drawing.label(4, up.at(0.0) + 4, "0")
    drawing.label(across.start, 136, f"{unit} 1")
    drawing.label(across.end, 136, f"{unit} {len(sizes)}")
    return drawing.finished()


def drawn_watch(sizes: Sequence[float | str | None]) -> EscapedText:
    """Return the plot of step sizes on a logarithmic scale; a non-finite size is a cross with its word."""
    powers = [power_of(size) if isinstance(size, float) and size > 0 else None for size in sizes]
    known = [power for power in powers if power is not None] or [0.0]
    finite = [size for size in sizes if isinstance(size, float) and size > 0]
    across = Scale(0, max(len(sizes) - 1, 1), 96, WIDTH - 20)
    up = Scale(min(known) - 0.5, max(known) + 0.5, 112, 36)
    drawing = Drawing(142, "The largest gradient of each step on a logarithmic scale; the numbers stand below")
    drawing.line([(88, 24), (88, 120), (WIDTH - 8, 120)], "axis")
    drawing.line([(across.at(at), up.at(power)) for at, power in enumerate(powers) if power is not None], "course")
    for at, (size, power) in enumerate(zip(sizes, powers, strict=True)):
        if power is not None:
            drawing.dot(across.at(at), up.at(power))
        elif isinstance(size, str):
            drawing.cross(across.at(at), 24)
            drawing.label(across.at(at), 14, size, "label strong")
    if finite:
        drawing.label(4, up.at(max(known)) + 4, f"{max(finite):.3g}")
        if max(known) > min(known):
            drawing.label(4, up.at(min(known)) + 4, f"{min(finite):.3g}")
    drawing.label(WIDTH - 8, 136, "step")
    return drawing.finished()
