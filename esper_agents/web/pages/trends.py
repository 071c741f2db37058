"""Metrics over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.api import amount_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from esper_agents.api import OpenProject, Point
    from esper_agents.web.site import ArchiveSite

_MOST_POINTS = 50
_WIDTH, _HEIGHT, _MARGIN = 680.0, 180.0, 12.0


@dataclass(frozen=True, slots=True)
class Chart:
    """Line of values in a drawing.

    Attributes:
        line: Points of the line, as the attribute `points` of SVG.
        dots: Centres of the values.
        low: Lowest value, as text.
        high: Highest value, as text.
        width: Width of the drawing.
        height: Height of the drawing.
    """

    line: str
    dots: tuple[tuple[float, float], ...]
    low: str
    high: str
    width: float = _WIDTH
    height: float = _HEIGHT


async def listing(_request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return the metrics of the newest certificates."""
    return await site.render(
        project, "trends.html.j2", "trends", metrics=await project.certificates.metrics(), amount=amount_text
    )


async def show(request: Request, site: ArchiveSite, project: OpenProject) -> Response:
    """Return one metric over the newest certificates that have it."""
    metric = request.path_params["metric"]
    points = await project.certificates.trend(metric, limit=_MOST_POINTS)
    name = points[0].name if points else metric
    return await site.render(
        project, "trend.html.j2", "trends", name=name, points=points, chart=_chart(points), amount=amount_text
    )


def _chart(points: Sequence[Point]) -> Chart:
    amounts = [point.amount for point in points]
    low, high = min(amounts, default=0.0), max(amounts, default=0.0)
    # Halved before subtraction: the range of two floats may overflow.
    span = high / 2 - low / 2
    step = (_WIDTH - 2 * _MARGIN) / max(len(amounts) - 1, 1)
    dots = tuple(
        (
            round(_MARGIN + number * step, 1),
            round(_HEIGHT - _MARGIN - ((each / 2 - low / 2) / span if span else 0.5) * (_HEIGHT - 2 * _MARGIN), 1),
        )
        for number, each in enumerate(amounts)
    )
    return Chart(" ".join(f"{x},{y}" for x, y in dots), dots, amount_text(low), amount_text(high))
