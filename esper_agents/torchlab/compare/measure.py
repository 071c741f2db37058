"""Paired timing of two arms in fresh processes per replicate, with clocks inside and outside."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.torchlab.compare.result import ArmTimes, TimedReplicate, TimingPlan
from esper_agents.torchlab.worker.compare.result import TimedBatch, WarmedArm

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.compare.acceptance_rules import AcceptanceRules, TimingRules
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import TargetSpec
    from esper_agents.torchlab.worker.compare.result import EquivalenceCheck
    from esper_agents.torchlab.worker_handle import WorkerHandle, WorkerReply

_PILOT_CALLS = 3
_MOST_SINGLES = 8
_RECHECKED = 2
# Calls of a batch whose results are asked for when it is done, and of them those that are judged.
_MOST_KEPT, _JUDGED = 48, 3
_EMPTY_RUNS = 3
# What is looked at must not follow from the seed, which measured code can know.
_UNKNOWN = random.SystemRandom()
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
        memory_bytes: Memory limit of its processes, if it is less than that of the lab.
        phase_s: Time limit of one phase of a timing; that of the lab if None.
    """

    target: TargetSpec
    root: Path
    memory_bytes: int | None = None
    phase_s: float | None = None


@dataclass
class _Side:
    """One arm of a replicate, with what the clocks outside of its process showed.

    Attributes:
        worker: Its process.
        is_on_one_processor: Whether it may use one processor only.
        phase_s: See `Arm`.
        batch_ns: See `ArmTimes`, as of the others.
    """

    worker: WorkerHandle
    is_on_one_processor: bool
    phase_s: float | None = None
    batch_ns: list[int] = field(default_factory=list)
    outside_ns: list[int] = field(default_factory=list)
    processor_ns: list[int] = field(default_factory=list)
    queued_ns: list[int] = field(default_factory=list)
    run_ns: list[int] = field(default_factory=list)
    run_processor_ns: list[int] = field(default_factory=list)
    other_threads_ns: list[int] = field(default_factory=list)
    kept_processor_ns: list[int] = field(default_factory=list)
    empty_run_ns: list[int] = field(default_factory=list)
    single_run_ns: list[int] = field(default_factory=list)
    idle_ns: int = 0
    idle_wall_ns: int = 0
    _left: tuple[int, int] | None = None

    def ask(self, request: JsonObject, files: tuple[int, ...] = ()) -> _TimedReply:
        """Run one phase, timed by this process's clock and by the kernel's processor time."""
        clock = processor_clock(self.worker.pid)
        begun, before = time.perf_counter_ns(), time.clock_gettime_ns(clock)
        if self._left is not None:
            self.idle_wall_ns += begun - self._left[0]
            self.idle_ns += before - self._left[1]
        reply = self.worker.ask("timing", request, files=files, timeout_s=self.phase_s)
        done, after = time.perf_counter_ns(), time.clock_gettime_ns(clock)
        self._left = done, after
        return _TimedReply(reply, done - begun, after - before)

    def time(self, request: JsonObject, files: tuple[int, ...]) -> None:
        """Make a batch ready, and time it."""
        queued = _queued_ns(str(self.worker.pid))
        ready = self.ask({**request, "phase": "prepare"}, files)
        own = _main_thread_ns(self.worker.pid)
        ran, run_ns = self._run()
        self.other_threads_ns.append(max(ran.processor_ns - (_main_thread_ns(self.worker.pid) - own), 0) if own else 0)
        self.queued_ns.append(_queued_ns(str(self.worker.pid)) - queued)
        self.batch_ns.append(ran.reply.read(TimedBatch).batch_ns)
        self.run_ns.append(run_ns)
        self.run_processor_ns.append(ran.processor_ns)
        self.outside_ns.append(ready.wall_ns + ran.wall_ns)
        self.processor_ns.append(ready.processor_ns + ran.processor_ns)

    def time_nothing(self) -> None:
        """Time batches without calls: what a request takes without them."""
        for _ in range(_EMPTY_RUNS):
            self.ask({"phase": "prepare", "calls": 0, "lead_in": 0, "draw": [0, 0], "seed": 0, "shifts": []})
            self.empty_run_ns.append(self._run()[1])

    def time_single(self, request: JsonObject, files: tuple[int, ...]) -> None:
        """Time a batch of one call."""
        self.ask({**request, "phase": "prepare", "calls": 1, "lead_in": 0, "draw": [0, 1]}, files)
        self.single_run_ns.append(self._run()[1])

    def _run(self) -> tuple[_TimedReply, int]:
        """Run the batch that is ready; return the reply, and its time without what others took from both processes.

        Work of other threads of a process that has one processor may make its first thread wait: it counts.
        """
        processes = (str(self.worker.pid), f"{os.getpid()}/task/{threading.get_native_id()}")
        before = [_queued_ns(process) for process in processes]
        ran = self.ask({"phase": "time"})
        if not self.is_on_one_processor:
            return ran, ran.wall_ns
        queued = sum(_queued_ns(each) - was for each, was in zip(processes, before, strict=True))
        return ran, max(ran.wall_ns - queued, ran.processor_ns)

    def kept(self, calls: Sequence[int], *, has_state: bool) -> WorkerReply:
        """Return what these calls of the last batch did, asked for twice: what work was left until then shows."""
        request = {"phase": "kept", "calls": list(calls), "has_state": has_state}
        first, second = self.ask(request), self.ask(request)
        for file in second.reply.files:
            os.close(file)
        self.kept_processor_ns.append((first.processor_ns - second.processor_ns) // len(calls))
        return first.reply

    def times(self) -> ArmTimes:
        return ArmTimes(
            batch_ns=tuple(self.batch_ns),
            outside_ns=tuple(self.outside_ns),
            processor_ns=tuple(self.processor_ns),
            queued_ns=tuple(self.queued_ns),
            idle_ns=self.idle_ns,
            idle_wall_ns=self.idle_wall_ns,
            processes_started=_children(self.worker.pid),
            run_ns=tuple(self.run_ns),
            run_processor_ns=tuple(self.run_processor_ns),
            other_threads_ns=tuple(self.other_threads_ns),
            kept_processor_ns=tuple(self.kept_processor_ns),
            empty_run_ns=tuple(self.empty_run_ns),
            single_run_ns=tuple(self.single_run_ns),
        )


@dataclass(frozen=True, slots=True)
class _TimedReply:
    reply: WorkerReply
    wall_ns: int
    processor_ns: int


@dataclass(frozen=True, slots=True)
class Referee:
    """Judges of what timed processes did; each closes the replies that it takes.

    Attributes:
        plan: Descriptor of the plan, whose parameters both arms get; None without one.
        calls: Compares what both arms did in these calls of a batch, by the seed of their inputs.
        processes: Compares the state of both timed processes with each other and with the observed ones.
    """

    plan: int | None
    calls: Callable[[WorkerReply, WorkerReply, int, Sequence[int]], tuple[EquivalenceCheck, ...]]
    processes: Callable[[WorkerReply, WorkerReply], tuple[EquivalenceCheck, ...]]


def calibrate(
    lab: Lab,
    baseline: Arm,
    candidate: Arm,
    rules: AcceptanceRules,
    *,
    train: bool,
    seed: int,
    is_stateless: bool = True,
    plan_file: int | None = None,
) -> TimingPlan:
    """Run both arms once and choose the lengths of a batch and a replicate.

    If outputs depend on the number of earlier calls, both arms make the same number of calls.

    Raises:
        WorkerError: An arm cannot be run.
    """
    timing = rules.timing
    with started(lab, baseline, "baseline") as one, started(lab, candidate, "candidate") as other:
        tried, kinds = [], set()
        for arm, worker in ((baseline, one), (candidate, other)):
            kinds.add(worker.load(arm.target).kind)
            warm = partial(
                _warm, worker, train=train, seed=seed, plan_file=plan_file, phase_s=arm.phase_s, has_costs=True
            )
            first = warm(_PILOT_CALLS)
            is_slow = first.call_ns > timing.slow_call_ns
            tried.append(first if is_slow else warm(_warm_calls(first.call_ns, first.input_ns, timing)))
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
        _warm_calls(max(call_ns), input_ns, timing),
        train,
        any(each.remembers for each in tried),
    )


def _warm_calls(call_ns: int, input_ns: int, timing: TimingRules) -> int:
    if call_ns > timing.slow_call_ns:
        return 1
    return min(max(timing.warm_ns // max(call_ns + input_ns, 1), _PILOT_CALLS), _MOST_WARM_CALLS)


def replicate(
    lab: Lab,
    arms: tuple[Arm, Arm],
    plan: TimingPlan,
    *,
    seed: int,
    referee: Referee,
) -> TimedReplicate:
    """Time both arms in a fresh pair of processes.

    Args:
        lab: The lab.
        arms: Baseline and candidate.
        plan: The timing plan.
        seed: Seed of every random choice in this replicate.
        referee: Judges what the timed processes did.

    Raises:
        WorkerError: An arm failed that had worked before.
    """
    chance = random.Random(seed)  # noqa: S311 - a design, not a secret
    cpu = _processor(lab, chance)
    order = "".join(chance.choice(_QUADS) for _ in range(plan.quads))
    rechecked_after = _UNKNOWN.sample(range(1, plan.quads * 2), _RECHECKED)
    shift = [chance.randrange(_MOST_PADDING) for _ in arms]
    is_alike = plan.calls[0] == plan.calls[1] and plan.lead_in[0] == plan.lead_in[1]
    with (
        _started(lab, arms[0], "baseline", shift[0], cpu) as one,
        _started(lab, arms[1], "candidate", shift[1], cpu) as other,
    ):
        is_on_one = cpu is not None
        sides = (_Side(one, is_on_one, arms[0].phase_s), _Side(other, is_on_one, arms[1].phase_s))
        # Alternates the arm that first gets memory and caches.
        for number in chance.sample((0, 1), 2):
            sides[number].worker.load(arms[number].target)
        warm_seed = chance.getrandbits(31)
        for number in chance.sample((0, 1), 2):
            worker = sides[number].worker
            limit_s = arms[number].phase_s
            _warm(worker, plan.warm_calls, train=plan.train, seed=warm_seed, plan_file=referee.plan, phase_s=limit_s)
            sides[number].time_nothing()
        rechecked: list[EquivalenceCheck] = []
        for number in range(plan.quads * 2):
            if number < _MOST_SINGLES and sum(plan.calls) + sum(plan.lead_in) > len(arms):
                _time_singles(sides, chance)
            inputs_seed = _time_pair(sides, plan, order[2 * number : 2 * number + 2], chance)
            if number in rechecked_after:
                every = [*range(min(plan.lead_in)), *(max(plan.lead_in) + each for each in range(min(plan.calls)))]
                calls = _UNKNOWN.sample(every, min(len(every), _MOST_KEPT))
                kept = [side.kept(calls, has_state=is_alike) for side in sides]
                judged = _UNKNOWN.sample(calls, min(len(calls), _JUDGED))
                rechecked += referee.calls(kept[0], kept[1], inputs_seed, judged)
                states = [side.ask({"phase": "process"}).reply for side in sides]
                rechecked += referee.processes(states[0], states[1])
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


def _time_singles(sides: tuple[_Side, _Side], chance: random.Random) -> None:
    """Time one call of each arm on its own: what an arm saves by treating a batch as one, a single call lacks."""
    seed = chance.getrandbits(31)
    made = sides[0].ask({"phase": "draw", "seed": seed, "calls": 1}).reply
    try:
        for number in chance.sample((0, 1), 2):
            shifts = [chance.randrange(_MOST_SHIFT) for _ in range(_SHIFTS)]
            sides[number].time_single({"seed": seed, "shifts": shifts}, made.files)
    finally:
        for file in made.files:
            os.close(file)


def _time_pair(sides: tuple[_Side, _Side], plan: TimingPlan, order: str, chance: random.Random) -> int:
    """Time a batch of each arm on the same inputs, of which each uses as many as it makes calls; return their seed.

    The process of the baseline makes the inputs of both: where they are made, answers could be prepared.
    """
    inputs_seed = chance.getrandbits(31)
    draw = [max(plan.lead_in), max(plan.calls)]
    made = sides[0].ask({"phase": "draw", "seed": inputs_seed, "calls": sum(draw)}).reply
    try:
        for letter in order:
            arm = "AB".index(letter)
            shifts = [chance.randrange(_MOST_SHIFT) for _ in range(_SHIFTS)]
            request = {"seed": inputs_seed, "draw": draw, "calls": plan.calls[arm], "lead_in": plan.lead_in[arm]}
            sides[arm].time({**request, "shifts": shifts}, made.files)
    finally:
        for file in made.files:
            os.close(file)
    return inputs_seed


def started(lab: Lab, arm: Arm, label: str, *, beside: Collection[int | None] = ()) -> WorkerHandle:
    """Start a process of an arm with the surroundings that a timed one has; its processor is drawn.

    Args:
        lab: The lab.
        arm: The arm.
        label: Its name in errors, `baseline` or `candidate`.
        beside: Processors of those that run at the same time, which it shares with as few as possible.
    """
    return _started(lab, arm, label, _UNKNOWN.randrange(_MOST_PADDING), _processor_beside(lab, beside))


def usable_processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def _processor_beside(lab: Lab, beside: Collection[int | None]) -> int | None:
    """Return a processor that as few as possible of these use, if one is enough for an arm."""
    if lab.settings.threads > 1:
        return None
    used = Counter(beside)
    able = sorted(os.sched_getaffinity(0))
    fewest = min(used[each] for each in able)
    return _UNKNOWN.choice([each for each in able if used[each] == fewest])


def _started(lab: Lab, arm: Arm, label: str, padding: int, cpu: int | None) -> WorkerHandle:
    return lab.worker(
        root=arm.root,
        device=arm.target.device,
        label=label,
        padding=padding,
        cpu=cpu,
        memory_bytes=arm.memory_bytes,
    )


def _warm(
    worker: WorkerHandle,
    calls: int,
    *,
    train: bool,
    seed: int,
    plan_file: int | None,
    phase_s: float | None,
    has_costs: bool = False,
) -> WarmedArm:
    files = () if plan_file is None else (plan_file,)
    request = {"phase": "warm", "calls": calls, "train": train, "seed": seed, "has_costs": has_costs}
    return worker.ask("timing", request, files=files, timeout_s=phase_s).read(WarmedArm)


def _processor(lab: Lab, chance: random.Random) -> int | None:
    """Return the processor that both arms of a replicate share in turn, if one is enough for an arm."""
    if lab.settings.threads > 1:
        return None
    return chance.choice(sorted(os.sched_getaffinity(0)))


def processor_clock(pid: int) -> int:
    """Return the clock of a process's processor time, all its threads together (see clock_getcpuclockid(3))."""
    return (~pid << 3) | 2


def contention(pid: int) -> float:
    """Return how many times as long as alone a process's first thread took to run, for want of a processor."""
    ran_ns = _main_thread_ns(pid)
    return 1 + _queued_ns(str(pid)) / ran_ns if ran_ns else 1.0


def _queued_ns(pid: str) -> int:
    """Return the time for which a process's first thread, or a thread, was runnable but not running.

    0 if the kernel does not report it.
    """
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as opened:  # noqa: PTH123 - not a user's path
            return int(opened.read().split()[1])
    except (OSError, IndexError):
        return 0


def _main_thread_ns(pid: int) -> int:
    """Return the processor time of a process's first thread; 0 if the kernel does not report it."""
    try:
        with open(f"/proc/{pid}/task/{pid}/schedstat", encoding="ascii") as opened:  # noqa: PTH123 - as above
            return int(opened.read().split()[0])
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
