"""Advice on a bottleneck: the line, the change and its largest possible gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.quantities import percent, time_text
from esper_agents.torchlab.plot import label_of
from esper_agents.torchlab.profiling.bottleneck import Bottleneck
from esper_agents.torchlab.report import rounded

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

# Share of the ceiling above which a product counts as optimal on this machine.
_NEAR_CEILING = 0.7
_WORTH_SAYING = 0.05
_BUSY = 0.5
_MANY_WAITS = 8
_SLOWER_DTYPE = 0.8


def advice_on(measured: JsonObject, analysis: JsonObject) -> list[dict[str, Any]]:
    """Return advice, the bottleneck first: `about`, `problem`, `remedy` and, if known, `file` and `line`.

    Args:
        measured: Result of the job `profile`.
        analysis: Result of `bottleneck.analyse`.
    """
    first = _on_bottleneck(Bottleneck(analysis["bottleneck"]), measured, analysis)
    return [first, *_on_dtypes(measured, analysis), *_on_waits(measured), *_on_run(measured, analysis)]


def most_speedup(analysis: JsonObject) -> Any:
    """Return the speedup if the whole bottleneck were removed: an upper bound, not a promise."""
    return rounded(1.0 / max(1.0 - analysis["share"], 1e-3))


def _on_bottleneck(kind: Bottleneck, measured: JsonObject, analysis: JsonObject) -> dict[str, Any]:
    share = percent(analysis["share"])
    said: tuple[str, str, JsonObject]
    match kind:
        case Bottleneck.COMPUTE:
            said = _on_compute(share, analysis)
        case Bottleneck.BANDWIDTH:
            said = _on_bandwidth(share, analysis)
        case Bottleneck.OVERHEAD:
            said = _on_overhead(analysis)
        case Bottleneck.INPUT:
            problem = f"{share} of a call waits for its input or makes it"
            remedy = (
                "load ahead of the step (DataLoader with num_workers and prefetch_factor), or store the data prepared"
            )
            said = problem, remedy, _loader(measured)
        case Bottleneck.GPU:
            remedy = "make the costliest kernels cheaper: lower precision, or fused by torch.compile"
            said = f"the device works for {share} of a call", remedy, _first(analysis)
        case Bottleneck.SYNCHRONISATION:
            remedy = "hold locks for less time, or do the work in this thread"
            said = f"{share} of a call waits for another thread or process", remedy, _hot(analysis)
        case Bottleneck.ALLOCATION:
            problem = f"{share} of a call touches memory for the first time: what a call frees goes back to the system"
            remedy = "keep large buffers from call to call and write into them (out=, in place)"
            said = problem, remedy, max(analysis["operations"], key=lambda each: each["allocation_ns"], default={})
    return _advice(kind.value, *said)


def _on_compute(share: str, analysis: JsonObject) -> tuple[str, str, JsonObject]:
    row = _costliest(analysis, "compute")
    reached = row.get("product_ceiling_share")
    problem = f"{share} of a call computes; {label_of(row)} takes most"
    if reached is None:
        return problem, "find a cheaper function for it, or try torch.compile, which vectorises and fuses", row
    problem += f", at {percent(reached)} of what this machine computes at best"
    if reached >= _NEAR_CEILING:
        return problem, "only less arithmetic helps: fewer or smaller products, more threads, or an accelerator", row
    return problem, "give it larger or contiguous operands, merge small products, or allow more threads", row


def _on_bandwidth(share: str, analysis: JsonObject) -> tuple[str, str, JsonObject]:
    row = _costliest(analysis, "bandwidth")
    reached = percent(row.get("stream_ceiling_share", 0.0))
    problem = f"{share} of a call moves memory; {label_of(row)} runs at {reached} of the measured bandwidth"
    return problem, "touch less memory: fuse elementwise chains (torch.compile), work in place, or a smaller dtype", row


def _on_overhead(analysis: JsonObject) -> tuple[str, str, JsonObject]:
    overhead = analysis["overhead"]
    dispatch, interpreter = time_text(overhead["dispatch_ns"]), time_text(overhead["interpreter_ns"])
    counted = f"{overhead['operations']} operations and {overhead['python_calls']} Python calls"
    problem = f"{counted} in a call cost {dispatch} of dispatch and {interpreter} in interpreter and autograd"
    remedy = "do more in each operation: one on a batch in place of a loop over its parts; or see `esper torch explain`"
    return problem, remedy, _busiest_line(analysis)


def _on_dtypes(measured: JsonObject, analysis: JsonObject) -> list[dict[str, Any]]:
    rates = analysis["ceilings"]["flops_per_s"]
    best = rates.get("float32", 0)
    used = {row["dtype"]: row for row in reversed(measured["operations"]) if row.get("flops")}
    found = []
    for dtype in sorted(used):
        if dtype in {"bfloat16", "float16"} and dtype in rates and rates[dtype] < _SLOWER_DTYPE * best:
            problem = (
                f"{dtype} products reach {_giga(rates[dtype])} GFLOP/s here at best, float32 products {_giga(best)}"
            )
            found.append(_advice("dtype", problem, "compute in float32 on this machine", used[dtype]))
    return found


def _on_waits(measured: JsonObject) -> list[dict[str, Any]]:
    found = []
    for each in measured["waits"]:
        if measured["device"] != "cpu" or each["count"] >= _MANY_WAITS:
            problem = (
                f"{each['what']} reads results {each['count']} times in a call: on an accelerator, a wait each time"
            )
            found.append(_advice("waits", problem, "keep it a tensor, and read it once after the loop", each))
    return found[:3]


def _on_run(measured: JsonObject, analysis: JsonObject) -> list[dict[str, Any]]:
    call, found = analysis["call"], []
    if call["inputs_ns"] > call["ns"] and analysis["bottleneck"] != Bottleneck.INPUT:
        problem = f"making the inputs takes {time_text(call['inputs_ns'])}, a call {time_text(call['ns'])}"
        found.append(_advice("inputs", problem, "if training makes them like this, loading is its bottleneck", {}))
    if measured["is_training_mode"] and not measured["train"]:
        found.append(
            _advice(
                "mode",
                "the module is in training mode, and only its forward pass was run",
                "call .eval() in its factory, or add --train",
                {},
            )
        )
    if call["spread"] > _BUSY:
        problem = (
            f"the machine was busy: a round took {call['spread']:.0%} longer than the fastest, in the middle of all"
        )
        found.append(_advice("noise", problem, "run it again when fewer others compute", {}))
    if not analysis["is_clear"]:
        problem = f"{analysis['bottleneck']} and {analysis['runner_up']} are only {percent(analysis['margin'])} apart"
        found.append(_advice("unclear", problem, "look at both, or at a larger input", {}))
    return found


def _advice(about: str, problem: str, remedy: str, at: JsonObject) -> dict[str, Any]:
    where = {name: at[name] for name in ("file", "line") if at.get("file")}
    return {"about": about, "problem": problem, "remedy": remedy, **where}


def _costliest(analysis: JsonObject, bound: str) -> JsonObject:
    rows: list[JsonObject] = [each for each in analysis["operations"] if each["bound"] == bound]
    return max(rows, key=lambda each: each["work_ns"], default=_first(analysis))


def _first(analysis: JsonObject) -> JsonObject:
    return analysis["operations"][0] if analysis["operations"] else {"name": "no operation", "phase": ""}


def _busiest_line(analysis: JsonObject) -> JsonObject:
    """Return the line that runs the most operations, if they are many; else the function with the largest share."""
    lines: list[JsonObject] = analysis["lines"]
    busiest = max(lines, key=lambda each: each["count"], default={})
    if busiest and busiest["share"] >= _WORTH_SAYING and busiest["count"] >= _MANY_WAITS:
        return busiest
    return _hot(analysis)


def _hot(analysis: JsonObject) -> JsonObject:
    functions = analysis["functions"]
    return functions[0] if functions else {}


def _loader(measured: JsonObject) -> JsonObject:
    """Return the user's function that loads data, or else the line that ran a loading operation."""
    loading = [each for each in measured["python"]["functions"] if each["loads"]]
    rows = [each for each in measured["operations"] if each["phase"] == "input" and each.get("file")]
    return max(loading, key=lambda each: each["total_ns"], default=rows[0] if rows else {})


def _giga(rate: float) -> str:
    return f"{rate / 1e9:.3g}"
