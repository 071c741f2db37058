"""Terminal output of `esper torch profile`: bottleneck, costs, external profilers and advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from esper_agents.cli.terminal import one_line
from esper_agents.cli.torch.explain import missing, rows
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.quantities import bytes_text, percent, time_text

if TYPE_CHECKING:
    from rich.console import Console

    from esper_agents.api import MeasurementReport
    from esper_agents.domain.codec import JsonObject

_MOST_OPERATIONS = 10
_MOST_WAITS = 5
_BAR = 24
_LEAST_SHARE = 0.005
# A larger bound on the speedup is not reported.
_MOST_SPEEDUP = 20


def show(report: MeasurementReport, console: Console) -> None:
    """Print a profile.

    Args:
        report: Of kind `profile`.
        console: Output console.
    """
    result = report.result
    analysis = result["analysis"]
    rows(console, [("profile", result["headline"])], style="green" if analysis["is_clear"] else "yellow")
    rows(console, [("call", _call(analysis)), ("passes", _passes(analysis))])
    _shares(analysis, console)
    _operations(analysis, console)
    _witnesses(result, console)
    _advice(analysis, console)
    rows(console, _facts(result, analysis))
    missing(result, console)
    console.print()
    rows(console, [("verify", command) for command in analysis["verify"]], style="dim")


def _call(analysis: JsonObject) -> str:
    call = analysis["call"]
    slower = f"the middle one {call['spread']:.0%} slower" if call["spread"] >= _LEAST_SHARE else "all alike"
    made = f"{number_of(call['rounds'], 'round')} ({number_of(call['calls'], 'call')})"
    said = f"{time_text(call['ns'])}, the best of {made}, {slower}"
    waited = f", {time_text(call['waiting_ns'])} of it waiting" if call["waiting_ns"] else ""
    return (
        f"{said}{waited}; the first took {time_text(call['first_ns'])}; profiled {call['profiler_overhead']:.2f} times"
    )


def _passes(analysis: JsonObject) -> str:
    split = analysis["split"]
    parts = [f"{name} {percent(split[name])}" for name in ("input", "forward", "backward", "optimizer") if split[name]]
    overhead = analysis["overhead"]
    counted = ", ".join(
        number_of(overhead[name], thing)
        for name, thing in (("operations", "operation"), ("views", "view"), ("python_calls", "Python call"))
    )
    return f"{', '.join(parts)}; {counted}"


def _shares(analysis: JsonObject, console: Console) -> None:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(min_width=9)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True)
    for kind, share in sorted(analysis["shares"].items(), key=lambda each: -each[1]):
        if share >= _LEAST_SHARE:
            grid.add_row("", kind, percent(share), Text("━" * max(1, round(_BAR * share)), style="cyan"))
    console.print()
    console.print(grid)


def _operations(analysis: JsonObject, console: Console) -> None:
    heads = ("operation", "line", "times", "takes", "share", "bound by", "of ceiling")
    table = Table(*heads, box=None, pad_edge=False, header_style="dim")
    for row in analysis["operations"][:_MOST_OPERATIONS]:
        where = f"{row['file']}:{row['line']}" if row.get("file") else row.get("module") or ""
        backward = " backward" if row["phase"] == "backward" and not row["name"].endswith("_backward") else ""
        cells = (
            f"{row['name'].removeprefix('aten::')}{backward}",
            where,
            str(row["count"]),
            time_text(row["self_ns"]),
            percent(row["share"]),
            row["bound"],
            _ceiling(row),
        )
        table.add_row(*(Text(one_line(cell), overflow="fold") for cell in cells))
    if table.row_count:
        console.print()
        console.print(table)


def _ceiling(row: JsonObject) -> str:
    if row["bound"] == "compute" and "product_ceiling_share" in row:
        return f"{percent(row['product_ceiling_share'])}, {row['flops_per_s'] / 1e9:.3g} GFLOP/s"
    if row["bound"] in {"bandwidth", "compute"} and "stream_ceiling_share" in row:
        return f"{percent(row['stream_ceiling_share'])}, {row['bytes_per_s'] / 1e9:.3g} GB/s"
    return ""


def _witnesses(result: JsonObject, console: Console) -> None:
    hot = result["analysis"]["hot"]
    pairs = []
    if hot is not None:
        where = f"{hot['file']}:{hot['line']} {hot['name']}"
        pairs.append(("hottest", f"{where}: {', '.join(map(_said, hot['witnesses']))}"))
    pairs += [
        ("witness", f"{each['tool']}: {each['missing']}; {each['remedy']}")
        for each in result["witnesses"]
        if "missing" in each
    ]
    console.print()
    rows(console, pairs)


def _said(witness: JsonObject) -> str:
    of = f" in {witness['of']}" if "of" in witness else ""
    return f"{witness['tool']} {percent(witness['share'])}{of}{'' if witness['agrees'] else ' (disagrees)'}"


def _advice(analysis: JsonObject, console: Console) -> None:
    for each in analysis["advice"]:
        where = f"{each['file']}:{each['line']} " if "file" in each else ""
        console.print()
        rows(console, [(each["about"], f"{where}{each['problem']}"), ("remedy", each["remedy"])])
    if analysis["most_speedup"] <= _MOST_SPEEDUP:
        rows(console, [("at most", f"{analysis['most_speedup']:.3g} times faster if all of it went away")])


def _facts(result: JsonObject, analysis: JsonObject) -> list[tuple[str, str]]:
    ceilings = analysis["ceilings"]
    products = [f"{dtype} {rate / 1e9:.3g} GFLOP/s" for dtype, rate in sorted(ceilings["flops_per_s"].items())]
    streams = [
        f"{each['bytes_per_s'] / 1e9:.3g} GB/s in {bytes_text(each['touched_bytes'])}"
        for each in ceilings["bytes_per_s"]
    ]
    costs = [f"dispatch {time_text(ceilings['dispatch_ns'])}", f"fresh page {time_text(ceilings['fault_ns'])}"]
    pairs = [("ceilings", ", ".join((*products, *streams, *costs)))]
    if result["memory"] is not None:
        memory = result["memory"]
        peak = f"{bytes_text(memory['peak_bytes'])} at most at once, in {memory['peak_operation'] or 'no operation'}"
        allocations = number_of(memory["allocations"], "allocation")
        pairs.append(("memory", f"{peak}; {allocations} of {bytes_text(memory['allocated_bytes'])}"))
    pairs += [
        ("waits", f"{each['file']}:{each['line']} {each['what']}{_times(each['count'])}")
        for each in result["waits"][:_MOST_WAITS]
    ]
    return pairs


def _times(count: int) -> str:
    return "" if count == 1 else f", {count} times"
