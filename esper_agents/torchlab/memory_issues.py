"""Classify memory problems and their phase from measured numbers alone."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from esper_agents.domain.quantities import bytes_text, percent

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

TYPES = ("model too large", "leak", "backward accumulation", "fragmentation", "none")
# Share of a step's allocations below which waiting for the garbage collector does not matter.
_LEAST_CYCLES = 0.05
# Share of the GPU allocator's reserved memory that is unused.
_LEAST_UNUSED = 0.25
_LEAST_SPLIT = 0.1
_FIRST_LATE_STEP = 3


def issue(result: JsonObject) -> JsonObject:
    """Return the kind of memory problem.

    An actual or predicted failure comes first, then growth, then reserved but unused memory.

    Args:
        result: Measurements, as assembled by `memory.memory`.

    Returns:
        `type`, one of `TYPES`, and `because`; `phase` and `step` if the problem has them.
    """
    for found in (_failed(result), _limited(result), _leaking(result), _cyclic(result), _fragmented(result)):
        if found:
            return found
    return {"type": "none", "because": _nothing(result)}


def limit(result: JsonObject, limit_bytes: int) -> JsonObject:
    """Return the location that exceeds a limit: by the measured phases if there are any, else by the estimated ones.

    Args:
        result: Measurements and estimates.
        limit_bytes: The limit.
    """
    known = result.get("peak") or result.get("estimate")
    told: dict[str, Any] = {"limit_bytes": limit_bytes}
    if known is None:
        return told
    told["by"] = "measurement" if "peak" in result else "estimate"
    told["peak_bytes"] = known["peak_bytes"]
    told["is_exceeded"] = known["peak_bytes"] > limit_bytes
    if told["is_exceeded"]:
        if known["before_bytes"] > limit_bytes:
            told.update(phase="building", step=0, phase_peak_bytes=known["before_bytes"])
        else:
            first = next(each for each in known["phases"] if each["peak_bytes"] > limit_bytes)
            told.update(phase=first["name"], step=first["step"], phase_peak_bytes=first["peak_bytes"])
    elif result.get("leak", {}).get("is_leak") and result["leak"]["bytes_per_step"] > 0:
        told["steps_until"] = (limit_bytes - known["peak_bytes"]) // result["leak"]["bytes_per_step"]
    return told


def type_of_phase(phase: str, step: int) -> str:
    """Return the kind of problem for running out of memory in a phase."""
    if step >= _FIRST_LATE_STEP:
        return "leak"
    return "backward accumulation" if phase == "backward" else "model too large"


def _failed(result: JsonObject) -> JsonObject:
    failed = result.get("out_of_memory")
    if not failed:
        return {}
    unused = _unused(result)
    if unused and failed.get("wanted_bytes", unused + 1) <= unused:
        because = (
            f"{bytes_text(failed['wanted_bytes'])} were refused while {bytes_text(unused)} were reserved and unused"
        )
        return {"type": "fragmentation", "because": because, "phase": failed["phase"], "step": failed["step"]}
    because = f"memory ran out in {when(failed['phase'], failed['step'])}: {failed['message']}"
    # Later steps allocate as much as the first ones, and have less space.
    kind = "leak" if failed["phase"] == "later" else type_of_phase(failed["phase"], failed["step"])
    return {"type": kind, "because": because, "phase": failed["phase"], "step": failed["step"]}


def _limited(result: JsonObject) -> JsonObject:
    told = result.get("limit", {})
    if not told.get("is_exceeded"):
        return {}
    said = "reaches" if told["by"] == "measurement" else "would reach"
    because = (
        f"{when(told['phase'], told['step'])} {said} {bytes_text(told['phase_peak_bytes'])}, "
        f"and the limit is {bytes_text(told['limit_bytes'])}"
    )
    kind = type_of_phase(told["phase"], told["step"])
    return {"type": kind, "because": because, "phase": told["phase"], "step": told["step"]}


def _leaking(result: JsonObject) -> JsonObject:
    leak = result.get("leak", {})
    if not leak.get("is_leak"):
        return {}
    grows = [f"{bytes_text(leak['bytes_per_step'])}"] if leak["bytes_per_step"] > 0 else []
    if leak["graph_nodes_per_step"] > 0:
        grows.append(f"{leak['graph_nodes_per_step']} nodes of autograd graphs")
    holders = leak["holders"]
    held = f", held by {holders[0]['name']}" if holders else ""
    kind = "backward accumulation" if holders and holders[0]["kind"] == "gradient" else "leak"
    because = f"each step leaves {' and '.join(grows)} behind after {leak['steps']} steps{held}"
    return {"type": kind, "because": because}


def _cyclic(result: JsonObject) -> JsonObject:
    leak, peak = result.get("leak", {}), result.get("peak", {})
    collected = median(leak.get("collected_bytes") or [0])
    if not collected or collected < _LEAST_CYCLES * peak.get("allocated_bytes", 0):
        return {}
    because = (
        f"{bytes_text(collected)} of each step hang in reference cycles and stay until Python's garbage collector runs,"
        " which counts objects and not bytes"
    )
    return {"type": "leak", "because": because}


def _fragmented(result: JsonObject) -> JsonObject:
    allocator, unused = result.get("allocator", {}), _unused(result)
    reserved = allocator.get("reserved_peak_bytes", 0)
    is_split = allocator.get("split_unused_peak_bytes", 0) >= _LEAST_SPLIT * reserved
    if not unused or unused < _LEAST_UNUSED * reserved or not (is_split or allocator.get("retries")):
        return {}
    share = percent(unused / reserved)
    return {
        "type": "fragmentation",
        "because": f"{share} of the {bytes_text(reserved)} that are reserved are never used",
    }


def _unused(result: JsonObject) -> int:
    allocator = result.get("allocator", {})
    return max(0, int(allocator.get("reserved_peak_bytes", 0)) - int(allocator.get("allocated_peak_bytes", 0)))


def _nothing(result: JsonObject) -> str:
    leak = result.get("leak", {})
    if not leak:
        return "nothing fails; whether memory grows was not looked at"
    if leak["is_growing"]:
        holder = leak["holders"][0]
        return f"{holder['name']} still fills, and ends at {holder['bound']} entries"
    return f"memory is level after {leak['steps']} steps"


def when(phase: str, step: int) -> str:
    """Return a phase in words, such as `the forward of step 1`."""
    if phase == "building":
        return "building the model"
    return f"step {step}" if phase == "later" else f"the {phase} of step {step}"
