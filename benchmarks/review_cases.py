"""Holds the review against code whose defects are labelled: how many it finds, and how often it is wrong.

    python benchmarks/review_cases.py [CODE or CASE ...] [--show]

The cases lie in `review_cases/CATEGORY/`; each is a file, or a folder whose files are reviewed together.
`review_cases/NOTES.md` says how they are labelled, and which were written blind and what they gave then. `--show` lists
what was missed and what was wrong. Exits with 1 where precision or recall of either half is under its aim.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from decisions import bounds

from esper_agents.domain.finding import Severity
from esper_agents.review.engine import review

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.domain.finding import Diagnostic

FOLDER = Path(__file__).parent / "review_cases"
PRECISION, RECALL = 0.97, 0.95
HALVES = ("own", "strangers")
# Written by somebody who knew neither rules nor tests; open to everybody since they were first measured.
_STRANGERS = ("others/", "strangers/")
NEAR = 2
_LABEL = re.compile(r"# (expect|allow): (ESP\d{3}(?:(?:\||, ?)ESP\d{3})*)(?: @(\w+))?")
# Where a defect is the absence of something, or lies between two lines, any line of the two is a good place to say so.
_IN_FUNCTION = frozenset(
    f"ESP{number}"
    for number in (101, 102, 103, 104, 105, 207, 208, 209, 302, 303, 408, 409, 410, 412, 503, 504, 506, 507, 513)
)
_IN_OUTERMOST = frozenset({"ESP205", "ESP508", "ESP509"})
_IN_FILE = frozenset({"ESP204", "ESP403", "ESP407", "ESP510"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = (*_FUNCTIONS, ast.ClassDef, ast.For, ast.AsyncFor, ast.While, ast.With, ast.If, ast.Try)


@dataclass(frozen=True)
class Label:
    """What somebody who knows PyTorch says of a line.

    Attributes:
        path: The file, relative to the root of the case.
        line: From 1.
        codes: The rules of which any one says it.
        is_required: Whether it must be said; otherwise it may.
        group: Labels of one group are one defect that may be told at any of them; empty without one.
        reaches: For each code, the first and the last line where it counts as said.
    """

    path: str
    line: int
    codes: tuple[str, ...]
    is_required: bool
    group: str
    reaches: dict[str, tuple[int, int]]

    def covers(self, claim: Diagnostic) -> bool:
        """Return whether a claim says what the label says."""
        first, last = self.reaches.get(claim.rule, (1, 0))
        return claim.location.path == self.path and first <= claim.location.line <= last


@dataclass
class Outcome:
    """What the review made of one case.

    Attributes:
        name: `CATEGORY/NAME`.
        half: One of `HALVES`.
        has_defect: Whether anything must be said of it.
        found: Labels of defects that were found.
        missed: Labels of defects that were not.
        right: Claims that a required label covers.
        wrong: Claims at warning or above that no label covers.
        troubles: What the review could not do, such as a rule that gave up.
    """

    name: str
    half: str
    has_defect: bool
    found: list[Label] = field(default_factory=list)
    missed: list[Label] = field(default_factory=list)
    right: list[Diagnostic] = field(default_factory=list)
    wrong: list[Diagnostic] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def cases(folder: Path = FOLDER) -> Iterator[Path]:
    """Yield the file or folder of every case, by name."""
    for path in sorted(folder.glob("*/*")):
        if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__"):
            yield path


def half_of(name: str) -> str:
    """Return the half a case belongs to; its folder alone decides."""
    return "strangers" if name.startswith(_STRANGERS) else "own"


def labels_of(text: str, path: str) -> Iterator[Label]:
    """Yield the labels of a file."""
    tree = ast.parse(text)
    for line, words in enumerate(text.splitlines(), 1):
        for kind, codes, group in _LABEL.findall(words):
            for either in re.split(", ?", codes):
                alternatives = tuple(either.split("|"))
                reaches = {code: _reach(tree, line, code) for code in alternatives}
                yield Label(path, line, alternatives, kind == "expect", group, reaches)


def _reach(tree: ast.Module, line: int, code: str) -> tuple[int, int]:
    """Return the lines where a claim of a rule counts for a label."""
    last = _statement_end(tree, line)
    if code in _IN_FILE:
        return 1, sys.maxsize
    around = [each for each in ast.walk(tree) if isinstance(each, _BLOCKS) and _holds(each, line)]
    functions = [each for each in around if isinstance(each, _FUNCTIONS)]
    region: ast.stmt | None = None
    if code in _IN_OUTERMOST or (code in _IN_FUNCTION and not functions):
        region = min(around, key=lambda each: each.lineno, default=None)
    elif code in _IN_FUNCTION:
        region = max(functions, key=lambda each: each.lineno)
    first = min(line - NEAR, region.lineno) if region else line - NEAR
    return first, max(last + NEAR, (region.end_lineno or 0) if region else 0)


def _holds(block: ast.stmt, line: int) -> bool:
    return block.lineno <= line <= (block.end_lineno or block.lineno)


def _statement_end(tree: ast.Module, line: int) -> int:
    """Return the last line of the statement that starts on a line; of one with a body, only its head counts."""
    starts = [each for each in ast.walk(tree) if isinstance(each, ast.stmt) and each.lineno == line]
    return max((start.end_lineno or line for start in starts if not isinstance(start, _BLOCKS)), default=line)


def judge(case: Path) -> Outcome:
    """Review a case and hold what was said against its labels."""
    name = f"{case.parent.name}/{case.stem}"
    root = case if case.is_dir() else case.parent
    report = review(root, [case])
    files = sorted(case.rglob("*.py")) if case.is_dir() else [case]
    labels = [
        label for file in files for label in labels_of(file.read_text("utf-8"), file.relative_to(root).as_posix())
    ]
    troubles = [f"{each.path} {each.problem}" for each in report.unreadable]
    required = [label for label in labels if label.is_required]
    outcome = Outcome(name, half_of(name), bool(required), troubles=troubles)
    _settle(outcome, required, report.claims)
    for claim in report.claims:
        if any(label.covers(claim) for label in required):
            outcome.right.append(claim)
        elif claim.severity is not Severity.SUGGESTION and not any(label.covers(claim) for label in labels):
            outcome.wrong.append(claim)
    return outcome


def _settle(outcome: Outcome, required: Sequence[Label], claims: Iterable[Diagnostic]) -> None:
    """Give each claim to the nearest label that it covers, one each, so that one claim never stands for two defects."""
    pairs = sorted(
        (
            (abs(claim.location.line - label.line), which, number)
            for which, label in enumerate(required)
            for number, claim in enumerate(claims)
            if label.covers(claim)
        ),
    )
    met: set[int] = set()
    used: set[int] = set()
    for _, which, number in pairs:
        if which not in met and number not in used:
            met.add(which)
            used.add(number)
    told = {required[which].group for which in met} - {""}
    seen: set[str] = set()
    for which, label in enumerate(required):
        if label.group in seen:
            continue
        seen |= {label.group} - {""}
        (outcome.found if which in met or label.group in told else outcome.missed).append(label)


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield what was found and what was wrong by rule, a line for each."""
    found = Counter(label.codes[0] for outcome in outcomes for label in outcome.found)
    missed = Counter(label.codes[0] for outcome in outcomes for label in outcome.missed)
    right = Counter(claim.rule for outcome in outcomes for claim in outcome.right)
    wrong = Counter(claim.rule for outcome in outcomes for claim in outcome.wrong)
    yield "rule      defects  found   claims  wrong"
    for code in sorted({*found, *missed, *right, *wrong}):
        defects, claims = found[code] + missed[code], right[code] + wrong[code]
        mark = "" if found[code] == defects and not wrong[code] else "  *"
        yield f"{code:<8}  {defects:7}  {found[code]:5}  {claims:7}  {wrong[code]:5}{mark}"


def totals(half: str, outcomes: Sequence[Outcome]) -> bool:
    """Print precision and recall with their bounds, and return whether both reach their aims."""
    found = sum(len(outcome.found) for outcome in outcomes)
    defects = found + sum(len(outcome.missed) for outcome in outcomes)
    right = sum(len(outcome.right) for outcome in outcomes)
    claims = right + sum(len(outcome.wrong) for outcome in outcomes)
    spotless = sum(not outcome.has_defect for outcome in outcomes)
    print(f"{half}: {len(outcomes)} cases, {spotless} of them without a defect")
    is_met = True
    for what, count, trials, aim in (
        ("precision", right, claims, PRECISION),
        ("recall", found, defects, RECALL),
    ):
        rate = count / trials if trials else 1.0
        low, high = bounds(count, trials) if trials else (0.0, 100.0)
        verdict = "met" if rate >= aim else "MISSED"
        is_met = is_met and rate >= aim
        print(f"  {what:<9} {rate:.3f}  ({count} of {trials}; {low / 100:.3f} to {high / 100:.3f})  {aim} {verdict}")
    return is_met


def _list(outcomes: Sequence[Outcome], codes: set[str]) -> None:
    for outcome in outcomes:
        for label in outcome.missed:
            if not codes or codes & set(label.codes):
                print(f"missed  {_place(outcome, label.path, label.line)}  {'|'.join(label.codes)}")
        for claim in outcome.wrong:
            if not codes or claim.rule in codes:
                at = _place(outcome, claim.location.path, claim.location.line)
                print(f"wrong   {at}  {claim.rule} {claim.severity}: {claim.message}")


def _place(outcome: Outcome, path: str, line: int) -> str:
    folder = FOLDER / outcome.name
    return f"{(folder if folder.is_dir() else folder.parent) / path}:{line}"


def _only(outcome: Outcome, codes: set[str]) -> Outcome:
    """Return an outcome reduced to what concerns some rules."""
    return Outcome(
        outcome.name,
        outcome.half,
        outcome.has_defect,
        [each for each in outcome.found if codes & set(each.codes)],
        [each for each in outcome.missed if codes & set(each.codes)],
        [each for each in outcome.right if each.rule in codes],
        [each for each in outcome.wrong if each.rule in codes],
    )


def main() -> int:
    """Print what was measured; return 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", metavar="CODE or CASE", help="rules such as ESP105, or parts of case names")
    parser.add_argument("--show", action="store_true", help="list misses and false alarms")
    options = parser.parse_args()
    codes = {each.upper() for each in options.only if re.fullmatch(r"(?i)esp\d{3}", each)}
    names = [each for each in options.only if each.upper() not in codes]
    outcomes = [judge(case) for case in cases() if not names or any(name in str(case) for name in names)]
    for outcome in outcomes:
        for trouble in outcome.troubles:
            print(f"trouble {outcome.name}: {trouble}")
    if codes:
        outcomes = [_only(outcome, codes) for outcome in outcomes]
    met = []
    for half in HALVES:
        chosen = [outcome for outcome in outcomes if outcome.half == half]
        print("\n".join(table(chosen)))
        if options.show:
            _list(chosen, codes)
        met.append(totals(half, chosen))
        print()
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
