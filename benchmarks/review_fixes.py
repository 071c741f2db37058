"""Measures how many real bug fixes the review sees: flagged in the release before the fix, silent in the one after.

    python benchmarks/review_fixes.py [PACKAGE ...] [--packages FOLDER]

`review_fixes/fixes.toml` names them: a package, two releases, the lines of the fault and of what replaced it, and the
rules that should see it. None of their code is kept. Fixes `found = "independently"` come from changelogs, issues and
diffs that nobody looked at with these rules before; they are the honest recall. Those with `found = "by review"` were
noticed because a finding vanished between two releases, so they tell only that it was true.
"""

from __future__ import annotations

import argparse
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from review_packages import Shelf

from esper_agents.review.engine import review

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.domain.finding import Diagnostic

_FIXES = Path(__file__).with_suffix("") / "fixes.toml"
_INDEPENDENTLY = "independently"


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a fix.

    Attributes:
        version: The release.
        path: The file in it.
        lines: The first and the last line that matter; None where nothing is left of them.
    """

    version: str
    path: str
    lines: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Fix:
    """One real fix.

    Attributes:
        package: The package.
        before: Where the fault stands.
        after: Where it stood.
        rules: The rules that should see it; any of them counts.
        what: What was fixed, in one sentence.
        source: Who says so.
        is_independent: Whether it was found without the review.
    """

    package: str
    before: Side
    after: Side
    rules: frozenset[str]
    what: str
    source: str
    is_independent: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the review made of a fix.

    Attributes:
        fix: The fix.
        is_flagged: Whether the release before it is flagged there.
        is_silent: Whether the release after it is not.
    """

    fix: Fix
    is_flagged: bool
    is_silent: bool

    @property
    def is_seen(self) -> bool:
        """Whether the review tells the two apart."""
        return self.is_flagged and self.is_silent


def fixes(names: Sequence[str], file: Path = _FIXES) -> list[Fix]:
    """Return the fixes of a file, of all packages where no names are given."""
    said = tomllib.loads(file.read_text(encoding="utf-8"))["fix"]
    return [_fix(each) for each in said if not names or each["package"] in names]


def _fix(said: dict[str, Any]) -> Fix:
    return Fix(
        package=said["package"],
        before=_side(said, "before"),
        after=_side(said, "after"),
        rules=frozenset(said["rules"]),
        what=said["what"],
        source=said["source"],
        is_independent=said["found"] == _INDEPENDENTLY,
    )


def _side(said: dict[str, Any], which: str) -> Side:
    lines = said.get(f"{which}_lines")
    return Side(said[which], said.get(f"{which}_path", said["path"]), (lines[0], lines[-1]) if lines else None)


def look_at(fix: Fix, claims_of: Callable[[str, str], Sequence[Diagnostic]]) -> Outcome:
    """Review both sides of a fix."""
    flagged, still = (_stands(fix, side, claims_of(fix.package, side.version)) for side in (fix.before, fix.after))
    return Outcome(fix, flagged, not still)


def _stands(fix: Fix, side: Side, claims: Sequence[Diagnostic]) -> bool:
    if side.lines is None:
        return False
    first, last = side.lines
    here = (claim.location for claim in claims if claim.rule in fix.rules and claim.location.path == side.path)
    return any(each.line <= last and first <= max(each.line, each.end_line) for each in here)


def _print(outcomes: Sequence[Outcome], *, title: str) -> None:
    flagged = sum(outcome.is_flagged for outcome in outcomes)
    seen = sum(outcome.is_seen for outcome in outcomes)
    print(f"{title:16} {len(outcomes):3} fixes, {flagged} flagged before, {seen} of them silent after", end="")
    print(f": {seen / len(outcomes):.1%}" if outcomes else "")


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these packages")
    parser.add_argument("--packages", type=Path, help="a folder of wheels; nothing is downloaded")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        shelf = Shelf(Path(scratch), options.packages)

        @cache
        def claims_of(name: str, version: str) -> Sequence[Diagnostic]:
            folder = shelf.folder(name, version)
            return review(folder, [folder]).claims

        outcomes = [look_at(fix, claims_of) for fix in fixes(options.names)]
    _print([outcome for outcome in outcomes if outcome.fix.is_independent], title=_INDEPENDENTLY)
    _print([outcome for outcome in outcomes if not outcome.fix.is_independent], title="by review")
    _print(outcomes, title="all")
    for outcome in outcomes:
        if not outcome.is_seen:
            fix, fate = outcome.fix, "not flagged before" if not outcome.is_flagged else "still flagged after"
            where = f"{fix.package} {fix.before.version} -> {fix.after.version} {fix.before.path}"
            print(f"  {fate}: {where} {'/'.join(sorted(fix.rules))}: {fix.what}")


if __name__ == "__main__":
    main()
