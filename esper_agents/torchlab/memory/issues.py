"""Classify memory problems and their phase from measured numbers alone."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from esper_agents.domain.quantities import bytes_text, percent
from esper_agents.torchlab.memory.result import MemoryIssue, MemoryLimit

if TYPE_CHECKING:
    from esper_agents.torchlab.memory.result import MemoryIssueType, MemoryResult
    from esper_agents.torchlab.worker.memory.result import MemoryBlock, MemoryMaker

# Share of a step's allocations below which waiting for the garbage collector does not matter.
_LEAST_CYCLES = 0.05
# Share of the GPU allocator's reserved memory that is unused.
_LEAST_UNUSED = 0.25
_LEAST_SPLIT = 0.1
# Results of one operation of one module at the peak, and their share of it, from which a loop in the step keeps them.
_MANY, _LEAST_REPEATED = 8, 0.2
_FIRST_LATE_STEP = 3


def issue(result: MemoryResult) -> MemoryIssue:
    """Return the kind of memory problem.

    An actual or predicted failure comes first, then growth, then reserved but unused memory.
    """
    for find in (_failed, _limited, _leaking, _cyclic, _fragmented):
        if found := find(result):
            return found
    block = (result.leak.kept_within if result.leak else None) or _repeated(result)
    return MemoryIssue("none", _nothing(result, block), repeats=block.count if block else 0)


def limit(result: MemoryResult, limit_bytes: int) -> MemoryLimit:
    """Return the location that exceeds a limit: by the measured phases if there are any, else by the estimated ones."""
    known, leak = result.known, result.leak
    told = MemoryLimit(limit_bytes=limit_bytes)
    if known is None:
        return told
    by = "estimate" if result.peak is None else "measurement"
    told = replace(told, by=by, peak_bytes=known.peak_bytes, is_exceeded=known.peak_bytes > limit_bytes)
    if told.is_exceeded:
        if known.before_bytes > limit_bytes:
            return replace(told, phase="building", step=0, phase_peak_bytes=known.before_bytes)
        first = next(phase for phase in known.phases if phase.peak_bytes > limit_bytes)
        return replace(told, phase=first.name, step=first.step, phase_peak_bytes=first.peak_bytes)
    if leak is not None and leak.is_leak and leak.bytes_per_step > 0:
        return replace(told, steps_until=(limit_bytes - known.peak_bytes) // leak.bytes_per_step)
    return told


def type_of_phase(phase: str, step: int) -> MemoryIssueType:
    """Return the kind of problem for running out of memory in a phase."""
    if step >= _FIRST_LATE_STEP:
        return "leak"
    return "backward accumulation" if phase == "backward" else "model too large"


def _failed(result: MemoryResult) -> MemoryIssue | None:
    failed = result.out_of_memory
    if failed is None:
        return None
    unused, wanted = _unused(result), failed.wanted_bytes
    if wanted is not None and unused and wanted <= unused:
        because = f"{bytes_text(wanted)} were refused while {bytes_text(unused)} were reserved and unused"
        return MemoryIssue("fragmentation", because, failed.phase, failed.step)
    because = f"memory ran out in {when(failed.phase, failed.step)}: {failed.message}"
    # Later steps allocate as much as the first ones, and have less space.
    kind = "leak" if failed.phase == "later" else type_of_phase(failed.phase, failed.step)
    return MemoryIssue(kind, because, failed.phase, failed.step)


def _limited(result: MemoryResult) -> MemoryIssue | None:
    told = result.limit
    if told is None or not told.is_exceeded or told.step is None:
        return None
    said = "reaches" if told.by == "measurement" else "would reach"
    because = (
        f"{when(told.phase, told.step)} {said} {bytes_text(told.phase_peak_bytes)}, "
        f"and the limit is {bytes_text(told.limit_bytes)}"
    )
    return MemoryIssue(type_of_phase(told.phase, told.step), because, told.phase, told.step)


def _leaking(result: MemoryResult) -> MemoryIssue | None:
    leak = result.leak
    if leak is None or not leak.is_leak:
        return None
    grows = [f"{bytes_text(leak.bytes_per_step)}"] if leak.bytes_per_step > 0 else []
    if leak.graph_nodes_per_step > 0:
        grows.append(f"{leak.graph_nodes_per_step} nodes of autograd graphs")
    held = f", held by {leak.holders[0].name}" if leak.holders else ""
    is_gradient = bool(leak.holders) and leak.holders[0].kind == "gradient"
    because = f"each step leaves {' and '.join(grows)} behind after {leak.steps} steps{held}"
    return MemoryIssue("backward accumulation" if is_gradient else "leak", because)


def _cyclic(result: MemoryResult) -> MemoryIssue | None:
    collected = median((result.leak and result.leak.collected_bytes) or [0])
    allocated = result.peak.allocated_bytes if result.peak else 0
    if not collected or collected < _LEAST_CYCLES * allocated:
        return None
    because = (
        f"{bytes_text(collected)} of each step hang in reference cycles and stay until Python's garbage collector runs,"
        " which counts objects and not bytes"
    )
    return MemoryIssue("leak", because)


def _fragmented(result: MemoryResult) -> MemoryIssue | None:
    allocator, unused = result.allocator or {}, _unused(result)
    reserved = allocator.get("reserved_peak_bytes", 0)
    is_split = allocator.get("split_unused_peak_bytes", 0) >= _LEAST_SPLIT * reserved
    if not unused or unused < _LEAST_UNUSED * reserved or not (is_split or allocator.get("retries")):
        return None
    share = percent(unused / reserved)
    return MemoryIssue("fragmentation", f"{share} of the {bytes_text(reserved)} that are reserved are never used")


def _unused(result: MemoryResult) -> int:
    allocator = result.allocator or {}
    return max(0, allocator.get("reserved_peak_bytes", 0) - allocator.get("allocated_peak_bytes", 0))


def _nothing(result: MemoryResult, repeated: MemoryBlock | MemoryMaker | None) -> str:
    leak = result.leak
    if leak is None:
        return "nothing fails; whether memory grows was not looked at"
    if leak.is_growing:
        holder = leak.holders[0]
        return f"{holder.name} still fills, and ends at {holder.bound} entries"
    level = f"memory is level after {leak.steps} steps"
    if repeated is None:
        return level
    kept = f"{repeated.count} results of {repeated.place} are alive at once within one step"
    if repeated == leak.kept_within:
        kept += f", until it ends ({bytes_text(repeated.bytes or 0)})"
    return f"{level}, but {kept}: measure more and fewer iterations of its loop to see whether they grow with it"


def _repeated(result: MemoryResult) -> MemoryBlock | None:
    """Return the largest memory at the peak that one operation of one module made many times; None if it is little.

    A loop inside the step keeps its results: in a list, or in the graph that backward needs.
    """
    peak = result.peak
    if peak is None:
        return None
    made = (
        block
        for block in peak.largest
        if block.category == "activations" and block.count >= _MANY and (block.file or block.module)
    )
    block = max(made, key=lambda each: each.bytes or 0, default=None)
    return block if block and (block.bytes or 0) >= _LEAST_REPEATED * peak.allocated_bytes else None


def when(phase: str, step: int) -> str:
    """Return a phase in words, such as `the forward of step 1`."""
    if phase == "building":
        return "building the model"
    return f"step {step}" if phase == "later" else f"the {phase} of step {step}"
