"""Plots of recorded measurements, each next to its numbers.

Evidence is untrusted: non-numeric values and unknown formats are not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.evidence_values import (
    MOST_ROWS,
    bytes_text,
    count_text,
    found_in,
    left_out_of,
    list_in,
    mapping_in,
    number_of,
    numbers_of,
    percent,
    ratio_text,
    watched_number,
    word_of,
)
from esper_agents.certificates.views.chart_shapes import drawn_course, drawn_interval, drawn_watch
from esper_agents.certificates.views.svg import share_bar
from esper_agents.domain.evidence import CallOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.certificates.views.escaping import EscapedText
    from esper_agents.domain.evidence import Evidence

# A ratio beyond this indicates a measurement of something else; its plot would be one long line.
_MOST_RATIO = 1000
_FEW = 6
_LEAST_SHARE = 0.0005


@dataclass(frozen=True, slots=True)
class PlotRow:
    """Row of a plot's table.

    Attributes:
        cells: Values; the first cell is the row label.
        bar: Bar drawn next to them, or None.
    """

    cells: tuple[str, ...]
    bar: EscapedText | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """Plot with its table.

    Attributes:
        title: Title of the plot.
        said: Summary as text.
        drawing: Drawing; None if the rows have bars.
        headers: Column headers.
        rows: Rows of the table.
        left_out: Description of omitted values, or empty.
    """

    title: str
    said: str
    drawing: EscapedText | None
    headers: tuple[str, ...]
    rows: tuple[PlotRow, ...]
    left_out: str = ""

    @property
    def is_long(self) -> bool:
        """Whether the table below a drawing is too long to show in full."""
        return self.drawing is not None and len(self.rows) > _FEW


def plots_of(evidence: Evidence) -> tuple[Plot, ...]:
    """Return the plots of one call; empty if it recorded nothing that can be drawn."""
    draw = _PLOTS.get(evidence.tool)
    if draw is None or evidence.outcome is not CallOutcome.COMPLETED:
        return ()
    return tuple(draw(evidence.output))


def _compared(output: Mapping[str, Any]) -> Iterator[Plot]:
    speedup = mapping_in(output, "verdict", "speedup")
    lower, estimate, upper = (number_of(speedup.get(name)) for name in ("lower", "estimate", "upper"))
    if lower is not None and estimate is not None and upper is not None and 0 < lower <= estimate <= upper:
        yield _interval(output, lower, estimate, upper)
    peaks = [
        (arm, number_of(mapping_in(output, "result", "beside", arm).get("peak_bytes")))
        for arm in ("baseline", "candidate")
    ]
    if all(size is not None for _, size in peaks):
        yield _bars(
            "Memory at the peak of a call",
            ("Of", "Held"),
            [(arm, size or 0.0, bytes_text(size or 0.0)) for arm, size in peaks],
        )


def _interval(output: Mapping[str, Any], lower: float, estimate: float, upper: float) -> Plot:
    asked = number_of(output.get("threshold"))
    sure = number_of(mapping_in(output, "verdict", "speedup").get("confidence"))
    pairs = number_of(mapping_in(output, "verdict").get("replicates"))
    said = f"{ratio_text(estimate)} as fast as the baseline, between {ratio_text(lower)} and {ratio_text(upper)}"
    said += f", with a confidence of {100 * sure:.1f} %" if sure is not None else ""
    said += f", from {pairs:.0f} pairs of fresh processes" if pairs is not None else ""
    said += f"; {ratio_text(asked)} was to be shown" if asked is not None else ""
    rows = [("estimate", estimate), ("lower bound", lower), ("upper bound", upper)]
    rows += [("to be shown", asked)] if asked is not None else []
    drawing = drawn_interval(lower, estimate, upper, asked) if max(upper, asked or 0) <= _MOST_RATIO else None
    numbers = tuple(PlotRow((name, ratio_text(number))) for name, number in rows)
    return Plot("Speed-up and its interval", said, drawing, ("Speed-up", "Baseline over candidate"), numbers)


def _memory(output: Mapping[str, Any]) -> Iterator[Plot]:
    result = mapping_in(output, "result")
    leak = mapping_in(result, "leak")
    held, left_out = numbers_of(leak.get("live_bytes"))
    if len(held) > 1:
        step = number_of(leak.get("bytes_per_step"))
        said = f"from {bytes_text(held[0])} after step 1 to {bytes_text(held[-1])} after step {len(held)}"
        said += f"; {bytes_text(step)} more with each step" if step else ""
        yield Plot(
            "Memory held after each step",
            said,
            drawn_course(held, bytes_text, "step", "Bytes held after each step; the numbers stand below"),
            ("Step", "Held"),
            tuple(PlotRow((str(at), bytes_text(size))) for at, size in enumerate(held, 1)),
            left_out,
        )
    phases = list_in(result, "peak", "phases")
    peaks = [(_phase(phase), number_of(phase.get("peak_bytes"))) for phase in phases if isinstance(phase, Mapping)]
    named = [(name, size, bytes_text(size)) for name, size in peaks if size is not None]
    if named:
        left_out = left_out_of(found_in(result, "peak", "phases"))
        yield _bars("Peak of each phase, in order", ("Phase", "Peak"), named, left_out=left_out)
    parts = mapping_in(result, "peak", "split_bytes") or mapping_in(result, "estimate", "split_bytes")
    yield from _shares(parts, "What the peak consists of", ("Part", "Held"), bytes_text)


def _phase(phase: Mapping[str, Any]) -> str:
    return f"step {word_of(phase.get('step'))}, {word_of(phase.get('name'))}"


def _watched(output: Mapping[str, Any]) -> Iterator[Plot]:
    result = mapping_in(output, "result")
    history = [each for each in list_in(result, "history") if isinstance(each, Mapping)][:MOST_ROWS]
    first = mapping_in(result, "first")
    said = word_of(result.get("headline"), "")
    sizes = [watched_number(each.get("largest_gradient")) for each in history]
    if not history or all(size is None for size in sizes):
        return
    rows = tuple(
        PlotRow(
            (
                word_of(each.get("step")),
                word_of(each.get("largest_gradient")),
                word_of(each.get("largest_weight")),
            )
        )
        for each in history
    )
    left_out = left_out_of(result.get("history"))
    title = "Watch for NaN and Inf: largest gradient of each step"
    if first:
        title += f", the first {word_of(first.get('holds'))} in step {word_of(first.get('step'))}"
    yield Plot(title, said, drawn_watch(sizes), ("Step", "Largest gradient", "Largest weight"), rows, left_out)


def _profiled(output: Mapping[str, Any]) -> Iterator[Plot]:
    analysis = mapping_in(output, "result", "analysis")
    yield from _shares(mapping_in(analysis, "shares"), "Where the time of a call goes", ("Bound by", "Part of a call"))
    lines = [each for each in list_in(analysis, "lines") if isinstance(each, Mapping)]
    shares = [
        (f"{word_of(line.get('file'))}:{word_of(line.get('line'))}", number_of(line.get("share"))) for line in lines
    ]
    named = [(place, share, percent(share)) for place, share in shares if share is not None and 0 <= share <= 1]
    if named:
        left_out = left_out_of(analysis.get("lines"))
        headers = ("Line", "Part of a call")
        yield _bars("Lines that take most of it", headers, named, longest=1.0, left_out=left_out)


def _explained(output: Mapping[str, Any]) -> Iterator[Plot]:
    rows = []
    for each in list_in(output, "result", "calls"):
        graphs = number_of(found_in(each, "graphs_run"))
        if graphs is not None:
            more = [count_text(number_of(found_in(each, name))) for name in ("breaks", "recompiles")]
            rows.append((graphs, (word_of(found_in(each, "what")), count_text(graphs), *more)))
    if rows:
        most = max(1.0, *(graphs for graphs, _ in rows))
        yield Plot(
            "Graphs that run in a call",
            word_of(found_in(output, "result", "headline"), ""),
            None,
            ("Call with", "Graphs", "Breaks", "Compiled again"),
            tuple(PlotRow(cells, share_bar(graphs / most)) for graphs, cells in rows),
            left_out_of(found_in(output, "result", "calls")),
        )


_PLOTS = {
    "torch-compare": _compared,
    "torch-memory": _memory,
    "torch-nan": _watched,
    "torch-profile": _profiled,
    "torch-explain": _explained,
}


def _shares(parts: Mapping[str, Any], title: str, headers: tuple[str, str], write: Any = None) -> Iterator[Plot]:
    sizes = [(str(name), number_of(size)) for name, size in parts.items()]
    known = sorted(
        ((name, size) for name, size in sizes if size is not None and size >= 0), key=lambda each: (-each[1], each[0])
    )
    total = sum(size for _, size in known)
    if not total or not isfinite(total):
        return
    shown = [
        (name, size, write(size) if write else percent(size)) for name, size in known if size / total >= _LEAST_SHARE
    ]
    yield _bars(title, headers, shown, longest=total)


def _bars(
    title: str,
    headers: tuple[str, str],
    rows: Sequence[tuple[str, float, str]],
    *,
    longest: float = 0.0,
    left_out: str = "",
) -> Plot:
    most = longest or max((size for _, size, _ in rows), default=0.0) or 1.0
    drawn = tuple(PlotRow((name, text), share_bar(size / most)) for name, size, text in rows[:MOST_ROWS])
    return Plot(title, "", None, headers, drawn, left_out)
