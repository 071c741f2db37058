"""How often a comparison decides wrongly, on pairs whose true ratio is known by construction, on a busy machine.

Live decisions run all that `esper torch compare` does after it has seen to correctness, beside `torch.utils.benchmark`
and a do_bench-like loop in the same minutes. Replayed ones draw replicates that were recorded on the same machine and
decide by the same function. Two processes keep the cores busy all the while, unless `--busy 0`.

    python benchmarks/decisions.py              # live and replayed; over an hour
    python benchmarks/decisions.py --live 0     # recording and replay only
    python benchmarks/decisions.py --replay 0   # live only
    python benchmarks/decisions.py --share 0.1  # a tenth of everything
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from esper_agents.torchlab.compare import measure
from esper_agents.torchlab.compare.acceptance_rules import acceptance
from esper_agents.torchlab.compare.compare import ComparisonRequest, compare, empty_measurement, time_until_decided
from esper_agents.torchlab.compare.result import ComparisonMeasurements, ComparisonOutcome, TimedReplicate
from esper_agents.torchlab.compare.verdict import judge
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.target import TargetSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.torchlab.worker.compare.result import EquivalenceCheck
    from esper_agents.torchlab.worker_handle import WorkerReply

HERE = Path(__file__).parent / "decision_pairs"
WORKLOADS = {
    "tanh": "randn(32,256)",
    "matmul": "randn(96,96)",
    "norm": "randn(64,256)",
    "softmax": "randn(64,128)",
    "dispatch": "randn(8)",
    "reduction": "randn(64,64)",
}
CLAIM = 1.25
RATIOS = (100, 120, 125, 130, 150)
LIVE = {100: 300, 120: 100, 125: 100, 130: 100, 150: 100}
# Decisions that are drawn from one pool share its error: 24 of 48 are two looks at it, however often they are drawn.
# Where the claim is the truth that error decides, so there the pool is large.
RECORDED = {100: 96, 120: 96, 125: 720, 130: 96, 150: 96}
REPLAYED = 5_000
# Accepted at each true ratio, in percent: (at least, at most), live and replayed alike but for identical copies.
AIMS = {100: (0.0, 0.3), 120: (0.0, 0.5), 125: (0.0, 2.5), 130: (95.0, 100.0), 150: (99.0, 100.0)}
COVER = (94.0, 98.0)
_BURN = """
import random, time
block = bytearray(8 << 20)
while True:
    end = time.monotonic() + random.expovariate(1 / 0.15)
    while time.monotonic() < end:
        for at in range(0, len(block), 4096):
            block[at] ^= 1
    time.sleep(random.expovariate(1 / 0.1))
"""


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep the cores busy about 60 % of the time, in bursts, while the block runs."""
    started = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def bounds(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) bounds of a rate, in percent."""

    def at_most(rate: float, count: int) -> float:
        if rate in {0.0, 1.0}:
            return 1.0 if rate == 0.0 or count >= trials else 0.0
        terms = (
            math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
            + k * math.log(rate) + (trials - k) * math.log1p(-rate)
            for k in range(count + 1)
        )  # fmt: skip
        return min(math.fsum(map(math.exp, terms)), 1.0)

    def solve(count: int, wanted: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if at_most(middle, count) > wanted else (low, middle)
        return 100 * low

    tail = (1 - confidence) / 2
    return (0.0 if hits == 0 else solve(hits - 1, 1 - tail)), (100.0 if hits == trials else solve(hits, tail))


def arms(workload: str, percent: int) -> tuple[measure.Arm, measure.Arm]:
    """Return the two sides of a pair."""
    made = [
        measure.Arm(TargetSpec(f"pairs.py:{workload}_{each}", (WORKLOADS[workload],)), HERE) for each in (percent, 100)
    ]
    return made[0], made[1]


def unjudged(one: WorkerReply, other: WorkerReply, *_: object) -> tuple[EquivalenceCheck, ...]:
    """Let go of what both returned for a timed call: that they are right was seen once for each pair."""
    for each in (*one.files, *other.files):
        os.close(each)
    return ()


UNJUDGED = measure.Referee(None, unjudged, unjudged)


def record(lab: Lab, share: float) -> dict[tuple[str, int], list[TimedReplicate]]:
    """Time replicates of every pair, without deciding."""
    recorded = {}
    for workload in WORKLOADS:
        for percent in RATIOS:
            pair = arms(workload, percent)
            plan = measure.calibrate(lab, *pair, acceptance(), train=False, seed=percent)
            seeds = measure.seeds(percent)
            recorded[workload, percent] = [
                measure.replicate(lab, pair, plan, seed=next(seeds), referee=UNJUDGED)
                for _ in range(max(round(RECORDED[percent] * share), 24))
            ]
            ratios = sorted(each.log_ratio for each in recorded[workload, percent])
            middle, spread = math.exp(median(ratios)), (ratios[-len(ratios) // 4] - ratios[len(ratios) // 4]) / 1.35
            print(
                f"  recorded {workload:10} true {percent / 100:.2f}: median {middle:.4f}, spread {spread:.4f}",
                flush=True,
            )
    return recorded


def replay(recorded: dict[tuple[str, int], list[TimedReplicate]], decisions: int, chance: random.Random) -> bool:
    """Decide over and over on replicates drawn from what was recorded."""
    print(f"\nReplayed: {decisions} decisions at each true ratio")
    is_met = True
    for percent in RATIOS:
        pools = [pool for (_, each), pool in recorded.items() if each == percent]
        outcomes = [decided(chance.sample(pool, 24), percent) for pool in chance.choices(pools, k=decisions)]
        is_met &= said(percent, outcomes, AIMS[percent])
    return is_met


def decided(samples: list[TimedReplicate], percent: int) -> tuple[str, bool, float]:
    """Return the outcome on these replicates, whether the interval covers the truth, and how many it took."""
    measured = ComparisonMeasurements(
        rules=acceptance(),
        threshold=CLAIM,
        threads=1,
        device="cpu",
        allow=(),
        checks=(),
        samples=tuple(samples),
    )
    return outcome_of(measured, percent)


def outcome_of(measured: ComparisonMeasurements, percent: int) -> tuple[str, bool, float]:
    """Return the outcome, whether its interval covers the true ratio, and the number of replicates."""
    verdict = judge(measured)
    speedup = verdict.speedup
    is_covered = speedup is not None and speedup.lower <= percent / 100 <= speedup.upper
    return verdict.outcome, is_covered, verdict.replicates or 0


def said(percent: int, outcomes: list[tuple[str, bool, float]], aim: tuple[float, float]) -> bool:
    """Print one line of rates; return whether they are met."""
    trials = len(outcomes)
    hits = sum(outcome == ComparisonOutcome.FASTER for outcome, _, _ in outcomes)
    covered = sum(is_covered for _, is_covered, _ in outcomes)
    rate, cover = 100 * hits / trials, 100 * covered / trials
    low, high = bounds(hits, trials)
    cover_low, cover_high = bounds(covered, trials)
    is_rate_met, is_cover_met = aim[0] <= rate <= aim[1], COVER[0] <= cover <= COVER[1]
    # Few live trials cannot show a rate to a tenth of a percent: what they must not do is to contradict it.
    if trials < 1_000:
        is_cover_met = cover_high >= COVER[0] and cover_low <= COVER[1]
        is_rate_met = low <= aim[1] and high >= aim[0] and not (percent == 100 and hits)
    print(
        f"  true {percent / 100:.2f}: accepted {rate:6.2f} % [{low:.2f}, {high:.2f}] of {trials}"
        f" (aim {aim[0]:g} to {aim[1]:g}){'' if is_rate_met else ' MISSED'};"
        f" cover {cover:.2f} % [{cover_low:.1f}, {cover_high:.1f}]{'' if is_cover_met else ' MISSED'};"
        f" {sum(each[2] for each in outcomes) / trials:.1f} replicates",
        flush=True,
    )
    return is_rate_met and is_cover_met


def timed(lab: Lab, workload: str, percent: int, seed: int) -> ComparisonMeasurements:
    """Run the timing of a whole comparison; what comes before it, correctness, was seen once for each pair."""
    pair, question = arms(workload, percent), ComparisonRequest(claim=CLAIM, seed=seed)
    measured = empty_measurement(lab, pair[1], question)
    return time_until_decided(lab, pair, question, measured, referee=UNJUDGED, tell=lambda *_: None)


def right(lab: Lab) -> None:
    """See to it once that the two sides of every pair do the same."""
    for workload in WORKLOADS:
        for percent in RATIOS:
            verdict = compare(lab, *arms(workload, percent), ComparisonRequest(claim=CLAIM, has_extras=False)).result[
                "verdict"
            ]
            if "speedup" not in verdict:
                sys.exit(f"{workload} {percent}: {verdict}")
    print(f"correctness of {len(WORKLOADS) * len(RATIOS)} pairs: all right", flush=True)


def live(lab: Lab, share: float, chance: random.Random) -> bool:
    """Run whole comparisons, with the rivals beside each."""
    jobs = [
        (workload, percent)
        for percent, trials in LIVE.items()
        for workload in (list(WORKLOADS) * trials)[: max(round(trials * share), 6)]
    ]
    chance.shuffle(jobs)
    print(f"\nLive: {len(jobs)} comparisons, 'at least {CLAIM}x faster'")
    right(lab)
    outcomes, rivals, took = defaultdict(list), defaultdict(list), []
    other = subprocess.Popen(
        [sys.executable, str(HERE / "rivals.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdin is not None
    assert other.stdout is not None
    for number, (workload, percent) in enumerate(jobs):
        measured = timed(lab, workload, percent, number)
        outcomes[percent].append(outcome_of(measured, percent))
        took.append((measured.timed_ns or 0) / 1e9)
        shape = [int(each) for each in re.findall(r"\d+", WORKLOADS[workload])]
        asked = {"baseline": f"{workload}_{percent}", "candidate": f"{workload}_100", "shape": shape}
        other.stdin.write(json.dumps(asked) + "\n")
        other.stdin.flush()
        rivals[percent].append(json.loads(other.stdout.readline()))
        if number % 50 == 49:
            print(f"  ... {number + 1} of {len(jobs)}", flush=True)
    other.stdin.close()
    other.wait()
    is_met = True
    for percent in LIVE:
        is_met &= said(percent, outcomes[percent], (0.0, 0.0) if percent == 100 else AIMS[percent])
        for name in ("timer", "loop"):
            hits, trials = sum(each[name] >= CLAIM for each in rivals[percent]), len(rivals[percent])
            low, high = bounds(hits, trials)
            print(f"       {name:6} accepted {100 * hits / trials:6.2f} % [{low:.2f}, {high:.2f}]")
    middle, worst = median(took), max(took)
    print(f"  time to a verdict after correctness: median {middle:.2f} s (aim 2), worst {worst:.2f} s (aim 8)")
    return is_met and middle <= 2 and worst <= 8


def main() -> None:
    """Measure, print every rate against its aim, and exit with 1 where one is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--share", type=float, default=1.0, help="of the trials, such as 0.1")
    parser.add_argument("--replay", type=float, default=1.0, help="of the replayed trials; 0 for none")
    parser.add_argument("--live", type=float, default=1.0, help="of the live trials; 0 for none")
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1, help="processes that keep the cores busy")
    given = parser.parse_args()
    chance = random.Random(20)  # noqa: S311 - a design, not a secret
    begun = time.monotonic()
    is_met = True
    with busy(given.busy), Lab(HERE) as lab:
        if given.replay > 0:
            recorded = record(lab, given.share * given.replay)
            is_met &= replay(recorded, max(round(REPLAYED * given.share * given.replay), 100), chance)
        if given.live > 0:
            is_met &= live(lab, given.share * given.live, chance)
    print(f"\n{time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f}: {'all met' if is_met else 'MISSED'}")
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
