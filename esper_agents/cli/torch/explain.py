"""Terminal output of `esper torch explain`: graph breaks and recompilations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from esper_agents.cli.terminal import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from esper_agents.api import MeasurementReport
    from esper_agents.domain.codec import JsonObject

_LABEL = 9
_STYLES = {"clean": "green", "breaks-by-default": "yellow", "breaks": "red", "fails-fullgraph": "red"}
_EFFECTS = {
    "splits": "",
    "ends": "the rest of the function runs eagerly",
    "skips": "the whole function runs eagerly",
}


def show(report: MeasurementReport, console: Console) -> None:
    """Print a compile diagnosis.

    Args:
        report: Of kind `explain`.
        console: Output console.
    """
    result = report.result
    status = str(result.get("status", "not measured"))
    rows(console, [(status, result["headline"])], style=_STYLES.get(status, "red"))
    _outcomes(result, console)
    for number, each in enumerate(result["breaks"], 1):
        _break(number, each, console)
    _recompiles(result, console)
    _calls(result, console)
    missing(result, console)


def rows(console: Console, pairs: list[tuple[str, str]], *, style: str = "") -> None:
    """Print labelled texts, wrapped to the right of their labels.

    Args:
        console: Output console.
        pairs: Labels and texts; neither is taken as markup.
        style: Of the labels.
    """
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(min_width=_LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in pairs:
        grid.add_row(Text(one_line(label), style=style), Text(one_line(text)))
    console.print(grid)


def source(console: Console, at: JsonObject) -> None:
    """Print a source line with its number."""
    console.print(Text(f"{at['line']:>8} | {one_line(str(at['source']))}", overflow="fold"))


def where(told: JsonObject) -> str:
    """Return `file:line in function`, or the known part of it."""
    at = told.get("place")
    return f"{at['file']}:{at['line']} in {at['function']}" if at else str(told.get("outside", "place unknown"))


def missing(result: JsonObject, console: Console) -> None:
    """Print the failed parts of the diagnosis."""
    rows(console, [("missing", f"{each['what']}: {each['why']}") for each in result.get("missing", [])])


def _outcomes(result: JsonObject, console: Console) -> None:
    failure = result.get("failure")
    pairs = [("raised", f"in call {failure['call']}, at {where(failure)}: {_reason(failure)}")] if failure else []
    for stage, words in (("fullgraph", "fullgraph=True"), ("autograd", "autograd ahead of time")):
        told = result.get(stage, {})
        if told.get("outcome") == "fails":
            pairs.append((stage, f"{words} fails at {where(told)}: {_reason(told)}"))
    failed = [result.get(stage, {}) for stage in ("failure", "autograd", "fullgraph")]
    changes = [told["change"] for told in failed if "change" in told and told.get("outcome", "fails") == "fails"]
    if changes and (result.get("status") == "fails" or not result["breaks"]):
        pairs.append(("change", changes[0]))
    counted = result.get("explain", {}).get("graph_break_count")
    if counted is not None and counted != len(result["breaks"]):
        pairs.append(("explain", f"torch._dynamo.explain counts {counted} (graphs of the first call less one)"))
    for each in result.get("limits", []):
        text = f"{each['function']} ({where(each)}) reached {each['setting']} {each['limit']}: other calls run eagerly"
        pairs.append(("limit", text))
    rows(console, pairs)


def _reason(told: JsonObject) -> str:
    return f"{told['type']}: {told.get('explanation') or told['message']}"


def _heading(console: Console, text: str, facts: str) -> None:
    console.print()
    console.print(Text.assemble((one_line(text), "bold"), "   ", one_line(facts)))


def _break(number: int, each: JsonObject, console: Console) -> None:
    facts = [each.get("page", ""), f"{each['count']} times" if each["count"] > 1 else ""]
    if each["first_call"] > 1:
        facts.append(f"from call {each['first_call']} on")
    if each["under_autograd"]:
        facts.append("only when autograd is traced")
    facts.append(_EFFECTS[each["effect"]])
    _heading(console, f"{number} {where(each)}", ", ".join(filter(None, facts)))
    if "place" in each:
        source(console, each["place"])
    pairs = [("why", f"{each['kind']}. {each['explanation']}".rstrip()), ("change", each["change"])]
    if len(each["path"]) > 1:
        pairs.append(("through", " > ".join(f"{at['file']}:{at['line']}" for at in each["path"])))
    if "outside" in each and "place" in each:
        pairs.append(("inside", each["outside"]))
    if "link" in each:
        pairs.append(("page", each["link"]))
    rows(console, pairs, style="dim")


def _recompiles(result: JsonObject, console: Console) -> None:
    routine = sum(each["is_routine"] for each in result["recompiles"])
    for each in result["recompiles"]:
        if each["is_routine"]:
            continue
        times = "once" if each["count"] == 1 else f"{each['count']} times"
        calls = ", ".join(map(str, each["calls"]))
        _heading(console, f"compiled again {times}: {where(each)}", f"function {each['function']}, calls {calls}")
        if "place" in each:
            source(console, each["place"])
        stack = " (value from the code before the graph break)" if "___stack" in each["guard"] else ""
        rows(console, [("guard", each["guard"] + stack), ("change", each["change"])], style="dim")
    if routine:
        console.print()
        rows(console, [("sizes", f"compiled again for the first other size, as is to be expected ({routine})")])


def _calls(result: JsonObject, console: Console) -> None:
    names = ("graphs", "graphs_run", "breaks", "recompiles")
    heads = ("compiled", "run", "breaks", "again")
    grid = Table("call", "with", *heads, box=None, pad_edge=False, header_style="dim")
    for number, call in enumerate(result.get("calls", []), 1):
        cells: list[Any] = [str(number), Text(one_line(call["what"])), *(str(call[name]) for name in names)]
        grid.add_row(*cells)
    if grid.row_count:
        console.print()
        console.print(grid)
