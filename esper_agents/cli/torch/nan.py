"""Terminal output of `esper torch nan`: first non-finite operation, its inputs and its cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from esper_agents.api.measurement_texts import module_name, place, short
from esper_agents.cli.terminal import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from esper_agents.api import MeasurementReport
    from esper_agents.domain.codec import JsonObject

_LABEL = 9
_STYLES = {"clean": "green", "inf": "red", "nan": "red"}
_MOST = 5
_COUNTS = ("nan", "inf", "zeros", "negatives")


def show(report: MeasurementReport, console: Console) -> None:
    """Print the result of a search for NaN and Inf.

    Args:
        report: Of kind `nan`.
        console: Output console.
    """
    result = report.result
    _rows(console, [(result["status"], result["headline"])], style=_STYLES.get(result["status"], ""))
    if "first" in result:
        _operation(result["first"], console, "first")
        if "became_nan" in result:
            _operation(result["became_nan"], console, "then")
    if "cause" in result:
        cause = result["cause"]
        pairs = [("cause", f"{cause['class']}: {cause['because']}"), ("change", result["change"])]
        _rows(console, [*pairs, ("batch", _batch(result["batch"]))])
    reached = [f"{each['what']} {each['name']}" for each in result.get("reached", [])]
    if reached:
        more = f" and {len(reached) - _MOST} more" if len(reached) > _MOST else ""
        _rows(console, [("reached", ", ".join(reached[:_MOST]) + more)])
    if result["status"] != "clean":
        _history(result["history"], console)
    _rows(console, [("noticed", _noticed(each)) for each in result["noticed"][:_MOST]], style="dim")
    _rows(console, [("missing", f"{each['what']}: {each['why']}") for each in result["missing"]], style="yellow")


def _operation(found: JsonObject, console: Console, label: str) -> None:
    """Print an operation: its location, source line and inputs."""
    when = f"{found['phase']} of step {found['step'] + 1}"
    node = f", {found['node']}" if "node" in found else ""
    pairs = [(label, f"{short(found['operation'])} ({found['operation']}{node}) at {place(found)}, {when}")]
    if "source" in found:
        pairs.append(("", found["source"]))
    if "backward_started" in found:
        pairs.append(("backward", place(found["backward_started"])))
    if module_name(found):
        pairs.append(("module", module_name(found)))
    at = found.get("at", {})
    if at.get("operands"):
        operands = ", ".join(f"{name} = {number}" for name, number in at["operands"].items())
        pairs.append(("element", f"{at['index']}: {operands}"))
    console.print()
    _rows(console, pairs, style="bold")
    if found.get("inputs"):
        _statistics(found, console)


def _statistics(found: JsonObject, console: Console) -> None:
    heads = ("min", "max", "mean", *_COUNTS)
    grid = Table("input", "shape", *heads, box=None, pad_edge=False, header_style="dim")
    tensors = [each for each in found["inputs"] if "shape" in each]
    for each in [*tensors, {"name": "output", **found.get("output", {})}]:
        if "shape" in each:
            shape = f"{each['dtype']}[{','.join(map(str, each['shape']))}]"
            grid.add_row(
                *(Text(one_line(str(cell))) for cell in (each["name"], shape, *(each.get(key, "") for key in heads)))
            )
    console.print(grid)


def _batch(batch: JsonObject) -> str:
    sample = f", sample {batch['sample']}" if "sample" in batch else ""
    return f"step {batch['step'] + 1}, seed {batch['seed']}{sample}"


def _history(history: list[dict[str, Any]], console: Console) -> None:
    """Print the last steps, if there was more than one."""
    if len(history) < 2:  # noqa: PLR2004 - one step is no history
        return
    heads = ("loss", "largest_weight", "largest_gradient")
    grid = Table("step", *(each.replace("_", " ") for each in heads), box=None, pad_edge=False, header_style="dim")
    for each in history[-_MOST:]:
        grid.add_row(str(each["step"] + 1), *(Text(one_line(str(each.get(key, "")))) for key in heads))
    console.print()
    console.print(grid)


def _noticed(found: JsonObject) -> str:
    made = {"nan": "NaN", "inf": "Inf"}[found["holds"]]
    times = f" ({found['times']} times)" if found["times"] > 1 else ""
    return f"{made} from {short(found['operation'])} at {place(found)}, which had no effect on the result{times}"


def _rows(console: Console, pairs: list[tuple[str, str]], *, style: str = "") -> None:
    if not pairs:
        return
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(min_width=_LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in pairs:
        grid.add_row(Text(one_line(label), style=style), Text(one_line(text)))
    console.print(grid)
