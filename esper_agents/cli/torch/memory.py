"""Terminal output of `esper torch memory`: peak, its parts, leaks and fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from esper_agents.api.measurement_texts import when
from esper_agents.cli.terminal import one_line
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.quantities import bytes_text, percent

if TYPE_CHECKING:
    from rich.console import Console

    from esper_agents.api import MeasurementReport
    from esper_agents.domain.codec import JsonObject

_LABEL = 9
_MOST = 6
_BAR = 24


def show(report: MeasurementReport, console: Console) -> None:
    """Print the result of a memory measurement.

    Args:
        report: Of kind `memory`.
        console: Output console.
    """
    result = report.result
    _rows(console, [(result["issue"]["type"], result["headline"])], style=_style(result))
    known = result.get("peak") or result.get("estimate")
    if known is not None:
        _parts(known, console)
        _largest(known, console)
    _rows(console, [*_estimated(result), *_limited(result)])
    if "leak" in result:
        _leak(result["leak"], console)
    pairs = [("change", each) for each in result["remedies"]]
    pairs += [("prevent", result["prevention"]), ("verify", result["verify"])]
    _rows(console, pairs)
    _rows(console, [("missing", f"{each['what']}: {each['why']}") for each in result["missing"]], style="yellow")


def _style(result: JsonObject) -> str:
    return "green" if result["issue"]["type"] == "none" else "red"


def _rows(console: Console, pairs: list[tuple[str, str]], *, style: str = "") -> None:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(min_width=_LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in pairs:
        grid.add_row(Text(one_line(label), style=style), Text(one_line(text)))
    console.print(grid)


def _parts(known: JsonObject, console: Console) -> None:
    """Print the parts of the peak, largest first, with a bar for each part."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    peak = max(known["peak_bytes"], 1)
    for name, size in sorted(known["split_bytes"].items(), key=lambda each: -each[1]):
        if size:
            bar = "#" * max(1, round(_BAR * size / peak))
            grid.add_row(Text(name.replace("_", " ")), Text(bytes_text(size)), Text(percent(size / peak)), Text(bar))
    console.print()
    console.print(grid)


def _largest(known: JsonObject, console: Console) -> None:
    grid = Table("at the peak", "bytes", "what", "where", box=None, pad_edge=False, header_style="dim")
    for each in known["largest"][:_MOST]:
        count = f" x {each['count']}" if each["count"] > 1 else ""
        cells = (each["operation"], bytes_text(each["bytes"]), each["category"].replace("_", " ") + count, _place(each))
        grid.add_row(*(Text(one_line(cell), overflow="fold") for cell in cells))
    console.print()
    console.print(grid)
    console.print()


def _place(found: JsonObject) -> str:
    where = f"{found['file']}:{found['line']}" if "file" in found else ""
    return " ".join(filter(None, (where, found.get("module", ""))))


def _estimated(result: JsonObject) -> list[tuple[str, str]]:
    estimate = result.get("estimate")
    if estimate is None:
        return []
    said = bytes_text(estimate["peak_bytes"])
    if "estimate_off" in result:
        said += f", {100 * result['estimate_off']:+.2f} % of what the run allocated"
    pairs = [("unrun", f"worked out without running: {said}")]
    if "without_gradients_bytes" in estimate:
        pairs.append(("", f"under torch.no_grad(): {bytes_text(estimate['without_gradients_bytes'])}"))
    pairs += [
        ("assumed", " ".join(filter(None, (each["place"], each["what"])))) for each in estimate["assumed"][:_MOST]
    ]
    return pairs


def _limited(result: JsonObject) -> list[tuple[str, str]]:
    limit = result.get("limit")
    if limit is None or "peak_bytes" not in limit:
        return []
    if limit["is_exceeded"]:
        first = when(limit["phase"], limit["step"])
        return [("limit", f"{bytes_text(limit['limit_bytes'])}: exceeded first in {first}")]
    left = bytes_text(limit["limit_bytes"] - limit["peak_bytes"])
    until = f", used up after about {limit['steps_until']} more steps" if "steps_until" in limit else ""
    return [("limit", f"{bytes_text(limit['limit_bytes'])}: kept, {left} are left{until}")]


def _leak(leak: JsonObject, console: Console) -> None:
    if not leak["is_growing"]:
        return
    pairs: list[tuple[str, str]] = []
    for each in leak["holders"]:
        pairs.append(("held by", _holder(each)))
        if "source" in each:
            pairs.append(("", f"{each['file']}:{each['kept_line']} | {each['source']}"))
    pairs += [("made by", f"{_made(each)}") for each in leak["made_by"][:_MOST]]
    _rows(console, pairs, style="bold")


def _holder(each: JsonObject) -> str:
    facts: list[Any] = [each["kind"], f"{bytes_text(each['bytes'])} in {number_of(each['tensors'], 'tensor')}"]
    if "entries" in each:
        more = f", {each['entries_per_step']:+d} a step" if "entries_per_step" in each else ""
        facts.append(f"{each['container']} of {each['entries']}{more}")
    if "graph_of" in each:
        facts.append(f"with the graph of {each['graph_of']}")
    if "bound" in each:
        facts.append(f"at most {each['bound']}")
    return f"{each['name']} ({', '.join(facts)})"


def _made(each: JsonObject) -> str:
    return (
        f"{each['operation']} {number_of(each['count'], 'time')}, {bytes_text(each['bytes'])} {_place(each)}".rstrip()
    )
