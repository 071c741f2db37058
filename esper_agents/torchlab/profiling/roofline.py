"""Roofline of one operation: arithmetic, bandwidth, dispatch or fresh memory against machine ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Any

from esper_agents.torchlab.report import rounded

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.profiling.unprofiled_call import UnprofiledCall


class Bound(StrEnum):
    """What bounds one operation."""

    COMPUTE = "compute"
    BANDWIDTH = "bandwidth"
    DISPATCH = "dispatch"
    ALLOCATION = "allocation"


# An operation without a product that reaches this share of the bandwidth is bound by it; one that stays below computes.
_BANDWIDTH_BOUND = 0.4
# They compute nothing, or so little for each element that a vector unit is done before the next one arrives: what they
# take is memory, however slow.
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
    """The best that the machine did in any sample.

    Attributes:
        products: Floating-point operations per second by dtype.
        streams: Bytes per second, by the bytes of memory that were touched, smallest first.
        dispatch_ns: An operation on nothing.
        fault_ns: Touching a page for the first time, as it usually is.
    """

    products: dict[str, int]
    streams: tuple[tuple[int, int], ...]
    dispatch_ns: int
    fault_ns: int

    def bandwidth(self, touched: float) -> int | None:
        """Return the ceiling for so many bytes: the nearest caches are for those that fit."""
        fitting = [rate for size, rate in self.streams if touched <= size]
        return fitting[0] if fitting else self.streams[-1][1] if self.streams else None


def ceilings_of(measured: JsonObject) -> MachineCeilings:
    """Return the best of all samples, and the usual price of a fresh page: it is multiplied by what is usual, too."""
    samples = measured["ceilings"]
    return MachineCeilings(
        {each["dtype"]: max(each["flops_per_s"]) for each in samples["matrix"]},
        tuple((each["touched_bytes"], max(each["bytes_per_s"])) for each in samples["stream"]),
        min(samples["dispatch_ns"]),
        max(0, int(median(samples["fresh_page_ns"])) - int(median(samples["known_page_ns"]))),
    )


class ProfilerCost:
    """What of the profile's times is no work of the operations.

    Attributes:
        fastest_ns: Processor time of the profiled call that took least.
    """

    def __init__(self, measured: JsonObject, call: UnprofiledCall, ceilings: MachineCeilings) -> None:
        """Work out what the profiler cost.

        Args:
            measured: What the job `profile` returned.
            call: A call without it.
            ceilings: Of the machine.
        """
        calls = measured["profiled"]["calls"]
        self._empty_ns: int = measured["profiled"]["empty_ns"]
        fastest = min(calls, key=lambda each: each["thread_ns"])
        self.fastest_ns: int = fastest["thread_ns"]
        # A busy moment of the profiled calls must not make an event cost more than part of an operation on nothing.
        extra = max(0, fastest["thread_ns"] - call.computing_ns) / max(fastest["events"], 1)
        self._event_ns = min(extra, self._empty_ns / 2)
        faults = sum(row.get("faults", 0) for row in measured["operations"])
        # The attributed call may have grown the heap where calls as a rule find it grown.
        self._fault_ns = ceilings.fault_ns * min(1.0, call.faults / faults) if faults else 0.0

    def work_ns(self, row: JsonObject) -> int:
        """Return what an operation took, less what an operation on nothing takes and what its inner events cost."""
        if "device_ns" in row:
            return int(row["device_ns"])
        idle_ns = row["count"] * self._empty_ns + row.get("events", 0) * self._event_ns
        return int(max(0, row["self_ns"] - idle_ns))

    def allocation_ns(self, row: JsonObject, work_ns: int) -> int:
        """Return which part of an operation's work was touching fresh memory."""
        return int(min(work_ns, row.get("faults", 0) * self._fault_ns))


def judged(row: JsonObject, profiler: ProfilerCost, ceilings: MachineCeilings, call: UnprofiledCall) -> dict[str, Any]:
    """Return a row of operations with what bounds it.

    Args:
        row: One operation of a line and module.
        profiler: What to take off.
        ceilings: What the machine did at best.
        call: Shares are of it.

    Returns:
        The row with `work_ns`, `allocation_ns`, `share`, `bound`, and where counted `flops_per_s`, `bytes_per_s` and
        their shares of the ceilings, `product_ceiling_share` and `stream_ceiling_share`.
    """
    whole_ns = profiler.work_ns(row)
    allocation_ns = profiler.allocation_ns(row, whole_ns)
    work_ns = whole_ns - allocation_ns
    told = {**row, "work_ns": work_ns, "allocation_ns": allocation_ns, "share": rounded(row["self_ns"] / call.ns)}
    by_product = by_stream = 0.0
    if row.get("flops") and work_ns:
        told["flops_per_s"] = row["flops"] * 1_000_000_000 // work_ns
        peak = ceilings.products.get(row["dtype"])
        by_product = row["flops"] * 1e9 / peak / work_ns if peak else 0.0
    if row.get("moved_bytes") and work_ns:
        told["bytes_per_s"] = row["moved_bytes"] * 1_000_000_000 // work_ns
        rate = ceilings.bandwidth(row["moved_bytes"] / row["count"])
        by_stream = row["moved_bytes"] * 1e9 / rate / work_ns if rate else 0.0
    for name, share in (("product_ceiling_share", by_product), ("stream_ceiling_share", by_stream)):
        if share:
            told[name] = rounded(share)
    told["bound"] = _bound(told, by_product, by_stream)
    return told


def _bound(row: JsonObject, by_product: float, by_stream: float) -> str:
    if row["name"].startswith(_ALLOCATIONS) or row["allocation_ns"] > row["work_ns"]:
        return Bound.ALLOCATION.value
    if 2 * row["work_ns"] < row["self_ns"] and "device_ns" not in row:
        return Bound.DISPATCH.value
    if by_product:
        return (Bound.COMPUTE if by_product >= by_stream else Bound.BANDWIDTH).value
    moves = row["name"].removeprefix("aten::").removeprefix("_foreach_").removesuffix("_") in _MOVEMENTS
    return (Bound.BANDWIDTH if moves or by_stream >= _BANDWIDTH_BOUND else Bound.COMPUTE).value
