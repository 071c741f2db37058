"""Review of a branch for its pull request: new findings, patches, and the coverage by certificates."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.review import ReviewOptions, review_files, shareable_fixes
from esper_agents.api.verification import check_coverage
from esper_agents.domain.gate_level import GateLevel
from esper_agents.errors import UsageError
from esper_agents.git.diffs import diff_since
from esper_agents.git.find_project import find_project
from esper_agents.git.revisions import commit_of
from esper_agents.review.rule_codes import GUARD, TEST
from esper_agents.review.task_change import base_of_branch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from esper_agents.archive.verification.gate import GateResult
    from esper_agents.certificates.signing.allowed_signers import Signer
    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.outcome import ReviewOutcome
    from esper_agents.review.report import Progress

_SOURCES = (".py", ".ipynb")
_REMEDY = "name what to compare with: esper pr --base REV"


@dataclass(frozen=True, slots=True)
class FilePatch:
    """Safe fixes of one file as a patch.

    Attributes:
        path: The file, relative to the project.
        unified: Patch for `git apply`.
        rules: Codes of the rules whose findings it fixes.
    """

    path: str
    unified: str
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PullRequestReview:
    """Review of a branch against its merge base.

    Attributes:
        options: Options of the review.
        base: Name of the branch or revision that the branch is compared with.
        merge_base: Their common commit.
        head: Commit of the work tree.
        submit_option: Option of `esper submit` that names the same change.
        changed: Changed Python sources and notebooks, relative to the project; deleted ones, too.
        present: Those of them that are in the work tree.
        outcome: The review, limited to the diagnostics that the branch introduced.
        patches: Safe fixes for these diagnostics.
        gate: Coverage of the changed files by certificates.
    """

    options: ReviewOptions
    base: str
    merge_base: str
    head: str
    submit_option: str
    changed: tuple[str, ...]
    present: tuple[str, ...]
    outcome: ReviewOutcome
    patches: tuple[FilePatch, ...]
    gate: GateResult

    @property
    def removals(self) -> tuple[Diagnostic, ...]:
        """Guards and tests that the branch removes."""
        return tuple(claim for claim in self.outcome.report.claims if claim.rule in {GUARD, TEST})

    @property
    def reviewed(self) -> tuple[str, ...]:
        """Changed sources that were reviewed."""
        examined = {each.path for each in self.outcome.report.examined}
        return tuple(path for path in self.changed if path in examined)

    @property
    def excluded(self) -> tuple[str, ...]:
        """Changed sources that no review reads: in a hidden or excluded folder, a link, or with an undecodable name."""
        known = {*self.reviewed, *(each.path for each in self.outcome.report.unreadable)}
        return tuple(path for path in self.present if path not in known)

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """Diagnostics that the branch introduces, other than removed guards and tests."""
        return tuple(claim for claim in self.outcome.report.claims if claim.rule not in {GUARD, TEST})


async def review_pull_request(
    project: str | Path = ".",
    *,
    base: str = "",
    environment: Mapping[str, str] | None = None,
    trusted_keys: Sequence[Signer] = (),
    accepts_overrides: bool = False,
    fail_on: GateLevel = GateLevel.UNCOVERED,
    on_progress: Callable[[Progress], None] | None = None,
) -> PullRequestReview:
    """Return the review of the work tree against its merge base with another branch; runs none of the code.

    Args:
        project: A path in the project.
        base: The other branch, or any revision; if empty, the target branch that a CI job names, else the default one.
        environment: Variables of the CI job; none if omitted.
        trusted_keys: Additional trusted keys; see `read_trusted_keys`.
        accepts_overrides: Whether an override may improve the status of a certificate.
        fail_on: Result at which the gate fails.
        on_progress: Called before each file is read and before it is checked.

    Raises:
        UsageError: The project is not under git, the base is not known, or there is no common commit.
    """
    root = Path(find_project([Path(project)], Path.cwd()).root)
    named = base or _target_branch(root, environment or {})
    base, merge_base = base_of_branch(root, named, remedy=_REMEDY)
    options = ReviewOptions((root,), revision=merge_base, project=root)
    outcome = review_files(options, on_progress)
    patches = tuple(
        FilePatch(
            shareable_fix.path, shareable_fix.unified, tuple(sorted({claim.rule for claim in shareable_fix.claims}))
        )
        for shareable_fix in shareable_fixes(options, outcome)
    )
    gate = await check_coverage(
        root,
        trusted_keys=trusted_keys,
        accepts_overrides=accepts_overrides,
        since=merge_base,
        fail_on=fail_on,
    )
    difference = diff_since(root, merge_base)
    changed = tuple(path for path in difference.paths if path.endswith(_SOURCES))
    listed = frozenset(difference.work_tree)
    # A name that is not UTF-8 is listed with a backslash, and cannot be looked up.
    present = tuple(path for path in changed if path in listed and ("\\" in path or os.path.lexists(root / path)))
    # A published file that is not a valid certificate has no agent; it always counts.
    coverage = tuple(each for each in gate.coverage if each.path in changed or not each.agent)
    return PullRequestReview(
        options,
        base,
        merge_base,
        commit_of(root, "HEAD"),
        "--pr" if _is_default(root, merge_base) else f"--diff {merge_base}",
        changed,
        present,
        outcome,
        patches,
        replace(gate, coverage=coverage),
    )


def _is_default(root: Path, merge_base: str) -> bool:
    """Return whether the default branch has the same merge base."""
    try:
        return base_of_branch(root)[1] == merge_base
    except UsageError:
        return False


def _target_branch(root: Path, environment: Mapping[str, str]) -> str:
    """Return the revision that a CI job names as the target of its pull request; empty if this clone has none of it."""
    branches = (environment.get(name, "") for name in ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"))
    named = [f"origin/{branch}" for branch in branches if branch]
    commit = environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", "")
    for each in [*named, *([commit] if commit else [])]:
        try:
            commit_of(root, each)
        except UsageError:
            continue
        return each
    if named:
        problem = f"this clone does not have the target branch {named[0].removeprefix('origin/')!r}"
        raise UsageError(problem, remedy="fetch the whole history: `fetch-depth: 0` of actions/checkout, or git fetch")
    return ""
