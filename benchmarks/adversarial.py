"""Measures whether a comparison can be talked into a verdict, by pairs whose true answer is known by construction.

Run it with `python benchmarks/adversarial.py [NAME ...] [--timed] [--json]`. Each file of `benchmarks/adversarial/`
holds `baseline`, `candidate` and `get_inputs`, and says what is true of them: `EXPECTED` is `right`, `wrong`, or how
the worker ends; `RATIO` is the true speedup where there is one; with `NEEDS_TIMING` the cheat shows in timed
calls only; one with `NOT_TESTED` may pass if that is listed as not tested. Without `--timed` only correctness is
looked at. It exits with 1 where a cheat passes or an honest pair is refused.
"""

from __future__ import annotations

import argparse
import ast
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.errors import EsperError
from esper_agents.torchlab.compare.compare import ComparisonMode, ComparisonRequest, compare
from esper_agents.torchlab.compare.correctness import Correctness
from esper_agents.torchlab.compare.measure import Arm
from esper_agents.torchlab.effort import Effort
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.measurements.compare import MEASUREMENT
from esper_agents.torchlab.target import TargetSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.torchlab.compare.result import ComparisonResult
    from esper_agents.torchlab.worker.compare.result import EquivalenceCheck

_PAIRS = Path(__file__).with_suffix("")
_PAIRS_OF_A_TURN = 8
_FASTER = 1.3
_SETTINGS = LabSettings(memory_bytes=4 << 30)


@dataclass(frozen=True, slots=True)
class Pair:
    """One pair and what is true of it.

    Attributes:
        name: The file's stem.
        expected: `right`, `wrong`, or how the candidate's worker ends.
        ratio: True speedup, where there is one by construction.
        train: Whether gradients belong to it.
        needs_timing: Whether the cheat shows in timed calls only.
        not_tested: Kind of input for which it is wrong, which a comparison that accepts it must list as not tested.
    """

    name: str
    expected: str
    ratio: float | None = None
    train: bool = False
    needs_timing: bool = False
    not_tested: str = ""

    @property
    def is_honest(self) -> bool:
        """Whether the candidate does what the baseline does."""
        return self.expected == "right"


@dataclass(slots=True)
class Found:
    """What the lab made of a pair.

    Attributes:
        name: The pair.
        expected: What is true of it.
        answer: `right`, `wrong`, or the outcome of the timing.
        is_correct: Whether that is what is true.
        checks: The checks that failed, each with how often.
        first: The first of them, in words.
        took_s: How long it took.
    """

    name: str
    expected: str
    answer: str
    is_correct: bool
    checks: dict[str, int] = field(default_factory=dict)
    first: str = ""
    took_s: float = 0.0


def pairs(names: Sequence[str]) -> Iterator[Pair]:
    """Yield the pairs, all where no names are given; their files are read, not run."""
    for path in sorted(_PAIRS.glob("*.py")):
        if names and path.stem not in names:
            continue
        said: dict[str, Any] = {}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=constant)):
                    said[name] = constant
                case _:
                    pass
        yield Pair(
            path.stem,
            said["EXPECTED"],
            said.get("RATIO"),
            bool(said.get("TRAIN")),
            bool(said.get("NEEDS_TIMING")),
            said.get("NOT_TESTED", ""),
        )


def look_at(lab: Lab, pair: Pair, *, is_timed: bool, seed: int) -> Found:
    """Ask the lab about one pair."""
    begun = time.monotonic()
    sides = [Arm(TargetSpec(f"{pair.name}.py:{name}", seed=seed), _PAIRS) for name in ("baseline", "candidate")]
    try:
        found = _timed(lab, pair, sides, seed) if is_timed else _checked(lab, pair, sides, seed)
    except EsperError as error:
        found = Found(pair.name, pair.expected, "error", is_correct=False, first=error.problem)
    found.took_s = round(time.monotonic() - begun, 2)
    return found


def _checked(lab: Lab, pair: Pair, sides: list[Arm], seed: int) -> Found:
    arms = (sides[0], sides[1])
    with Correctness(lab, arms, seed=seed, train=pair.train, allow=()) as correctness:
        checks = correctness.checks(lambda _what, _fraction: None)
        is_listed = any(each.what == pair.not_tested for each in correctness.notes.missing)
    failed = [check for check in checks if not check.is_passed]
    answer = "wrong" if failed else "right"
    # A candidate whose process ends fails a check, too.
    is_excused = answer == "right" and (pair.needs_timing or is_listed)
    is_correct = (answer == "right") == pair.is_honest or is_excused
    return _found(pair, answer, failed, is_correct=is_correct)


def _timed(lab: Lab, pair: Pair, sides: list[Arm], seed: int) -> Found:
    mode = ComparisonMode.TRAINING_STEP if pair.train else ComparisonMode.LATENCY
    question = ComparisonRequest(mode=mode, effort=Effort.NORMAL, seed=seed, claim=1.25, has_extras=False)
    result: ComparisonResult = MEASUREMENT.parsed(compare(lab, sides[0], sides[1], question))
    answer, failed = result.verdict.outcome.value, result.failed_checks
    if not pair.is_honest:
        is_correct = answer != "faster as claimed"
    elif pair.ratio is None:
        is_correct = answer not in {"wrong", "error"}
    elif pair.ratio >= _FASTER:
        is_correct = answer in {"faster as claimed", "not shown"}
    else:
        is_correct = answer not in {"wrong", "error", "faster as claimed"} or pair.ratio == question.claim
    found = _found(pair, answer, failed, is_correct=is_correct)
    found.first = found.first or "; ".join(result.verdict.because)
    return found


def _found(pair: Pair, answer: str, failed: Sequence[EquivalenceCheck], *, is_correct: bool) -> Found:
    counts: dict[str, int] = {}
    for each in failed:
        counts[each.check] = counts.get(each.check, 0) + 1
    first = str(failed[0]) if failed else ""
    return Found(pair.name, pair.expected, answer, is_correct, counts, first)


def main() -> int:
    """Look at all pairs and print what came of them; return 1 where one was misjudged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="pairs by the name of their file; all where left out")
    parser.add_argument("--timed", action="store_true", help="time those that pass, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print every answer as JSON")
    options = parser.parse_args()
    chosen = list(pairs(options.names))
    answers = []
    for at in range(0, len(chosen), _PAIRS_OF_A_TURN):
        # A lab has the machine's only turn to measure; others wait for it.
        with Lab(_PAIRS, _SETTINGS) as lab:
            for pair in chosen[at : at + _PAIRS_OF_A_TURN]:
                is_timed = options.timed and (pair.is_honest or pair.needs_timing)
                answers.append(look_at(lab, pair, is_timed=is_timed, seed=options.seed))
                if not options.json:
                    _show(answers[-1])
    if options.json:
        print(json.dumps([asdict(answer) for answer in answers], indent=1))
    cheats = [answer for answer in answers if answer.expected != "right"]
    honest = [answer for answer in answers if answer.expected == "right"]
    missed = [answer.name for answer in answers if not answer.is_correct]
    print(f"cheats seen through: {sum(cheat.is_correct for cheat in cheats)} of {len(cheats)} (aim: all)")
    print(f"honest pairs let through: {sum(each.is_correct for each in honest)} of {len(honest)} (aim: all)")
    print(f"misjudged: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


def _show(found: Found) -> None:
    mark = "   " if found.is_correct else "BAD"
    failed = ", ".join(f"{name} {count}" for name, count in sorted(found.checks.items()))
    print(f"{mark} {found.name:32} {found.answer:18} {found.took_s:6.2f} s  {failed or found.first[:150]}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
