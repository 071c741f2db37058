"""Changes: the subject of a task about a merge, a branch or a diff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of

if TYPE_CHECKING:
    from collections.abc import Mapping

# Names of the task options that describe the change.
DIFF, BASE, HEAD, PATCH = "diff", "change-base", "change-head", "change-sha256"
DELETED, OTHERS = "change-deleted", "change-others"
TREE, _COMMIT = "change-tree", "commit"
# Member of a tool's output: the digest of the change when the tool read it.
CHANGE_DIGEST = "change_sha256"
_SHORT = 9
# Changes that an option of the command line names.
STAGED, BRANCH = "--staged", "--pr"


@dataclass(frozen=True, slots=True)
class TaskChange:
    """Difference between two trees of a project that a task is about.

    Attributes:
        asked: The change in the user's words, as in `--diff main...HEAD`; `--staged` for the
            index, `--pr` for the branch.
        base: Commit of the old tree, in full.
        head: Commit of the new tree, in full; empty for the work tree or the index.
        sha256: Digest of the changed paths with the digests of both versions of their sources.
        paths: Changed sources that exist in the new tree, in order.
        deleted: Changed sources that do not exist in the new tree, in order.
        others: Other changed files that no rule reads, without documents, in order.
        is_checked_out: Whether the work tree contains the new sources; if not, agents read a copy of the head commit.
    """

    asked: str
    base: str
    head: str
    sha256: str
    paths: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    is_checked_out: bool = True

    @property
    def since(self) -> str:
        """Revision or range as the review tools take it."""
        return f"{self.base}..{self.head}" if self.head else self.base

    @property
    def label(self) -> str:
        """Change in a few words, such as `change 5c1e0aa1f..9f3b2d10c (3 files)`."""
        head = self.head[:_SHORT] or "work tree"
        files = number_of(len(self.paths) + len(self.deleted) + len(self.others), "file")
        return f"change {self.base[:_SHORT]}..{head} ({files})"

    @property
    def options(self) -> dict[str, str]:
        """Task options that record the change."""
        return {
            DIFF: self.asked,
            BASE: self.base,
            HEAD: self.head,
            PATCH: self.sha256,
            DELETED: "\n".join(self.deleted),
            OTHERS: "\n".join(self.others),
            **({} if self.is_checked_out else {TREE: _COMMIT}),
        }


def change_of(options: Mapping[str, str], paths: tuple[str, ...] = ()) -> TaskChange | None:
    """Return the change that a task's options record; None if the task is not about one.

    Args:
        options: Options of the task.
        paths: Paths of the task: the changed sources that it is about.
    """
    if not options.get(BASE):
        return None
    deleted, others = (tuple(filter(None, options.get(name, "").split("\n"))) for name in (DELETED, OTHERS))
    return TaskChange(
        options[DIFF],
        options[BASE],
        options.get(HEAD, ""),
        options.get(PATCH, ""),
        paths,
        deleted,
        others,
        is_checked_out=options.get(TREE) != _COMMIT,
    )
