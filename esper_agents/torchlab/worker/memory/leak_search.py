"""Run repeated steps and search for memory that stays allocated: size, creator and retainer."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch

from ..process.out_of_memory import ran_out
from ..target.target import LoadedTarget
from .allocations import Allocation
from .current_location import CurrentLocation
from .growth import growth, may_grow
from .operation_workspace import free_bytes
from .profiled_run import mark, profiled
from .profiler_events import MOMENT, ProfilerEvents
from .reachable_tensors import living_nodes
from .result import LeakSearch, MemoryHolder, MemoryMaker
from .retainers import RetainerSearch
from .storage_tracker import StorageTracker
from .tensor_roles import set_aside
from .training_step import Stepper

# A quarter of the steps is warm-up if nothing grew; the first half if something did.
_WARMUP_SHARE = 4
# A retained number without a graph is smaller: it reaches a megabyte only after thousands of steps.
_LEAST_BYTES = 256
_MOST_MAKERS = 8
# Results of one line in one step from which a loop makes them.
_MANY = 8
# Share of the free memory: faster growth is visible before it is used up.
_LARGEST_SHARE = 0.25
_Tell = Callable[[str, float], None]


@dataclass
class _Course:
    """Memory left by the steps.

    Attributes:
        live_bytes: After each step, bytes of the storages observed since creation.
        profiler_bytes: After each step, by the profiler's events: an independent observation that includes workspaces.
        collected_bytes: Bytes freed by the garbage collector after each step.
        graph_nodes: Number of autograd nodes retained after each step.
        node_numbers: Sequence number of the next node at the beginning of each step.
        error: Out-of-memory error that ended the steps early; None without one.
    """

    live_bytes: list[int] = field(default_factory=list)
    profiler_bytes: list[int] = field(default_factory=list)
    collected_bytes: list[int] = field(default_factory=list)
    graph_nodes: list[int] = field(default_factory=list)
    node_numbers: list[int] = field(default_factory=list)
    error: BaseException | None = None

    def is_worth_more(self, device: str) -> bool:
        """Return whether doubling the steps would add information, and fit into memory."""
        has_grown = may_grow(self.live_bytes, _LEAST_BYTES) or may_grow(self.graph_nodes, 1)
        return has_grown and self.live_bytes[-1] - self.live_bytes[0] < _LARGEST_SHARE * free_bytes(device)


@dataclass
class LeakSearchResult:
    """Result of a leak search.

    Attributes:
        result: The search; None if memory ran out before two steps could be compared.
        error: Out-of-memory error that ended the steps early; None without one.
    """

    result: LeakSearch | None
    error: BaseException | None


def look(
    target: LoadedTarget, stepper: Stepper, steps: int, seed: int, tell: _Tell, *, has_profiler: bool = True
) -> LeakSearchResult:
    """Return whether memory grows with steps, by how much, and its retainers.

    If memory still grew after half of the steps, their number is doubled: a filling cache levels off.

    Args:
        target: The target.
        stepper: Runs its steps.
        steps: Number of steps.
        seed: First seed; each step has its own inputs from the following seeds.
        tell: Progress callback.
        has_profiler: Whether the profiler observes too. Its events take memory and time.
    """
    watch = StorageTracker(CurrentLocation(target), torch.device(target.device).type)
    course = _Course()
    with profiled(watch.device) if has_profiler else nullcontext() as profiler:
        _run(watch, stepper, course, range(seed + 1, seed + 1 + 2 * steps), tell)
    if profiler is not None:
        events = ProfilerEvents(profiler.profiler.kineto_results.experimental_event_tree(), watch.device)
        course.profiler_bytes += events.sums_at_moments()[: len(course.live_bytes)]
    ran = len(course.live_bytes)
    if not ran:
        return LeakSearchResult(None, course.error)
    warmup = steps if ran > steps and course.error is None else max(1, steps // _WARMUP_SHARE)
    by_bytes = max(
        (growth(each, warmup, _LEAST_BYTES) for each in (course.live_bytes, course.profiler_bytes)),
        key=lambda each: (each.is_growing, each.per_step),
    )
    by_nodes = growth(course.graph_nodes, warmup, 1)
    holders: tuple[MemoryHolder, ...] = ()
    made_by: tuple[MemoryMaker, ...] = ()
    is_growing = by_bytes.is_growing or by_nodes.is_growing
    if is_growing:
        suspects = _suspects(watch, warmup, ran, has_grown=by_bytes.is_growing)
        made_by = _makers(suspects)
        search = RetainerSearch(target, stepper, {each.key: each.nbytes for each in suspects})
        numbers = (course.node_numbers[warmup], course.node_numbers[ran - 1])
        holders = search.holders(numbers, None if course.error else seed + ran + 1)
    found = LeakSearch(
        steps=ran,
        live_bytes=tuple(course.live_bytes),
        profiler_bytes=tuple(course.profiler_bytes),
        collected_bytes=tuple(course.collected_bytes),
        graph_nodes=tuple(course.graph_nodes),
        is_growing=is_growing,
        bytes_per_step=by_bytes.per_step,
        graph_nodes_per_step=by_nodes.per_step,
        judged_from_step=by_bytes.first_step,
        holders=holders,
        made_by=made_by,
        is_leak=is_growing and not (holders and holders[0].bound is not None),
        kept_within=None if is_growing else _kept_within(watch, ran),
    )
    return LeakSearchResult(found, course.error)


def _run(watch: StorageTracker, stepper: Stepper, course: _Course, seeds: range, tell: _Tell) -> None:
    """Run a step for each seed, or only half of them if more would add nothing."""
    with set_aside() as known, watch.watching():
        for step, seed in enumerate(seeds, start=1):
            tell(f"step {step}: searching for retained memory", 0.5 + 0.4 * step / len(seeds))
            watch.step = step
            course.node_numbers.append(torch._C._autograd._get_sequence_nr())  # noqa: SLF001 - no public function
            try:
                stepper.run(stepper.inputs(seed))
            except (MemoryError, RuntimeError) as error:
                if not ran_out(error):
                    raise
                course.error = error
                break
            before = watch.live_bytes()
            gc.collect()
            with mark(f"{MOMENT}{step}"):
                course.live_bytes.append(watch.live_bytes())
            course.collected_bytes.append(before - course.live_bytes[-1])
            course.graph_nodes.append(living_nodes(known))
            if 2 * step == len(seeds) and not course.is_worth_more(watch.device):
                break


def _suspects(watch: StorageTracker, warmup: int, last: int, *, has_grown: bool) -> list[Allocation]:
    """Return the blocks that stayed: made after the warm-up, but not in the last step, as those may yet be replaced.

    If there are none and bytes still grew, one object must have grown by replacement: then return the blocks that
    the last step made larger than the one before.
    """
    alive = [each for each in watch.alive.values() if each.step > warmup]
    kept = [each for each in alive if each.step < last]
    if kept or not has_grown:
        return kept
    return _grown(watch, alive, last) or alive


def _grown(watch: StorageTracker, alive: list[Allocation], last: int) -> list[Allocation]:
    made: dict[tuple[object, ...], dict[int, list[Allocation]]] = {}
    for each in watch.trace.blocks:
        sites = made.setdefault((each.operation, each.place, each.module), {})
        sites.setdefault(each.step, []).append(each)
    result = []
    for each in alive:
        sites = made[each.operation, each.place, each.module]
        now, before = sites.get(last, []), sites.get(last - 1, [])
        # By identity: blocks of equal content are different objects.
        number = next((place for place, one in enumerate(now) if one is each), len(before))
        if number < len(before) and before[number].nbytes < each.nbytes:
            result.append(each)
    return result


def _kept_within(watch: StorageTracker, step: int) -> MemoryMaker | None:
    """Return the operation whose results in a step all live until its end: a loop in it keeps them.

    Gradients do so as well, and are none of the loop's results; an optimizer may call the forward pass.
    """
    made = [each for each in watch.trace.blocks if each.step == step]
    last = max((each.born for each in made), default=0)
    phases = [each for each in watch.trace.phases if each.step == step and each.name != "backward"]
    groups: dict[tuple[str, str, str], list[Allocation]] = {}
    for each in made:
        if each.place and any(phase.begin <= each.born < phase.end for phase in phases):
            groups.setdefault((each.place, each.operation, each.module), []).append(each)
    kept = [
        block
        for blocks in groups.values()
        if len(blocks) >= _MANY and all(block.is_alive(last) for block in blocks)
        for block in blocks
    ]
    return next(iter(_makers(kept)), None)


def _makers(suspects: list[Allocation]) -> tuple[MemoryMaker, ...]:
    """Return the lines and operations that made the remaining blocks."""
    groups: dict[tuple[str, str, str], list[Allocation]] = {}
    for each in suspects:
        groups.setdefault((each.place, each.operation, each.module), []).append(each)
    ranked = sorted(groups.items(), key=lambda each: (-sum(one.nbytes for one in each[1]), each[0]))
    return tuple(
        MemoryMaker(
            operation=operation,
            bytes=sum(each.nbytes for each in blocks),
            count=len(blocks),
            shape=tuple(blocks[-1].shape or ()),
            dtype=blocks[-1].dtype,
            file=blocks[-1].file,
            line=blocks[-1].line or None,
            module=module,
        )
        for (_, operation, module), blocks in ranked[:_MOST_MAKERS]
    )
