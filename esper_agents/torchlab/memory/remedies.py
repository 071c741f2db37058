"""Remedies for memory problems by kind and by the owner of the bytes, with savings and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.quantities import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.torchlab.memory.result import MemoryResult
    from esper_agents.torchlab.worker.memory.result import MemoryHolder

# Share of the peak above which a part is worth reducing.
_LARGE = 0.25

_BY_HOLDER = {
    "gradient": (
        "take second-order gradients with torch.autograd.grad(..., create_graph=True) and clear gradients with "
        "zero_grad(set_to_none=True): backward(create_graph=True) leaves each gradient with the graph that made it"
    ),
    "cache": (
        "do not cache by tensors: each is a new key, so the cache is never hit and keeps arguments and results; "
        "cache by shape or by a number, or drop the cache"
    ),
    "function": (
        "hand tensors to ctx.save_for_backward instead of setting them on ctx: backward frees what is saved so, "
        "and a result that is set on ctx refers to itself"
    ),
}
_WITH_GRAPH = (
    "keep `.item()` for a number, or `.detach()` for a tensor: what is kept now keeps the graph of its whole step"
)
_WITHOUT_GRAPH = (
    "let go of old entries (a deque with maxlen, or clear it each epoch), or move what must stay with `.cpu()`"
)
_CYCLE = (
    "break the cycle: nothing may refer to itself through its own attributes, closures or ctx; "
    "until then call gc.collect() every hundred steps"
)
_FRAGMENTATION = (
    "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: blocks of one segment can then be joined",
    "pad inputs to few sizes, and run the largest batch first",
)
_PREVENTION = {
    "leak": "assert in a test that torch holds as much after step 20 as after step 10",
    "model too large": "run this with --device-memory in CI: it fails before a job on the machine does",
    "backward accumulation": "run this with --device-memory in CI, in training mode: forward alone does not show it",
    "fragmentation": "watch reserved against allocated memory, and pad inputs to few sizes",
    "none": "run this again after a change to the model or to what is logged",
}


def remedies(result: MemoryResult) -> tuple[str, ...]:
    """Return remedies, largest saving first; empty without a problem.

    Args:
        result: Measurements, with their `issue`.
    """
    leak = result.leak
    match result.problem.type:
        case "none":
            return ()
        case "leak" | "backward accumulation" if leak is not None and leak.is_leak:
            return tuple(_of_holder(holder) for holder in leak.holders[:2]) or (_WITHOUT_GRAPH,)
        case "leak" if result.out_of_memory is None and result.limit is None:
            return (_CYCLE,)
        case "fragmentation":
            return _FRAGMENTATION
        case _:
            found = sorted(_of_size(result), key=lambda each: -each[0])
            return tuple(text for _, text in found) or ("smaller inputs, or a device with more memory",)


def prevention(result: MemoryResult) -> str:
    """Return advice to keep the problem from recurring."""
    return _PREVENTION[result.problem.type]


def _of_holder(holder: MemoryHolder) -> str:
    where = "" if holder.kept_line is None else f"{holder.file}:{holder.kept_line}: "
    if holder.kind in _BY_HOLDER:
        return where + _BY_HOLDER[holder.kind]
    return where + (_WITHOUT_GRAPH if holder.graph_of is None else _WITH_GRAPH)


def _of_size(result: MemoryResult) -> Iterator[tuple[int, str]]:
    """Yield remedies that make a step smaller, by the composition of its peak, with possible savings in bytes."""
    known, estimate = result.known, result.estimate
    if known is None:
        return
    split, peak = known.split_bytes, max(known.peak_bytes, 1)
    if estimate is not None and estimate.without_gradients_bytes is not None:
        saving = peak - estimate.without_gradients_bytes
        yield saving, f"call it under torch.no_grad(): saves {bytes_text(saving)} (estimated), costs nothing"
    passing, saved = split.activations + split.other, split.activations
    if passing >= _LARGE * peak:
        if result.trains or (result.trains is None and estimate is not None and estimate.trains):
            frees = f"frees most of {bytes_text(saved)} of activations, costs a second forward"
            yield saved, f"checkpoint the modules that hold most (torch.utils.checkpoint): {frees}"
        half = bytes_text(passing // 2)
        yield passing // 2, f"halve the batch and accumulate gradients over two: saves about {half}, costs time"
        yield passing // 2, f"autocast to bfloat16: saves up to {half}, changes results by rounding"
    if split.optimizer_state >= _LARGE * peak:
        state = f"{bytes_text(split.optimizer_state)} are state, for Adam two copies of the parameters"
        yield split.optimizer_state, f"an optimizer with less state (SGD, Adafactor), or one that shards it: {state}"
    if split.parameters >= _LARGE * peak:
        less = bytes_text(split.parameters // 2)
        yield split.parameters // 2, f"weights in bfloat16 ({less} less), weights that are sharded, or a smaller model"
