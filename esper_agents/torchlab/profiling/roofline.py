"""Roofline of one operation: arithmetic, bandwidth, dispatch or fresh memory against machine ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from esper_agents.torchlab.profiling.result import Bound, ProfiledOperation
from esper_agents.torchlab.report import rounded
from esper_agents.torchlab.worker.results import shallow

if TYPE_CHECKING:
    from esper_agents.torchlab.profiling.unprofiled_call import UnprofiledCall
    from esper_agents.torchlab.worker.profile.result import CeilingSamples, OperationRow, ProfiledTarget

# An operation without a product is bandwidth-bound above this share of the bandwidth, and compute-bound below.
_BANDWIDTH_BOUND = 0.4
# Operations with no arithmetic, or so little per element that a vector unit finishes before the next element arrives:
# their time is memory time, however slow.
_MOVEMENTS = frozenset(
    (
        "_to_copy",
        "abs",
        "add",
        "addcmul",
        "bitwise_and",
        "bitwise_not",
        "bitwise_or",
        "cat",
        "clamp",
        "clamp_max",
        "clamp_min",
        "clone",
        "constant_pad_nd",
        "contiguous",
        "copy",
        "div",
        "embedding",
        "eq",
        "fill",
        "flip",
        "full",
        "full_like",
        "gather",
        "ge",
        "gt",
        "index",
        "index_put",
        "index_select",
        "le",
        "lerp",
        "logical_and",
        "logical_not",
        "logical_or",
        "lt",
        "masked_fill",
        "maximum",
        "mean",
        "minimum",
        "mul",
        "ne",
        "neg",
        "new_ones",
        "new_zeros",
        "ones",
        "ones_like",
        "relu",
        "repeat",
        "roll",
        "rsub",
        "scatter",
        "select_backward",
        "sign",
        "slice_backward",
        "stack",
        "sub",
        "sum",
        "threshold_backward",
        "where",
        "zero",
        "zeros",
        "zeros_like",
    )
)
_ALLOCATIONS = ("aten::empty", "aten::resize_", "aten::new_empty")


@dataclass(frozen=True, slots=True)
class MachineCeilings:
    """Best performance of the machine in any sample.

    Attributes:
        products: Floating-point operations per second, by dtype.
        streams: Bytes per second, by the number of bytes touched, smallest first.
        dispatch_ns: Time of an operation on an empty tensor.
        fault_ns: Typical time of the first touch of a page.
    """

    products: dict[str, int]
    streams: tuple[tuple[int, int], ...]
    dispatch_ns: int
    fault_ns: int

    def bandwidth(self, touched: float) -> int | None:
        """Return the bandwidth ceiling for a number of bytes: small sizes fit into the nearest caches."""
        fitting = [rate for size, rate in self.streams if touched <= size]
        return fitting[0] if fitting else self.streams[-1][1] if self.streams else None


def ceilings_of(samples: CeilingSamples) -> MachineCeilings:
    """Return the best of all samples, and the median page fault cost: it is multiplied by median counts."""
    return MachineCeilings(
        {each.dtype: max(each.flops_per_s) for each in samples.matrix},
        tuple((each.touched_bytes, max(each.bytes_per_s)) for each in samples.stream),
        min(samples.dispatch_ns),
        max(0, int(median(samples.fresh_page_ns)) - int(median(samples.known_page_ns))),
    )


class ProfilerCost:
    """Share of the profile's times that is overhead and not work of the operations.

    Attributes:
        fastest_ns: Processor time of the fastest profiled call.
    """

    def __init__(self, measured: ProfiledTarget, call: UnprofiledCall, ceilings: MachineCeilings) -> None:
        """Estimate the cost of the profiler.

        Args:
            measured: Measurements of the target.
            call: A call without the profiler.
            ceilings: Ceilings of the machine.
        """
        self._empty_ns = measured.profiled.empty_ns
        fastest = min(measured.profiled.calls, key=lambda each: each.thread_ns)
        self.fastest_ns = fastest.thread_ns
        # A busy moment during the profiled calls must not raise the cost of an event above part of an empty operation.
        extra = max(0, fastest.thread_ns - call.computing_ns) / max(fastest.events, 1)
        self._event_ns = min(extra, self._empty_ns / 2)
        faults = sum(row.faults for row in measured.operations)
        # The attributed call may have grown the heap, which is already grown in typical calls.
        self._fault_ns = ceilings.fault_ns * min(1.0, call.faults / faults) if faults else 0.0

    def work_ns(self, row: OperationRow) -> int:
        """Return the time of an operation, less that of an empty operation and the cost of its inner events."""
        if row.device_ns is not None:
            return row.device_ns
        idle_ns = row.count * self._empty_ns + row.events * self._event_ns
        return int(max(0, row.self_ns - idle_ns))

    def allocation_ns(self, row: OperationRow, work_ns: int) -> int:
        """Return the share of an operation's work that was touching fresh memory."""
        return int(min(work_ns, row.faults * self._fault_ns))


def judged(
    row: OperationRow,
    profiler: ProfilerCost,
    ceilings: MachineCeilings,
    call: UnprofiledCall,
    modules: tuple[str, ...] = (),
) -> ProfiledOperation:
    """Return an operation with its limiting resource.

    Args:
        row: One operation of a line and module, or of a line.
        profiler: Cost to subtract.
        ceilings: Ceilings of the machine.
        call: The call to which shares refer.
        modules: Modules that ran it.
    """
    whole_ns = profiler.work_ns(row)
    allocation_ns = profiler.allocation_ns(row, whole_ns)
    work_ns = whole_ns - allocation_ns
    flops_per_s = bytes_per_s = None
    by_product = by_stream = 0.0
    if row.flops and work_ns:
        flops_per_s = row.flops * 1_000_000_000 // work_ns
        peak = ceilings.products.get(row.dtype)
        by_product = row.flops * 1e9 / peak / work_ns if peak else 0.0
    if row.moved_bytes and work_ns:
        bytes_per_s = row.moved_bytes * 1_000_000_000 // work_ns
        rate = ceilings.bandwidth(row.moved_bytes / row.count)
        by_stream = row.moved_bytes * 1e9 / rate / work_ns if rate else 0.0
    return ProfiledOperation(
        **shallow(row),
        modules=modules,
        work_ns=work_ns,
        allocation_ns=allocation_ns,
        share=rounded(row.self_ns / call.ns),
        bound=_bound(row, work_ns, allocation_ns, by_product, by_stream),
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        product_ceiling_share=rounded(by_product) if by_product else None,
        stream_ceiling_share=rounded(by_stream) if by_stream else None,
    )


def _bound(row: OperationRow, work_ns: int, allocation_ns: int, by_product: float, by_stream: float) -> Bound:
    if row.name.startswith(_ALLOCATIONS) or allocation_ns > work_ns:
        return Bound.ALLOCATION
    if 2 * work_ns < row.self_ns and row.device_ns is None:
        return Bound.DISPATCH
    if by_product:
        return Bound.COMPUTE if by_product >= by_stream else Bound.BANDWIDTH
    moves = row.name.removeprefix("aten::").removeprefix("_foreach_").removesuffix("_") in _MOVEMENTS
    return Bound.BANDWIDTH if moves or by_stream >= _BANDWIDTH_BOUND else Bound.COMPUTE
