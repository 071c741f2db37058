"""Measure the review on labelled cases whose author knew neither the rules nor their tests.

    python benchmarks/review_blind.py [FOLDER ...] [--show]

A folder holds cases as `NAME.py` or `NAME/`, each with the faults of the case in `NAME.json`. A fault is found if a
diagnostic of any severity stands within two lines of one of its lines. Without a folder, all in `review_blind/` are
measured. `--show` lists missed faults and the diagnostics that meet none; `review_blind/NOTES.md` says of which folders
it must not be used.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from review_cases import NEAR

from esper_agents.domain.finding import Severity
from esper_agents.review.engine import review

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.finding import Diagnostic

FOLDER = Path(__file__).parent / "review_blind"


@dataclass(frozen=True)
class Fault:
    """A labelled fault.

    Attributes:
        family: Kind of mistake, such as `data`.
        what: What is wrong, and its effect.
        lines: Path and line of each position where a diagnostic counts; the first is where the fault is best reported.
    """

    family: str
    what: str
    lines: tuple[tuple[str, int], ...]

    def is_met_by(self, diagnostic: Diagnostic) -> bool:
        """Return whether a diagnostic stands near one of the lines."""
        at = diagnostic.location
        return any(path == at.path and abs(line - at.line) <= NEAR for path, line in self.lines)


@dataclass
class BlindResult:
    """Faults and diagnostics of one case.

    Attributes:
        case: File or folder of the case.
        found: Faults that a diagnostic meets.
        missed: Faults that no diagnostic meets.
        extras: Diagnostics at warning or above that meet no fault.
        troubles: Files that the review could not read and rules that failed.
    """

    case: Path
    found: list[Fault] = field(default_factory=list)
    missed: list[Fault] = field(default_factory=list)
    extras: list[Diagnostic] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether the case has no fault."""
        return not self.found and not self.missed


def faults_of(labels: Path) -> list[Fault]:
    """Return the faults that a label file lists."""
    return [
        Fault(fault["family"], fault["what"], tuple(_positions(fault)))
        for fault in json.loads(labels.read_text("utf-8"))["faults"]
    ]


def _positions(fault: dict[str, Any]) -> list[tuple[str, int]]:
    elsewhere = [*fault.get("also_other_files", ()), *fault.get("also_elsewhere", ())]
    return [
        *((fault["path"], line) for line in (fault["line"], *fault.get("also_lines", ()))),
        *((other["path"], line) for other in elsewhere for line in (other["line"], *other.get("also_lines", ()))),
    ]


def judge(case: Path) -> BlindResult:
    """Review a case and compare the diagnostics with its labels."""
    report = review(case if case.is_dir() else case.parent, [case])
    result = BlindResult(case, troubles=[f"{each.path} {each.problem}" for each in report.unreadable])
    faults = faults_of(case.with_suffix(".json"))
    for fault in faults:
        is_found = any(fault.is_met_by(diagnostic) for diagnostic in report.claims)
        (result.found if is_found else result.missed).append(fault)
    result.extras = [
        diagnostic
        for diagnostic in report.claims
        if diagnostic.severity is not Severity.SUGGESTION and not any(fault.is_met_by(diagnostic) for fault in faults)
    ]
    return result


def measure(folder: Path, *, shows: bool) -> None:
    """Print the figures of all cases in a folder."""
    results = [
        judge(labels.with_suffix(".py") if labels.with_suffix(".py").exists() else labels.with_suffix(""))
        for labels in sorted(folder.glob("*.json"))
    ]
    if shows:
        _list(results)
    found = Counter(fault.family for result in results for fault in result.found)
    missed = Counter(fault.family for result in results for fault in result.missed)
    print(f"{folder.name}: {len(results)} cases, {sum(result.is_clean for result in results)} without a fault")
    for family in sorted({*found, *missed}):
        print(f"  {family:<12} {found[family]:3} of {found[family] + missed[family]:3}")
    print(f"  {'all':<12} {found.total():3} of {found.total() + missed.total():3}")
    for what, chosen in (
        ("in clean cases", [result for result in results if result.is_clean]),
        ("that meet no fault in faulty cases", [result for result in results if not result.is_clean]),
    ):
        print(f"  diagnostics at warning or above {what}: {sum(len(result.extras) for result in chosen)}")
    print(f"  files not reviewed and rules that failed: {sum(len(result.troubles) for result in results)}")


def _list(results: Sequence[BlindResult]) -> None:
    for result in results:
        root = result.case if result.case.is_dir() else result.case.parent
        for fault in result.missed:
            path, line = fault.lines[0]
            print(f"missed  {root / path}:{line}  {fault.family}: {fault.what}")
        for extra in result.extras:
            at = f"{root / extra.location.path}:{extra.location.line}"
            print(f"extra   {at}  {extra.rule} {extra.severity}: {extra.message}")
        for trouble in result.troubles:
            print(f"trouble {result.case.name}: {trouble}")


def main() -> int:
    """Print the figures of each folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="folders of cases")
    parser.add_argument("--show", action="store_true", help="list missed faults and diagnostics that meet none")
    options = parser.parse_args()
    for folder in options.folders or sorted(path for path in FOLDER.iterdir() if path.is_dir()):
        measure(folder.resolve(), shows=options.show)
    return 0


if __name__ == "__main__":
    sys.exit(main())
