"""Paired timing of two arms in fresh processes per replicate, with clocks inside and outside."""

from __future__ import annotations

import math
import os
import random
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import TargetSpec
    from esper_agents.torchlab.worker_handle import WorkerHandle, WorkerReply

_PILOT_CALLS = 3
_RECHECKED = 2
_MOST_WARM_CALLS = 200
_MOST_PADDING = 1 << 20
_MOST_SHIFT = 64 << 10
_SHIFTS = 8
# ABBA or BAAB, never ABAB: a drift of the clock frequency must fall on both alike.
_QUADS = ("ABBA", "BAAB")


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison.

    Attributes:
        target: What is run.
        root: The folder that its name is about.
    """

    target: TargetSpec
    root: Path


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """What every replicate does alike, settled by a pilot before the first.

    Attributes:
        calls: Timed calls in a batch of the baseline and of the candidate. Their batches take about as long, so that
            whatever costs the same for a batch, and whatever interrupts it, leaves the ratio as it is.
        lead_in: Calls in a batch before the clock is started, of either.
        quads: Quads of batches.
        warm_calls: Calls before the clock.
        train: Whether a call is forward and backward.
        remembers: Whether every call gets the same inputs, which are whole numbers and cannot be varied.
    """

    calls: tuple[int, int]
    lead_in: tuple[int, int]
    quads: int
    warm_calls: int
    train: bool
    remembers: bool

    def described(self) -> JsonObject:
        """Return it as reports hold it."""
        return asdict(self)


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
        """Have one batch timed, by the worker's clock, by ours, and by the kernel's count of its processor time."""
        clock = processor_clock(self.worker.pid)
        queued = _queued_ns(self.worker.pid)
        begun, before = time.perf_counter_ns(), time.clock_gettime_ns(clock)
        if self._left is not None:
            self.idle_wall_ns += begun - self._left[0]
            self.idle_ns += before - self._left[1]
        took = self.worker.ask("timing", request).result["batch_ns"]
        done, after = time.perf_counter_ns(), time.clock_gettime_ns(clock)
        self._left = done, after
        self.queued_ns.append(_queued_ns(self.worker.pid) - queued)
        self.batch_ns.append(int(took))
        self.outside_ns.append(done - begun)
        self.processor_ns.append(after - before)

    def described(self) -> JsonObject:
        return {
            "batch_ns": self.batch_ns,
            "outside_ns": self.outside_ns,
            "processor_ns": self.processor_ns,
            "queued_ns": self.queued_ns,
            "idle_ns": self.idle_ns,
            "idle_wall_ns": self.idle_wall_ns,
            "processes_started": _children(self.worker.pid),
        }


def calibrate(
    lab: Lab,
    baseline: Arm,
    candidate: Arm,
    rules: JsonObject,
    *,
    train: bool,
    seed: int,
    is_stateless: bool = True,
) -> TimingPlan:
    """Try both arms once and decide how long a batch and a replicate are.

    Where what a call returns depends on how often it was called before, both arms are called as often.

    Raises:
        WorkerError: An arm cannot be run.
    """
    timing = rules["timing"]
    with _started(lab, baseline, "baseline", 0) as one, _started(lab, candidate, "candidate", 0) as other:
        tried, kinds = [], set()
        for arm, worker in ((baseline, one), (candidate, other)):
            kinds.add(worker.load(arm.target)["kind"])
            first = _warm(worker, _PILOT_CALLS, train=train, seed=seed)
            tried.append(_warm(worker, _warm_calls(first["call_ns"], timing), train=train, seed=seed))
    call_ns = [max(int(each["call_ns"]), 1) for each in tried]
    input_ns = max(*(int(each["input_ns"]) for each in tried), 1)
    most_calls = min(
        timing["most_input_ns"] // input_ns,
        timing["most_batch_bytes"] // max(*(int(each["input_bytes"]) for each in tried), 1),
    )
    batch_ns = min(timing["batch_ns"], max(most_calls, 1) * min(call_ns))
    calls = [max(round(batch_ns / each), 1) for each in call_ns]
    is_counted = "step" in kinds or not is_stateless
    if is_counted:
        calls = [min(calls)] * 2
    lead_in = [0 if each > timing["longest_lead_in_ns"] else math.ceil(timing["lead_in_ns"] / each) for each in call_ns]
    if is_counted:
        lead_in = [max(lead_in)] * 2
    quad_ns = 2 * sum(
        (first + more) * (each + input_ns) for first, more, each in zip(lead_in, calls, call_ns, strict=True)
    )
    quads = min(max(timing["replicate_ns"] // quad_ns, timing["fewest_quads"]), timing["most_quads"])
    return TimingPlan(
        (calls[0], calls[1]),
        (lead_in[0], lead_in[1]),
        int(quads),
        _warm_calls(max(call_ns), timing),
        train,
        any(each["remembers"] for each in tried),
    )


def _warm_calls(call_ns: int, timing: JsonObject) -> int:
    return int(min(max(timing["warm_ns"] // max(call_ns, 1), _PILOT_CALLS), _MOST_WARM_CALLS))


def replicate(
    lab: Lab,
    arms: tuple[Arm, Arm],
    plan: TimingPlan,
    *,
    seed: int,
    recheck: Callable[[WorkerReply, WorkerReply, int], list[JsonObject]],
) -> JsonObject:
    """Time both arms in a fresh pair of processes.

    Args:
        lab: Where.
        arms: Baseline and candidate.
        plan: What every replicate does alike.
        seed: Of this replicate; everything random in it follows from it.
        recheck: Judges what the two returned for the same timed call; takes both answers and the seed of the inputs.

    Raises:
        WorkerError: An arm did not do what it did before.
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
        # Which arm comes first to the memory and the caches must not be the same one each time.
        for number in chance.sample((0, 1), 2):
            sides[number].worker.load(arms[number].target)
        warm_seed = chance.getrandbits(31)
        for number in chance.sample((0, 1), 2):
            _warm(sides[number].worker, plan.warm_calls, train=plan.train, seed=warm_seed)
        rechecked: list[JsonObject] = []
        for number in range(plan.quads * 2):
            # Both arms draw the same inputs in a pair of batches, and use as many of them as they make calls.
            request: dict[str, Any] = {
                "phase": "time",
                "seed": chance.getrandbits(31),
                "draw": [max(plan.lead_in), max(plan.calls)],
                "pick": chance.randrange(min(plan.calls)),
            }
            for letter in order[2 * number : 2 * number + 2]:
                arm = "AB".index(letter)
                shifts = [chance.randrange(_MOST_SHIFT) for _ in range(_SHIFTS)]
                sides[arm].time({**request, "calls": plan.calls[arm], "lead_in": plan.lead_in[arm], "shifts": shifts})
            if number in rechecked_after:
                answers = [side.worker.ask("timing", {"phase": "output"}) for side in sides]
                rechecked += recheck(answers[0], answers[1], request["seed"])
        return {
            "seed": seed,
            "calls": list(plan.calls),
            "lead_in": list(plan.lead_in),
            "processor": cpu,
            "order": order,
            "baseline": sides[0].described(),
            "candidate": sides[1].described(),
            "rechecked": rechecked,
        }


def log_ratio(sample: JsonObject) -> float:
    """Return ln(time of a call of the baseline / of the candidate) of a replicate, each by its fastest batch."""
    baseline, candidate = (min(sample[arm]["batch_ns"]) for arm in ("baseline", "candidate"))
    return math.log(baseline * sample["calls"][1] / (candidate * sample["calls"][0]))


def _started(lab: Lab, arm: Arm, label: str, padding: int, cpu: int | None = None) -> WorkerHandle:
    return lab.worker(root=arm.root, device=arm.target.device, label=label, padding=padding, cpu=cpu)


def _warm(worker: WorkerHandle, calls: int, *, train: bool, seed: int) -> JsonObject:
    return worker.ask("timing", {"phase": "warm", "calls": calls, "train": train, "seed": seed}).result


def _processor(lab: Lab, chance: random.Random) -> int | None:
    """Return the one processor that both arms of a replicate use in turn, where an arm needs only one."""
    if lab.settings.threads > 1:
        return None
    return chance.choice(sorted(os.sched_getaffinity(0)))


def processor_clock(pid: int) -> int:
    """Return the clock of a process's processor time, all its threads together (see clock_getcpuclockid(3))."""
    return (~pid << 3) | 2


def _queued_ns(pid: int) -> int:
    """Return how long a process was ready and others ran; 0 where the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as opened:  # noqa: PTH123 - not a path of anybody's
            return int(opened.read().split()[1])
    except (OSError, IndexError):
        return 0


def _children(pid: int) -> int:
    """Return how many processes a process has started, from any of its threads, that are there still."""
    found = 0
    # Of each thread that is over by the time it is read, the children belong to another by then.
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += len((thread / "children").read_text(encoding="ascii").split())
    return found


def seeds(seed: int) -> Any:
    """Return an endless stream of seeds for replicates, all of it following from one."""
    chance = random.Random(seed)  # noqa: S311 - a design, not a secret
    while True:
        yield chance.getrandbits(31)
