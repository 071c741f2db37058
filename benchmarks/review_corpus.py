"""Measures how much the review says about well-reviewed packages, and how much of that is right.

    python benchmarks/review_corpus.py [PACKAGE ...] [--packages FOLDER] [--show]

It downloads the releases of `review_corpus/packages.txt` (or takes them from a folder of wheels), reviews each with all
rules, and looks up in `review_corpus/judgements.toml` what somebody who read the code decided on each finding at
warning and above: `right` where a maintainer of the package would agree that it is worth changing or a real hazard. Of
more than 100 findings a random 100 count. It exits with 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from review_packages import Shelf

from esper_agents.domain.finding import Severity
from esper_agents.review.engine import review

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from esper_agents.domain.finding import Diagnostic

_HERE = Path(__file__).with_suffix("")
_LOUD_PER_KLOC = 0.05
_CRITICAL_PER_KLOC = 0.005
_RIGHT = 0.80
_JUDGED_OF_MORE = 100
_SEED = "well-reviewed"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a person decided on one finding.

    Attributes:
        package: The package it was found in.
        rule: The rule that found it.
        path: The file.
        fingerprint: The finding.
        is_right: Whether it is worth changing or a real hazard.
        reason: Why, in one sentence.
    """

    package: str
    rule: str
    path: str
    fingerprint: str
    is_right: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """One finding at warning or above, and the judgement on it.

    Attributes:
        package: The package it was found in.
        claim: What is claimed.
        judgement: What was decided, None where nobody has read it.
    """

    package: str
    claim: Diagnostic
    judgement: Judgement | None

    @property
    def verdict(self) -> str:
        """`right`, `wrong` or `unjudged`."""
        return "unjudged" if self.judgement is None else "right" if self.judgement.is_right else "wrong"


def judgements() -> dict[tuple[str, str], Judgement]:
    """Return the judgements by package and fingerprint."""
    said = tomllib.loads((_HERE / "judgements.toml").read_text(encoding="utf-8"))
    return {
        (each["package"], each["fingerprint"]): Judgement(
            each["package"], each["rule"], each["path"], each["fingerprint"], each["verdict"] == "right", each["reason"]
        )
        for each in said["judgement"]
    }


def releases(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return name and version of each package to review, of all where no names are given."""
    lines = (_HERE / "packages.txt").read_text(encoding="utf-8").splitlines()
    pinned = [(name, version) for name, _, version in (line.partition("==") for line in lines) if version]
    return [each for each in pinned if not names or each[0] in names]


def look_at(
    shelf: Shelf, name: str, version: str, judged: Mapping[tuple[str, str], Judgement]
) -> tuple[int, list[Found]]:
    """Review one package, and return its lines and what was found at warning and above."""
    folder = shelf.folder(name, version)
    report = review(folder, [folder])
    loud = [claim for claim in report.claims if claim.severity is not Severity.SUGGESTION]
    return report.lines, [Found(name, claim, judged.get((name, claim.fingerprint))) for claim in loud]


def counted(found: Sequence[Found]) -> list[Found]:
    """Return the findings whose judgement counts: all, or a random 100 of more, the same ones every time."""
    if len(found) <= _JUDGED_OF_MORE:
        return list(found)
    return sorted(found, key=lambda each: hashlib.sha256(f"{_SEED}{each.claim.fingerprint}".encode()).digest())[
        :_JUDGED_OF_MORE
    ]


def _density(found: Iterable[Found], lines: int) -> tuple[float, float]:
    severities = [each.claim.severity for each in found]
    per_kloc = 1000 / max(1, lines)
    return len(severities) * per_kloc, severities.count(Severity.CRITICAL) * per_kloc


def _print_rules(found: Sequence[Found]) -> None:
    by_rule = {rule: Counter[str]() for rule in sorted({each.claim.rule for each in found})}
    for each in found:
        by_rule[each.claim.rule][each.verdict] += 1
    for rule, verdicts in by_rule.items():
        print(f"  {rule}  {verdicts['right']:3} right {verdicts['wrong']:3} wrong {verdicts['unjudged']:3} unjudged")


def _print_lost(found: Sequence[Found], names: Sequence[str]) -> None:
    """Print what was judged and is found no more; what was right is missed."""
    still = {(each.package, each.claim.fingerprint) for each in found}
    gone = [each for key, each in judgements().items() if key not in still and each.package in names]
    right = [each for each in gone if each.is_right]
    print(f"no longer found      {len(gone) - len(right)} judged wrong, {len(right)} judged right")
    for each in right:
        print(f"  missed {each.package} {each.path} {each.rule}: {each.reason}")


def _measure(shelf: Shelf, chosen: Sequence[tuple[str, str]]) -> tuple[int, list[Found]]:
    """Review the packages, and return all their lines and findings; each package has its line as soon as it is read."""
    judged, total, found = judgements(), 0, list[Found]()
    for name, version in chosen:
        lines, here = look_at(shelf, name, version, judged)
        loud, critical = _density(here, lines)
        print(f"{name:28} {version:10} {lines:8} lines {loud:6.3f} loud {critical:6.3f} critical per 1000", flush=True)
        total, found = total + lines, found + here
    return total, found


def _is_reached(total: int, found: Sequence[Found]) -> bool:
    """Print the figures beside their aims, and return whether all are reached."""
    sample = counted(found)
    verdicts = Counter(each.verdict for each in sample)
    decided = verdicts["right"] + verdicts["wrong"]
    share = verdicts["right"] / decided if decided else 1.0
    loud, critical = _density(found, total)
    print(f"lines                {total}")
    print(f"warning and above    {len(found)}, {loud:.4f} per 1000 lines, aim {_LOUD_PER_KLOC}")
    print(f"critical             {critical:.4f} per 1000 lines, aim {_CRITICAL_PER_KLOC}")
    print(f"judged right         {share:.1%} of {decided}, aim {_RIGHT:.0%}")
    print(f"unjudged             {verdicts['unjudged']} of {len(sample)}")
    is_quiet = loud <= _LOUD_PER_KLOC and critical <= _CRITICAL_PER_KLOC
    return is_quiet and share >= _RIGHT and not verdicts["unjudged"]


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these packages")
    parser.add_argument("--packages", type=Path, help="a folder of wheels; nothing is downloaded")
    parser.add_argument("--show", action="store_true", help="list every finding with its judgement")
    options = parser.parse_args()
    chosen = releases(options.names)
    with tempfile.TemporaryDirectory() as scratch:
        total, found = _measure(Shelf(Path(scratch), options.packages), chosen)
    is_reached = _is_reached(total, found)
    _print_rules(found)
    for each in found:
        if options.show or each.judgement is None:
            reason = each.judgement.reason if each.judgement else each.claim.message
            print(f"  {each.verdict} {each.package} {each.claim.location} {each.claim.rule}: {reason}")
    _print_lost(found, [name for name, _ in chosen])
    raise SystemExit(0 if is_reached else 1)


if __name__ == "__main__":
    main()
