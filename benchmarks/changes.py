"""Measures how a change is judged: 40 branches made from real fixes of public packages and from their reversals.

    python benchmarks/changes.py [--cases N] [--sessions N] [--packages FOLDER] [--unseen]

Each fix of `review_fixes/fixes.toml` gives two branches of a repository with the sources of the release. On a reversal,
main has the fix, and the branch puts the old lines back; on a fix it is the other way round. Only the lines of the fix
differ. A reversal is seen if one of the rules of the fix, or a removed guard, is reported on its lines. A branch is
described if a finding or the description of the change names a changed line. A finding is outside of the change if it
is neither on a changed line nor in a function that the change touches. `--sessions` also asks "is this safe to merge
into main?" for that many branches, offline, and counts those answered with GO. `--unseen` takes the fixes of
`changes/unseen.toml`: from diffs of adjacent releases, read only after the comparison of changes was finished.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from review_fixes import fixes
from review_packages import Shelf

from esper_agents.tools.changed_lines import changed_lines
from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool import ToolContext

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from review_fixes import Fix, Side

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.finding import Diagnostic

_CASES = 40
_MOST_OF_PACKAGE = 4
_REQUEST = "is this safe to merge into main?"
_GUARDS = {"ESP702", "ESP703"}
_UNSEEN = Path(__file__).with_suffix("") / "unseen.toml"


@dataclass(frozen=True, slots=True)
class Case:
    """One branch.

    Attributes:
        fix: The fix that it was made from.
        is_reversal: Whether the branch takes the fix back.
        main: Text of the file on main.
        branch: Text of the file on the branch.
    """

    fix: Fix
    is_reversal: bool
    main: str
    branch: str

    @property
    def path(self) -> str:
        """Path of the changed file."""
        return self.fix.after.path

    @property
    def name(self) -> str:
        """Name of the case, for the report."""
        return f"{self.fix.package} {self.fix.after.version} {self.path} {'reversal' if self.is_reversal else 'fix'}"

    def lines(self) -> set[int]:
        """Return the lines of the branch that differ from main, with the lines next to a deletion."""
        old, new = self.main.splitlines(), self.branch.splitlines()
        steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        return {
            line
            for tag, _, _, first, last in steps
            if tag != "equal"
            for line in range(max(first, 1), max(first, last) + 1)
        }

    def is_outside(self, claim: Diagnostic) -> bool:
        """Return whether a finding has nothing to do with the change, by its place."""
        if claim.location.path != self.path:
            return True
        touched = {line for block in changed_lines(self.main, self.branch).blocks for line in block.statements}
        near = self.lines() | touched
        return not any(abs(claim.location.line - line) <= 1 for line in near) and not _same_function(
            self.branch, claim.location.line, near
        )


def _same_function(text: str, line: int, others: set[int]) -> bool:
    import ast

    spans = [
        (each.lineno, each.end_lineno or each.lineno)
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return any(first <= line <= last and any(first <= one <= last for one in others) for first, last in spans)


@dataclass(frozen=True, slots=True)
class Result:
    """Findings about one branch.

    Attributes:
        case: The branch.
        claims: What was reported.
        status: Status of the verdict; empty if no session ran.
        edits: Described edits, as `path:line`.
    """

    case: Case
    claims: tuple[Diagnostic, ...]
    status: str = ""
    edits: tuple[str, ...] = ()

    @property
    def is_described(self) -> bool:
        """Whether a finding or a description names a changed line, or the one next to it."""
        near = {line + step for line in self.case.lines() for step in (-1, 0, 1)}
        places = (*self.edits, *(str(claim.location) for claim in self.claims))
        return any(each in places for each in (f"{self.case.path}:{line}" for line in near))

    @property
    def is_seen(self) -> bool:
        """Whether a rule of the fix, or a removed guard, was reported."""
        wanted = self.case.fix.rules | _GUARDS
        return any(claim.rule in wanted and not self.case.is_outside(claim) for claim in self.claims)

    @property
    def outside(self) -> tuple[Diagnostic, ...]:
        """Findings outside of the change."""
        return tuple(claim for claim in self.claims if self.case.is_outside(claim))


def cases(shelf: Shelf, number: int, file: Path | None = None) -> Iterator[Case]:
    """Yield the branches, those of fixes that were found without the review first, at most a few of each package."""
    taken: Counter[str] = Counter()
    left = number
    found = fixes(()) if file is None else fixes((), file)
    for fix in sorted(found, key=lambda each: not each.is_independent):
        if left <= 0:
            return
        if taken[fix.package] >= _MOST_OF_PACKAGE or fix.before.lines is None or fix.after.lines is None:
            continue
        before, after = (_text(shelf, fix.package, side) for side in (fix.before, fix.after))
        reverted = _reverted(before, after, fix)
        if reverted is None:
            continue
        taken[fix.package] += 1
        yield Case(fix, True, after, reverted)
        yield Case(fix, False, reverted, after)
        left -= 2


def _text(shelf: Shelf, package: str, side: Side) -> str:
    return (shelf.folder(package, side.version) / side.path).read_text(encoding="utf-8")


def _reverted(before: str, after: str, fix: Fix) -> str | None:
    """Return the fixed text with the old lines of the fix alone; None if that is not Python or changes nothing."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    if fix.before.lines is None or fix.after.lines is None:
        return None
    (was_first, was_last), (first, last) = fix.before.lines, fix.after.lines
    made: list[str] = []
    for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        is_of_fix = (old_from < was_last and was_first <= old_to) or (new_from < last and first <= new_to)
        made += old[old_from:old_to] if tag != "equal" and is_of_fix else new[new_from:new_to]
    text = "".join(made)
    try:
        compile(text, fix.after.path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    return text if text != after else None


def _repository(shelf: Shelf, case: Case, root: Path) -> None:
    shutil.copytree(shelf.folder(case.fix.package, case.fix.after.version), root)
    file = root / case.path
    file.write_text(case.main, encoding="utf-8")
    _git(root, "init", "-q", "-b", "main")
    _git(root, "add", "-A")
    _git(root, "commit", "-qm", "release")
    _git(root, "switch", "-qc", "branch")
    file.write_text(case.branch, encoding="utf-8")
    _git(root, "commit", "-qam", "change")


def _git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false")
    subprocess.run(["git", "-C", root, *who, *arguments], check=True, capture_output=True)


async def judge(root: Path, case: Case, *, is_session: bool) -> Result:
    """Review the branch as an agent does; in a session, as a user does."""
    if not is_session:
        context = ToolContext(root)
        found = await load_tools().get("static-review").run(context, {"paths": [case.path], "since": "main"})
        return Result(case, found.claims, edits=_edits(found.output))
    from esper_agents.api import open_project

    async with open_project(root) as project:
        ended = await (await project.tasks.submit(project.tasks.create(_REQUEST))).run()
        if ended.certificate is None:
            raise SystemExit(f"the session about {case.name} issued no certificate")
        issued = await project.certificates.read(ended.certificate.id)
    review = next(each.output for each in issued.evidence if each.tool == "static-review")
    return Result(case, tuple(finding.claim for finding in issued.findings), str(issued.verdict.status), _edits(review))


def _edits(review: JsonObject) -> tuple[str, ...]:
    return tuple(str(each["place"]) for each in review["change"]["edits"])


def _print(results: Sequence[Result]) -> None:
    reversals = [result for result in results if result.case.is_reversal]
    repaired = [result for result in results if not result.case.is_reversal]
    claims, outside = (
        sum(len(each) for each in found) for found in zip(*((r.claims, r.outside) for r in results), strict=True)
    )
    asked = [result for result in results if result.status]
    print(f"branches             {len(results)} of {len({result.case.fix.package for result in results})} packages")
    print(f"reversals seen       {sum(reversal.is_seen for reversal in reversals)} of {len(reversals)}")
    print(f"fixes blamed         {sum(each.is_seen for each in repaired)} of {len(repaired)}")
    print(f"branches described   {sum(result.is_described for result in results)} of {len(results)}")
    print(f"findings outside     {outside} of {claims}")
    print(f"sessions with GO     {sum(each.status == 'GO' for each in asked)} of {len(asked)}")
    for result in results:
        if result.is_seen is not result.case.is_reversal or result.outside:
            found = ", ".join(f"{claim.rule} {claim.location.line}" for claim in result.claims) or "nothing"
            expected = "/".join(sorted(result.case.fix.rules)) or "a removed guard"
            print(f"  {result.case.name}: {found}; expected {expected}")


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=_CASES, help="number of branches")
    parser.add_argument("--sessions", type=int, default=0, help="number of branches that a whole session judges")
    parser.add_argument("--unseen", action="store_true", help="the fixes of changes/unseen.toml")
    parser.add_argument("--packages", type=Path, help="a folder of wheels; nothing is downloaded")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["ESPER_HOME"] = str(Path(scratch) / "home")
        shelf = Shelf(Path(scratch), options.packages)
        for number, case in enumerate(cases(shelf, options.cases, _UNSEEN if options.unseen else None)):
            root = Path(scratch) / f"case{number}"
            _repository(shelf, case, root)
            results.append(asyncio.run(judge(root, case, is_session=number < options.sessions)))
            print(f"{number + 1:3} {'seen' if results[-1].is_seen else 'not seen'}: {case.name}", flush=True)
            shutil.rmtree(root)
    _print(results)


if __name__ == "__main__":
    main()
