"""Change control of a comparison: one variable at a time, frozen randomness, a rollback."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from esper_agents.paths import HARNESS_FOLDER, PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class BaseRevision:
    """Project at a base revision.

    Attributes:
        root: Root of its files.
        commit: Full object id; empty for the project without a drafted patch.
        is_target_changed: Whether the target's own file differs from it.
        others: Other differing files.
    """

    root: Path
    commit: str
    is_target_changed: bool
    others: tuple[str, ...]


@contextmanager
def base_revision(root: Path, revision: str, target: str, baseline: str) -> Iterator[BaseRevision | None]:
    """Yield the project at a revision, in a temporary folder; None for an empty revision.

    If the baseline is a harness that the revision lacks, it is that of the project.

    Args:
        root: The project's folder.
        revision: Git revision.
        target: Target whose changes since then are recorded.
        baseline: Target that is taken from the revision.

    Raises:
        UsageError: There is no such revision, or the harness cannot be copied.
        EvidenceError: git cannot read it.
    """
    if not revision:
        yield None
        return
    from esper_agents.git.changed_files import changed
    from esper_agents.git.revisions import checkout
    from esper_agents.torchlab.harness import copy_harness

    with TemporaryDirectory(prefix="esper-base-", ignore_cleanup_errors=True) as folder:
        found = checkout(root, revision, Path(folder) / "project")
        copy_harness(root, found.root, baseline.rpartition(":")[0])
        file = target.rpartition(":")[0]
        differ = changed(
            root,
            found.commit,
            target_file=file if file.endswith(".py") else None,
            apart_from=[PUBLISHED, HARNESS_FOLDER],
        )
        yield BaseRevision(found.root, found.commit, differ.is_target_changed, differ.others)


@dataclass(frozen=True, slots=True)
class BaseCommit:
    """Commit of the baseline, as stored in reports.

    Attributes:
        commit: Full object id; empty for the project without a drafted patch.
        is_target_changed: Whether the target's own file differs from it.
        others: Other differing files.
    """

    commit: str
    is_target_changed: bool
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """Change control of a comparison, as stored in reports.

    Attributes:
        base: Commit of the baseline, if it was taken from one.
        flag: Feature flag that disables the candidate; empty for none.
        said: Labels and texts.
    """

    base: BaseCommit | None
    flag: str
    said: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ChangeControl:
    """Rollback of a change, and its confounding changes.

    Attributes:
        base: Revision of the baseline, if it was taken from one.
        flag: Feature flag that disables the candidate.
    """

    base: BaseRevision | None = None
    flag: str = ""

    def record(self, seed: int) -> ChangeRecord:
        """Return the change control as stored in reports.

        Args:
            seed: Seed of every random choice of the comparison.
        """
        base = self.base
        commit = None if base is None else BaseCommit(base.commit, base.is_target_changed, base.others)
        return ChangeRecord(commit, self.flag, tuple(self._said(seed)))

    def _said(self, seed: int) -> Iterator[tuple[str, str]]:
        yield "frozen", f"seed {seed}; inputs, order and processors follow from it"
        if self.base is not None:
            yield "variable", self._variable(self.base)
        yield "way back", self._way_back()

    def _variable(self, base: BaseRevision) -> str:
        if not base.others:
            return "one: only the target's own file differs" if base.is_target_changed else "none: no file differs"
        named = ", ".join(base.others[:_MOST_NAMED])
        more = f" and {len(base.others) - _MOST_NAMED} more" if len(base.others) > _MOST_NAMED else ""
        return (
            f"more than one: beside the target's file {named}{more} differ, so what is measured is all of them together"
        )

    def _way_back(self) -> str:
        if self.flag:
            return f"turn off {self.flag}"
        if self.base is not None and not self.base.commit:
            return "do not apply the patch"
        if self.base is not None:
            return f"git revert to {self.base.commit[:12]}"
        return "call A again; name a feature flag with --flag, or a revision with --base"
