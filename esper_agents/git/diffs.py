"""Compare two trees of a project from git's objects, index and work tree, without running anything."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.git.files import listed_files, names_in, untracked_files
from esper_agents.git.process import configured, git, toplevel
from esper_agents.git.revisions import commit_of
from esper_agents.git.trees import LINK, SUBMODULE, entries
from esper_agents.paths import HARNESS_FOLDER, is_published

if TYPE_CHECKING:
    from collections.abc import Mapping

# Blocks programs that a repository configures for displaying files.
_QUIET = ("--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--name-only", "-z")


@dataclass(frozen=True, slots=True)
class TreeDiff:
    """Two trees of a project and the paths that differ; published certificates are part of neither.

    Attributes:
        paths: Every path that differs, of any file type, in order.
        before: Object ids of the old tree's files by path.
        after: Object ids of the new tree's files by path; empty for the work tree.
        work_tree: Files of the work tree, if that is the new side.
    """

    paths: tuple[str, ...]
    before: Mapping[str, str]
    after: Mapping[str, str]
    work_tree: tuple[str, ...] = ()


def diff_since(root: Path, revision: str) -> TreeDiff:
    """Return the difference between a revision and the work tree, or between the two revisions of `A..B` or `A...B`.

    Untracked files belong to the work tree unless they are ignored.

    Args:
        root: The work tree.
        revision: Any name of a commit.

    Raises:
        UsageError: The revision does not exist, or the folder is not under git.
        EvidenceError: git cannot compare the trees.
    """
    _require_git(root)
    if ".." in revision:
        return _between(root, revision)
    old = commit_of(root, revision)
    changed = names_in(git(root, "diff", *_QUIET, old, "--", emptied=configured(root).filters))
    listed, unknown = listed_files(root), untracked_files(root)
    if changed is None or listed is None or unknown is None:
        raise EvidenceError("git cannot compare the work tree", remedy="run `git status` in the project")
    # A harness that a measurement wrote here is no part of the change; one that the change commits is.
    added = {path for path in unknown if not path.startswith(f"{HARNESS_FOLDER}/")}
    differing = sorted(path for path in {*changed, *added} if not is_published(path))
    work_tree = sorted(path for path in set(listed) if not is_published(path))
    return TreeDiff(tuple(differing), _tree(root, old), {}, tuple(work_tree))


def new_side(revision: str) -> str:
    """Return the revision B of `A..B` or `A...B`; empty if a revision is compared with the work tree."""
    _, dots, second = _sides(revision)
    return (second or "HEAD") if dots else ""


def diff_staged(root: Path) -> TreeDiff:
    """Return the difference between the last commit and the index.

    Raises:
        UsageError: The folder is not under git.
        EvidenceError: git cannot read the index.
    """
    _require_git(root)
    old = (git(root, "rev-parse", "--verify", "-q", "HEAD^{tree}") or "").strip()
    listed = names_in(git(root, "ls-files", "-z", "--stage", index=_index(root)))
    if listed is None:
        raise EvidenceError("git cannot read the index", remedy="run `git status` in the project")
    return _of_objects(_tree(root, old) if old else {}, _staged(listed))


def changed_submodules(root: Path, base: str, head: str = "") -> tuple[str, ...]:
    """Return the submodules whose recorded commits differ between two commits, or between a commit and the index.

    Args:
        root: The work tree.
        base: The old commit.
        head: The new commit; empty for the index.

    Raises:
        EvidenceError: git cannot read a commit or the index.
    """
    before = _submodules(root, base)
    if head:
        after = _submodules(root, head)
    else:
        listed = names_in(git(root, "ls-files", "-z", "--stage", index=_index(root)))
        if listed is None:
            raise EvidenceError("git cannot read the index", remedy="run `git status` in the project")
        rows = (each.partition("\t")[::2] for each in listed if each.startswith(SUBMODULE))
        after = {path: about.split()[1] for about, path in rows}
    return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))


def _submodules(root: Path, commit: str) -> dict[str, str]:
    return {entry.path: entry.object_id for entry in entries(root, commit) if entry.mode == SUBMODULE}


def _between(root: Path, revision: str) -> TreeDiff:
    first, dots, second = _sides(revision)
    old, new = commit_of(root, first or "HEAD"), commit_of(root, second or "HEAD")
    if dots == "...":
        old = (git(root, "merge-base", old, new) or "").strip()
        if not old:
            raise UsageError(f"{revision!r}: the two revisions have no common commit", remedy="name them as A..B")
    return _of_objects(_tree(root, old), _tree(root, new))


def _sides(revision: str) -> tuple[str, str, str]:
    return revision.partition("..." if "..." in revision else "..")


def _of_objects(before: Mapping[str, str], after: Mapping[str, str]) -> TreeDiff:
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    return TreeDiff(tuple(sorted(changed)), before, after)


def _require_git(root: Path) -> None:
    if toplevel(root) != root.resolve():
        raise UsageError(f"{str(root)!r} is not under git", remedy="review the files themselves, without --diff")


def _index(root: Path) -> Path | None:
    """Return the index file of a commit in progress, from the environment that git gives to hooks."""
    named = os.environ.get("GIT_INDEX_FILE")
    folder = git(root, "rev-parse", "--absolute-git-dir")
    if not named or not folder:
        return None
    file = (root / named).resolve()
    # A hook's environment may belong to another repository.
    return file if file.is_relative_to(Path(folder.strip()).resolve()) and file.is_file() else None


def _tree(root: Path, tree: str) -> dict[str, str]:
    files = (entry for entry in entries(root, tree) if entry.mode not in {LINK, SUBMODULE})
    return {file.path: file.object_id for file in files if not is_published(file.path)}


def _staged(listed: list[str]) -> dict[str, str]:
    """Return the objects of an index by path; for a file in conflict, our own side."""
    found: dict[str, str] = {}
    for entry in listed:
        about, _, path = entry.partition("\t")
        mode, object_id, stage = about.split()
        if mode not in {LINK, SUBMODULE} and stage in {"0", "2"} and not is_published(path):
            found[path] = object_id
    return found
