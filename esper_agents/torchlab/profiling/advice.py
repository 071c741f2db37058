"""Advice on a bottleneck: the line, the change and its largest possible gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from esper_agents.domain.quantities import percent, time_text
from esper_agents.torchlab.profiling.result import Advice, Bottleneck, Bound
from esper_agents.torchlab.report import rounded

if TYPE_CHECKING:
    from esper_agents.torchlab.profiling.result import BottleneckAnalysis, FunctionTime, ProfiledOperation
    from esper_agents.torchlab.worker.profile.result import ProfiledTarget

_NOTHING = "no operation"
# Share of the ceiling above which a product counts as optimal on this machine.
_NEAR_CEILING = 0.7
_WORTH_SAYING = 0.05
_BUSY = 0.5
_MANY_WAITS = 8
_SLOWER_DTYPE = 0.8


class _Located(Protocol):
    """Part of a profile that may have a line."""

    @property
    def file(self) -> str | None: ...

    @property
    def line(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class _Said:
    """Problem, remedy and location."""

    problem: str
    remedy: str
    at: _Located | None


def advice_on(measured: ProfiledTarget, analysis: BottleneckAnalysis) -> tuple[Advice, ...]:
    """Return advice, the bottleneck first.

    Args:
        measured: Measurements of the target.
        analysis: Result of `bottleneck.analyse`.
    """
    said = _on_bottleneck(measured, analysis)
    first = _advice(analysis.bottleneck.value, said.problem, said.remedy, said.at)
    return (first, *_on_dtypes(measured, analysis), *_on_waits(measured), *_on_run(measured, analysis))


def most_speedup(share: float) -> float:
    """Return the speedup if a share of the time were removed: an upper bound, not a promise."""
    found: float = rounded(1.0 / max(1.0 - share, 1e-3))
    return found


def _on_bottleneck(measured: ProfiledTarget, analysis: BottleneckAnalysis) -> _Said:  # noqa: PLR0911 - one for each
    share = percent(analysis.share)
    match analysis.bottleneck:
        case Bottleneck.COMPUTE:
            return _on_compute(share, analysis)
        case Bottleneck.BANDWIDTH:
            return _on_bandwidth(share, analysis)
        case Bottleneck.OVERHEAD:
            return _on_overhead(analysis)
        case Bottleneck.INPUT:
            remedy = (
                "load ahead of the step (DataLoader with num_workers and prefetch_factor), or store the data prepared"
            )
            return _Said(f"{share} of a call waits for its input or makes it", remedy, _loader(measured))
        case Bottleneck.GPU:
            remedy = "make the costliest kernels cheaper: lower precision, or fused by torch.compile"
            return _Said(f"the device works for {share} of a call", remedy, _first(analysis))
        case Bottleneck.SYNCHRONISATION:
            remedy = "hold locks for less time, or do the work in this thread"
            return _Said(f"{share} of a call waits for another thread or process", remedy, _hot(analysis))
        case Bottleneck.ALLOCATION:
            problem = f"{share} of a call touches memory for the first time: what a call frees goes back to the system"
            remedy = "keep large buffers from call to call and write into them (out=, in place)"
            costliest = max(analysis.operations, key=lambda each: each.allocation_ns, default=None)
            return _Said(problem, remedy, costliest)


def _on_compute(share: str, analysis: BottleneckAnalysis) -> _Said:
    row = _costliest(analysis, Bound.COMPUTE)
    problem = f"{share} of a call computes; {row.label if row else _NOTHING} takes most"
    if row is None or row.product_ceiling_share is None:
        return _Said(problem, "find a cheaper function for it, or try torch.compile, which vectorises and fuses", row)
    problem += f", at {percent(row.product_ceiling_share)} of what this machine computes at best"
    if row.product_ceiling_share >= _NEAR_CEILING:
        remedy = "only less arithmetic helps: fewer or smaller products, more threads, or an accelerator"
        return _Said(problem, remedy, row)
    return _Said(problem, "give it larger or contiguous operands, merge small products, or allow more threads", row)


def _on_bandwidth(share: str, analysis: BottleneckAnalysis) -> _Said:
    row = _costliest(analysis, Bound.BANDWIDTH)
    reached = percent((row.stream_ceiling_share if row else None) or 0.0)
    name = row.label if row else _NOTHING
    problem = f"{share} of a call moves memory; {name} runs at {reached} of the measured bandwidth"
    remedy = "touch less memory: fuse elementwise chains (torch.compile), work in place, or a smaller dtype"
    return _Said(problem, remedy, row)


def _on_overhead(analysis: BottleneckAnalysis) -> _Said:
    overhead = analysis.overhead
    dispatch, interpreter = time_text(overhead.dispatch_ns), time_text(overhead.interpreter_ns)
    counted = f"{overhead.operations} operations and {overhead.python_calls} Python calls"
    problem = f"{counted} in a call cost {dispatch} of dispatch and {interpreter} in interpreter and autograd"
    remedy = "do more in each operation: one on a batch in place of a loop over its parts; or see `esper torch explain`"
    return _Said(problem, remedy, _busiest_line(analysis))


def _on_dtypes(measured: ProfiledTarget, analysis: BottleneckAnalysis) -> list[Advice]:
    rates = analysis.ceilings.flops_per_s
    best = rates.get("float32", 0)
    used = {row.dtype: row for row in reversed(measured.operations) if row.flops}
    found = []
    for dtype in sorted(used):
        if dtype in {"bfloat16", "float16"} and dtype in rates and rates[dtype] < _SLOWER_DTYPE * best:
            problem = (
                f"{dtype} products reach {_giga(rates[dtype])} GFLOP/s here at best, float32 products {_giga(best)}"
            )
            found.append(_advice("dtype", problem, "compute in float32 on this machine", used[dtype]))
    return found


def _on_waits(measured: ProfiledTarget) -> list[Advice]:
    found = []
    for wait in measured.waits:
        if measured.device != "cpu" or wait.count >= _MANY_WAITS:
            problem = f"{wait.what} reads results {wait.count} times in a call: on an accelerator, a wait each time"
            found.append(_advice("waits", problem, "keep it a tensor, and read it once after the loop", wait))
    return found[:3]


def _on_run(measured: ProfiledTarget, analysis: BottleneckAnalysis) -> list[Advice]:
    call, found = analysis.call, []
    if call.inputs_ns > call.ns and analysis.bottleneck is not Bottleneck.INPUT:
        problem = f"making the inputs takes {time_text(call.inputs_ns)}, a call {time_text(call.ns)}"
        found.append(_advice("inputs", problem, "if training makes them like this, loading is its bottleneck"))
    if measured.is_training_mode and not measured.train:
        problem = "the module is in training mode, and only its forward pass was run"
        found.append(_advice("mode", problem, "call .eval() in its factory, or add --train"))
    if call.spread > _BUSY:
        problem = f"the machine was busy: a round took {call.spread:.0%} longer than the fastest, in the middle of all"
        found.append(_advice("noise", problem, "run it again when fewer others compute"))
    if not analysis.is_clear:
        problem = f"{analysis.bottleneck} and {analysis.runner_up} are only {percent(analysis.margin)} apart"
        found.append(_advice("unclear", problem, "look at both, or at a larger input"))
    return found


def _advice(about: str, problem: str, remedy: str, at: _Located | None = None) -> Advice:
    if at is None or not at.file:
        return Advice(about, problem, remedy)
    return Advice(about, problem, remedy, at.file, at.line or 0)


def _costliest(analysis: BottleneckAnalysis, bound: Bound) -> ProfiledOperation | None:
    rows = [operation for operation in analysis.operations if operation.bound is bound]
    return max(rows, key=lambda each: each.work_ns, default=_first(analysis))


def _first(analysis: BottleneckAnalysis) -> ProfiledOperation | None:
    return analysis.operations[0] if analysis.operations else None


def _busiest_line(analysis: BottleneckAnalysis) -> _Located | None:
    """Return the line that runs the most operations, if they are many; else the function with the largest share."""
    busiest = max(analysis.lines, key=lambda each: each.count, default=None)
    if busiest and busiest.share >= _WORTH_SAYING and busiest.count >= _MANY_WAITS:
        return busiest
    return _hot(analysis)


def _hot(analysis: BottleneckAnalysis) -> FunctionTime | None:
    return analysis.functions[0] if analysis.functions else None


def _loader(measured: ProfiledTarget) -> _Located | None:
    """Return the user's function that loads data, or else the line that ran a loading operation."""
    loading = [function for function in measured.python.functions if function.loads]
    if loading:
        return max(loading, key=lambda each: each.total_ns)
    return next((operation for operation in measured.operations if operation.phase == "input" and operation.file), None)


def _giga(rate: float) -> str:
    return f"{rate / 1e9:.3g}"
