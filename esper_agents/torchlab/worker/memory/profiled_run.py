"""Run a target under torch's profiler and record its allocations by step and purpose."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..process.out_of_memory import ran_out
from ..target.target import LoadedTarget
from .allocations import Trace
from .current_location import CurrentLocation, PlaceMarks, is_compiled
from .profiler_events import MOMENT, STEP, ProfilerEvents
from .tensor_roles import Owners, by_address
from .training_step import Stepper


@dataclass
class ProfiledRun:
    """Measured run of some steps.

    Attributes:
        trace: Its allocations.
        is_placed: Whether its blocks have the user's line and module.
        step: The last step that started.
        events: Number of profiler events.
        error: Out-of-memory error that ended it early; None without one.
    """

    trace: Trace
    is_placed: bool
    step: int
    events: int
    error: BaseException | None = None


class _Moments:
    """Uses of storages at moments of a run; each moment leaves a mark in the profile."""

    def __init__(self, device: str) -> None:
        self.owners = Owners(by_address, device)
        self.noted: list[dict[int, str]] = []

    def note(self, optimizer: torch.optim.Optimizer | None = None, *_: Any) -> None:
        with mark(f"{MOMENT}{len(self.noted)}"):
            self.noted.append(self.owners.now() if optimizer is None else self.owners.of(optimizer))

    @contextmanager
    def around_optimizers(self) -> Iterator[None]:
        # Before an update, gradients are complete; after it, the state exists.
        hooks = register_optimizer_step_pre_hook(self.note), register_optimizer_step_post_hook(self.note)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


@contextmanager
def mark(name: str) -> Iterator[None]:
    """Add a named range to the profile, without allocating anything."""
    with torch._C._profiler._RecordFunctionFast(name):  # noqa: SLF001 - the public function allocates
        yield


@contextmanager
def profiled(device: str) -> Iterator[Any]:
    """Yield a profiler that records allocations and releases on a device and on the host."""
    from torch.profiler import ProfilerActivity, profile

    activities = [
        ProfilerActivity.CPU,
        *([ProfilerActivity.CUDA] if device == "cuda" and torch.cuda.is_available() else []),
    ]
    with profile(activities=activities, profile_memory=True) as profiler:
        yield profiler


def measure(target: LoadedTarget, stepper: Stepper, steps: int, seed: int) -> ProfiledRun:
    """Run some steps on the same inputs and return their allocations on the target's device.

    The total of the blocks equals the running total of the profiler's `[memory]` events.

    Args:
        target: The target.
        stepper: Runs its steps.
        steps: Number of steps. A second one shows the effect of existing gradients and optimizer state.
        seed: Seed of the inputs, which are made before.
    """
    inputs = stepper.inputs(seed)
    device = torch.device(target.device).type
    moments = _Moments(device)
    is_placed = not is_compiled()
    gc.collect()
    base = moments.owners.begin([inputs.args, inputs.kwargs])
    error: BaseException | None = None
    step = 0
    with profiled(device) as profiler, moments.around_optimizers():
        try:
            with _placed(CurrentLocation(target)) if is_placed else nullcontext():
                for step in range(1, steps + 1):
                    with mark(f"{STEP}{step}"):
                        stepper.run(inputs)
                        moments.note()
        except (MemoryError, RuntimeError) as raised:
            if not ran_out(raised):
                raise
            error = raised
    reading = ProfilerEvents(profiler.profiler.kineto_results.experimental_event_tree(), device)
    return ProfiledRun(reading.trace(base, moments.owners.base, moments.noted), is_placed, step, reading.events, error)


@contextmanager
def _placed(whereabouts: CurrentLocation) -> Iterator[None]:
    with whereabouts.following(), PlaceMarks(whereabouts):
        yield
