"""Estimate the allocations of a step on fake tensors, which have shapes and no numbers."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..target.target import LoadedTarget
from .allocations import Allocation, Trace, mark_activations
from .assumptions import EstimateAssumption, assume
from .current_location import CurrentLocation
from .fake_tensors import UncopiedFakeMode, loaded, made_inputs
from .operation_workspace import ReturnedTensor, Scratch
from .profiled_run import mark, profiled
from .profiler_events import TICK, ProfilerEvents
from .result import AssumedFact
from .storage_tracker import StorageTracker
from .tensor_roles import Owners, by_identity, every_tensor, storages, stronger
from .training_step import Stepper

_LEAST_REAL = 64


class _LinearCalls(TorchFunctionMode):
    """Tracker of calls of `linear`, which adds its bias out of place under a mode.

    Attributes:
        is_running: Whether `linear` is running.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_running = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        was_running, self.is_running = self.is_running, func is torch.nn.functional.linear
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.is_running = was_running


class _Estimating(StorageTracker):
    """Tracker of fake storages that corrects for differences of real kernels and the real autograd engine."""

    def __init__(
        self, whereabouts: CurrentLocation, device: str, mode: FakeTensorMode, scratch: Scratch | None
    ) -> None:
        super().__init__(whereabouts, device)
        self.owners = Owners(by_identity, device)
        self.linear = _LinearCalls()
        self._found_inf: set[int] = set()
        self.assumed: dict[tuple[str, str], None] = {}
        self._mode = mode
        self._scratch = scratch
        self._inside: list[tuple[Allocation, int]] = []
        self._pending: tuple[Allocation, Allocation] | None = None
        self._running: Allocation | None = None

    def call(self, func: Any, args: Any, kwargs: Any, at: tuple[str, str]) -> Any:
        self._settle()
        self._mark()
        if func is torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default:
            self._found_inf.add(by_identity(args[1].untyped_storage()))
        assumption = assume(func, args, kwargs, self._mode)
        if assumption is not None and self._is_found_inf(func, args):
            assumption = EstimateAssumption("gradients are finite", is_answer=True, answer=0.0)
        if assumption is not None:
            self.assumed[at[0], assumption.what] = None
            if assumption.is_answer:
                return assumption.answer
            output = func(*assumption.answer[0], **assumption.answer[1])
        else:
            output = func(*args, **kwargs)
        probed = self._scratch.probe(func, args, kwargs, output) if self._scratch else None
        if probed is not None:
            self._running = Allocation(-1, 0, self.tick(), None, str(func), *at)
            self.trace.blocks.append(self._running)
            self._inside.append((self._running, probed.number))
            output = self._as_real(output, probed.made)
        return output

    def called(self, func: Any, args: Any, output: Any) -> None:
        if self._running is not None:
            self._running.died = self.tick()
            self._running = None
        if _is_in_place_without_mode(func, is_in_linear=self.linear.is_running):
            old, new = (self._block(each) for each in (args[0], output))
            if old is not None and new is not None and old.nbytes == new.nbytes:
                self._pending = old, new

    def moment(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        used = self.owners.now() if optimizer is None else self.owners.of(optimizer)
        for key, category in used.items():
            block = self.alive.get(key)
            if block is not None:
                block.category = stronger(block.category, category)

    def begin(self, step: int) -> None:
        """Begin a step."""
        self.step = step
        self._mark()

    def _mark(self) -> None:
        with mark(f"{TICK}{self.tick()}"):
            pass

    def finish(self, reading: ProfilerEvents) -> None:
        """Add the workspace of operations, and the real memory allocated besides fake storages.

        The latter belongs to tensors that no operation returns, such as a generator's state kept by checkpointing.
        Memory that is freed before the next operation, or is a single number, belongs to the estimate itself.
        """
        self._settle()
        inside = reading.inside()
        for block, number in self._inside:
            block.nbytes = inside.get(number, 0)
        for nbytes, born, died in reading.beside():
            if nbytes >= _LEAST_REAL and born != died:
                self.trace.blocks.append(Allocation(-1, nbytes, born, died, "none"))

    def _is_found_inf(self, func: Any, args: Any) -> bool:
        """Return whether a GradScaler checks for overflowed gradients: it would skip the optimizer."""
        is_reading = func.overloadpacket.__name__ == "_local_scalar_dense"
        return is_reading and by_identity(args[0].untyped_storage()) in self._found_inf

    def _settle(self) -> None:
        """Merge two blocks if a real backward reuses the first because nothing else needs it."""
        if self._pending is not None:
            old, new = self._pending
            self._pending = None
            if old.died is not None:
                new.born, old.nbytes = old.born, 0

    def _block(self, tensor: torch.Tensor) -> Allocation | None:
        return next((self.alive.get(by_identity(storage)) for storage in storages(tensor)), None)

    def _as_real(self, output: Any, made: list[ReturnedTensor | None]) -> Any:
        """Return the output in storages of the real sizes.

        Some fake operations omit the returned workspace; some real ones return a number in the storage
        of the whole sum.
        """
        leaves, spec = tree_flatten(output)
        for number, (leaf, real) in enumerate(zip(leaves, made)):  # noqa: B905 - Python 3.10; one operation's twice
            if real is None or not isinstance(leaf, torch.Tensor):
                continue
            known = tuple(leaf.shape), leaf.dtype, leaf.untyped_storage().nbytes()
            if known != (real.shape, real.dtype, real.nbytes):
                with self._mode:
                    whole = torch.empty(real.nbytes // real.dtype.itemsize, dtype=real.dtype, device=leaf.device)
                    leaves[number] = whole.as_strided(real.shape, real.stride, real.offset)
        return tree_unflatten(leaves, spec)


# Backward formulas call these in place, except under a mode (areAnyTensorSubclassLike in FunctionsManual.cpp).
_IN_PLACE = frozenset((
    *("index_add", "index_copy", "index_fill", "index_put", "masked_fill", "masked_scatter"),
    *("put", "scatter", "scatter_add"),
))  # fmt: skip


def _is_in_place_without_mode(func: Any, *, is_in_linear: bool) -> bool:
    """Return whether an out-of-place call would be in place on real tensors, if memory allows."""
    if is_in_linear:
        return func is torch.ops.aten.add.Tensor
    if torch._C._current_graph_task_id() == -1:  # noqa: SLF001 - no public query
        return False
    if torch._C._current_autograd_node() is None:  # noqa: SLF001 - same reason
        # No node: the engine itself accumulates the gradients of several nodes.
        return func is torch.ops.aten.add.Tensor
    return func.overloadpacket.__name__ in _IN_PLACE


@dataclass(frozen=True)
class EstimatedRun:
    """Estimated run.

    Attributes:
        trace: Its allocations.
        built_with_memory_because: Reason that the target needed real memory; empty if it did not.
        assumed: Assumptions with their places.
        left_out: Names of operations whose workspace is unknown, with reasons.
    """

    trace: Trace
    built_with_memory_because: str
    assumed: tuple[AssumedFact, ...]
    left_out: dict[str, str]


def estimate(
    make: Callable[[], LoadedTarget], stepper: Callable[[LoadedTarget], Stepper], request: dict[str, Any]
) -> EstimatedRun:
    """Return the estimated allocations of a run, with its assumptions.

    Args:
        make: Makes the target; called on fake tensors, and again on real ones if that fails.
        stepper: Makes the stepper of a target.
        request: `seed`; `root`: the project; `limit_bytes`: memory limit of an operation that is run alone; `probe`:
            whether any is run.
    """
    mode = UncopiedFakeMode(allow_non_fake_inputs=True)
    target, built = loaded(make, mode, request.get("root", ""))
    device = torch.device(target.device).type
    scratch = Scratch(device, request.get("limit_bytes")) if request.get("probe", True) else None
    watch = _Estimating(CurrentLocation(target), device, mode, scratch)
    with profiled(device) as profiler:
        with mode:
            steps = stepper(target)
        inputs = made_inputs(steps, mode, int(request.get("seed", 0)))
        gc.collect()
        watch.trace.base.update(watch.owners.begin([inputs.args, inputs.kwargs]))
        for each in every_tensor():
            for storage in storages(each):
                watch.leave_out(storage)
        with mode, watch.watching(), watch.linear:
            for step in range(1, 2 + steps.does_more_than_once):
                watch.begin(step)
                steps.run(inputs)
                watch.moment()
    reading = ProfilerEvents(profiler.profiler.kineto_results.experimental_event_tree(), device)
    watch.finish(reading)
    mark_activations(watch.trace)
    assumed = tuple(AssumedFact(place, what) for place, what in watch.assumed)
    return EstimatedRun(watch.trace, built, assumed, scratch.left_out if scratch else {})
