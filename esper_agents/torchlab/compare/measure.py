"""Paired timing of two arms in fresh processes per replicate, with clocks inside and outside."""

from __future__ import annotations

import math
import os
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.torchlab.compare.result import ArmTimes, TimedReplicate, TimingPlan
from esper_agents.torchlab.worker.compare.result import TimedBatch, WarmedArm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.compare.acceptance_rules import AcceptanceRules, TimingRules
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import TargetSpec
    from esper_agents.torchlab.worker.compare.result import EquivalenceCheck
    from esper_agents.torchlab.worker_handle import WorkerHandle, WorkerReply

# Compares both outputs of a timed call; takes both replies and the seed of the inputs.
Recheck: TypeAlias = "Callable[[WorkerReply, WorkerReply, int], tuple[EquivalenceCheck, ...]]"

_PILOT_CALLS = 3
_RECHECKED = 2
_MOST_WARM_CALLS = 200
_MOST_PADDING = 1 << 20
_MOST_SHIFT = 64 << 10
_SHIFTS = 8
# ABBA or BAAB, never ABAB: clock frequency drift must affect both arms alike.
_QUADS = ("ABBA", "BAAB")


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison.

    Attributes:
        target: Its target.
        root: Folder for resolving the target's name.
    """

    target: TargetSpec
    root: Path


@dataclass
class _Side:
    worker: WorkerHandle
    batch_ns: list[int] = field(default_factory=list)
    outside_ns: list[int] = field(default_factory=list)
    processor_ns: list[int] = field(default_factory=list)
    queued_ns: list[int] = field(default_factory=list)
    idle_ns: int = 0
    idle_wall_ns: int = 0
    _left: tuple[int, int] | None = None

    def time(self, request: JsonObject) -> None:
        """Time one batch by the process's own clock, by this process's clock, and by the kernel's CPU time."""
        clock = processor_clock(self.worker.pid)
        queued = _queued_ns(self.worker.pid)
        begun, before = time.perf_counter_ns(), time.clock_gettime_ns(clock)
        if self._left is not None:
            self.idle_wall_ns += begun - self._left[0]
            self.idle_ns += before - self._left[1]
        answer = self.worker.ask("timing", request)
        done, after = time.perf_counter_ns(), time.clock_gettime_ns(clock)
        self._left = done, after
        self.queued_ns.append(_queued_ns(self.worker.pid) - queued)
        self.batch_ns.append(answer.read(TimedBatch).batch_ns)
        self.outside_ns.append(done - begun)
        self.processor_ns.append(after - before)

    def times(self) -> ArmTimes:
        return ArmTimes(
            batch_ns=tuple(self.batch_ns),
            outside_ns=tuple(self.outside_ns),
            processor_ns=tuple(self.processor_ns),
            queued_ns=tuple(self.queued_ns),
            idle_ns=self.idle_ns,
            idle_wall_ns=self.idle_wall_ns,
            processes_started=_children(self.worker.pid),
        )


def calibrate(
    lab: Lab,
    baseline: Arm,
    candidate: Arm,
    rules: AcceptanceRules,
    *,
    train: bool,
    seed: int,
    is_stateless: bool = True,
) -> TimingPlan:
    """Run both arms once and choose the lengths of a batch and a replicate.

    If outputs depend on the number of earlier calls, both arms make the same number of calls.

    Raises:
        WorkerError: An arm cannot be run.
    """
    timing = rules.timing
    with _started(lab, baseline, "baseline", 0) as one, _started(lab, candidate, "candidate", 0) as other:
        tried, kinds = [], set()
        for arm, worker in ((baseline, one), (candidate, other)):
            kinds.add(worker.load(arm.target).kind)
            first = _warm(worker, _PILOT_CALLS, train=train, seed=seed)
            tried.append(_warm(worker, _warm_calls(first.call_ns, timing), train=train, seed=seed))
    call_ns = [max(each.call_ns, 1) for each in tried]
    input_ns = max(*(each.input_ns for each in tried), 1)
    most_calls = min(
        timing.most_input_ns // input_ns, timing.most_batch_bytes // max(*(each.input_bytes for each in tried), 1)
    )
    batch_ns = min(timing.batch_ns, max(most_calls, 1) * min(call_ns))
    calls = [max(round(batch_ns / each), 1) for each in call_ns]
    is_counted = "step" in kinds or not is_stateless
    if is_counted:
        calls = [min(calls)] * 2
    lead_in = [0 if each > timing.longest_lead_in_ns else math.ceil(timing.lead_in_ns / each) for each in call_ns]
    if is_counted:
        lead_in = [max(lead_in)] * 2
    quad_ns = 2 * sum(
        (first + more) * (each + input_ns) for first, more, each in zip(lead_in, calls, call_ns, strict=True)
    )
    quads = min(max(timing.replicate_ns // quad_ns, timing.fewest_quads), timing.most_quads)
    return TimingPlan(
        (calls[0], calls[1]),
        (lead_in[0], lead_in[1]),
        quads,
        _warm_calls(max(call_ns), timing),
        train,
        any(each.remembers for each in tried),
    )


def _warm_calls(call_ns: int, timing: TimingRules) -> int:
    return min(max(timing.warm_ns // max(call_ns, 1), _PILOT_CALLS), _MOST_WARM_CALLS)


def replicate(
    lab: Lab,
    arms: tuple[Arm, Arm],
    plan: TimingPlan,
    *,
    seed: int,
    recheck: Recheck,
) -> TimedReplicate:
    """Time both arms in a fresh pair of processes.

    Args:
        lab: The lab.
        arms: Baseline and candidate.
        plan: The timing plan.
        seed: Seed of every random choice in this replicate.
        recheck: Compares both outputs of a timed call.

    Raises:
        WorkerError: An arm failed that had worked before.
    """
    chance = random.Random(seed)  # noqa: S311 - a design, not a secret
    cpu = _processor(lab, chance)
    order = "".join(chance.choice(_QUADS) for _ in range(plan.quads))
    rechecked_after = chance.sample(range(1, plan.quads * 2), _RECHECKED)
    shift = [chance.randrange(_MOST_PADDING) for _ in arms]
    with (
        _started(lab, arms[0], "baseline", shift[0], cpu) as one,
        _started(lab, arms[1], "candidate", shift[1], cpu) as other,
    ):
        sides = (_Side(one), _Side(other))
        # Alternates the arm that first gets memory and caches.
        for number in chance.sample((0, 1), 2):
            sides[number].worker.load(arms[number].target)
        warm_seed = chance.getrandbits(31)
        for number in chance.sample((0, 1), 2):
            _warm(sides[number].worker, plan.warm_calls, train=plan.train, seed=warm_seed)
        rechecked: list[EquivalenceCheck] = []
        for number in range(plan.quads * 2):
            inputs_seed = _time_pair(sides, plan, order[2 * number : 2 * number + 2], chance)
            if number in rechecked_after:
                answers = [side.worker.ask("timing", {"phase": "output"}) for side in sides]
                rechecked += recheck(answers[0], answers[1], inputs_seed)
        return TimedReplicate(
            seed=seed,
            calls=plan.calls,
            lead_in=plan.lead_in,
            processor=cpu,
            order=order,
            baseline=sides[0].times(),
            candidate=sides[1].times(),
            rechecked=tuple(rechecked),
        )


def _time_pair(sides: tuple[_Side, _Side], plan: TimingPlan, order: str, chance: random.Random) -> int:
    """Time a batch of each arm on the same inputs, of which each uses as many as it makes calls; return their seed."""
    inputs_seed = chance.getrandbits(31)
    request: dict[str, Any] = {
        "phase": "time",
        "seed": inputs_seed,
        "draw": [max(plan.lead_in), max(plan.calls)],
        "pick": chance.randrange(min(plan.calls)),
    }
    for letter in order:
        arm = "AB".index(letter)
        shifts = [chance.randrange(_MOST_SHIFT) for _ in range(_SHIFTS)]
        sides[arm].time({**request, "calls": plan.calls[arm], "lead_in": plan.lead_in[arm], "shifts": shifts})
    return inputs_seed


def _started(lab: Lab, arm: Arm, label: str, padding: int, cpu: int | None = None) -> WorkerHandle:
    return lab.worker(root=arm.root, device=arm.target.device, label=label, padding=padding, cpu=cpu)


def _warm(worker: WorkerHandle, calls: int, *, train: bool, seed: int) -> WarmedArm:
    return worker.ask("timing", {"phase": "warm", "calls": calls, "train": train, "seed": seed}).read(WarmedArm)


def _processor(lab: Lab, chance: random.Random) -> int | None:
    """Return the processor that both arms of a replicate share in turn, if one is enough for an arm."""
    if lab.settings.threads > 1:
        return None
    return chance.choice(sorted(os.sched_getaffinity(0)))


def processor_clock(pid: int) -> int:
    """Return the clock of a process's processor time, all its threads together (see clock_getcpuclockid(3))."""
    return (~pid << 3) | 2


def _queued_ns(pid: int) -> int:
    """Return the time for which a process was runnable but not running; 0 if the kernel does not report it."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as opened:  # noqa: PTH123 - not a user's path
            return int(opened.read().split()[1])
    except (OSError, IndexError):
        return 0


def _children(pid: int) -> int:
    """Return the number of living child processes of all threads of a process."""
    found = 0
    # Children of a thread that ends before it is read have been reparented by then.
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += len((thread / "children").read_text(encoding="ascii").split())
    return found


def seeds(seed: int) -> Iterator[int]:
    """Return an endless stream of seeds for replicates, derived from one seed."""
    chance = random.Random(seed)  # noqa: S311 - a design, not a secret
    while True:
        yield chance.getrandbits(31)
