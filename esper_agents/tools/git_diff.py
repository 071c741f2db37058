"""Compare two trees of a project from git's objects, index and work tree, without running anything."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.review.discover import LEFT_OUT
from esper_agents.review.source import LARGEST_BYTES, Unreadable, from_bytes, read
from esper_agents.safe_git import configured, git, toplevel
from esper_agents.torchlab.git_tree import LINK, SUBMODULE, contents, entries

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from esper_agents.review.source import ReviewSource
    from esper_agents.torchlab.git_tree import Contents

_SUFFIXES = (".py", ".ipynb")
# Blocks programs that a repository configures for displaying files.
_QUIET = ("--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--name-only", "-z")


@dataclass(frozen=True, slots=True)
class TreePair:
    """Pair of trees.

    Attributes:
        paths: Every path that differs, of any file type, in order.
        before: Sources of the old tree.
        after: Sources of the new tree.
    """

    paths: tuple[str, ...]
    before: tuple[ReviewSource | Unreadable, ...]
    after: tuple[ReviewSource | Unreadable, ...]


def change_since(root: Path, revision: str, paths: Collection[str]) -> TreePair:
    """Return the difference between a revision and the work tree, or between the two revisions of `A..B` or `A...B`.

    Untracked files belong to the work tree unless they are ignored.

    Args:
        root: The work tree.
        revision: Any name of a commit.
        paths: Files and folders to compare, relative to the root; `.` means all.

    Raises:
        UsageError: The revision does not exist, or the folder is not under git.
    """
    _require_git(root)
    if ".." in revision:
        return _between(root, revision, paths)
    old = _commit(root, revision)
    said = git(root, "diff", *_QUIET, old, "--", emptied=configured(root).filters)
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    unknown = git(root, "ls-files", "-z", "--others", "--exclude-standard")
    if said is None or listed is None or unknown is None:
        raise EvidenceError("git cannot compare the work tree", remedy="run `git status` in the project")
    changed = {*_fields(said), *_fields(unknown)}
    if not _concerns_sources(changed):
        return TreePair(tuple(sorted(changed)), (), ())
    here = [
        read(root / path, path)
        for path in sorted(set(_fields(listed)))
        if _is_wanted(path, paths) and _is_file(root, path)
    ]
    return TreePair(tuple(sorted(changed)), _sources(root, _tree(root, old), paths), tuple(here))


def staged_change(root: Path, paths: Collection[str]) -> TreePair:
    """Return the difference between the last commit and the index.

    Args:
        root: The work tree.
        paths: As in `change_since`.

    Raises:
        UsageError: The folder is not under git.
    """
    _require_git(root)
    old = (git(root, "rev-parse", "--verify", "-q", "HEAD^{tree}") or "").strip()
    index = _index(root)
    listed = git(root, "ls-files", "-z", "--stage", index=index)
    if listed is None:
        raise EvidenceError("git cannot read the index", remedy="run `git status` in the project")
    before, after = _tree(root, old) if old else {}, _staged(listed)
    return _of_objects(root, before, after, paths)


def _between(root: Path, revision: str, paths: Collection[str]) -> TreePair:
    first, dots, second = revision.partition("..." if "..." in revision else "..")
    old, new = _commit(root, first or "HEAD"), _commit(root, second or "HEAD")
    if dots == "...":
        old = (git(root, "merge-base", old, new) or "").strip()
        if not old:
            raise UsageError(f"{revision!r}: the two revisions have no common commit", remedy="name them as A..B")
    return _of_objects(root, _tree(root, old), _tree(root, new), paths)


def _of_objects(root: Path, before: Mapping[str, str], after: Mapping[str, str], paths: Collection[str]) -> TreePair:
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    if not _concerns_sources(changed):
        return TreePair(tuple(sorted(changed)), (), ())
    return TreePair(tuple(sorted(changed)), _sources(root, before, paths), _sources(root, after, paths))


def _require_git(root: Path) -> None:
    if toplevel(root) != root.resolve():
        raise UsageError(f"{str(root)!r} is not under git", remedy="review the files themselves, without --diff")


def _commit(root: Path, revision: str) -> str:
    found = git(root, "rev-parse", "--verify", "-q", "--end-of-options", f"{revision}^{{commit}}")
    if not found or not found.strip():
        raise UsageError(f"no revision {revision!r} here", remedy="name a commit, a branch or a tag: git log --oneline")
    return found.strip()


def _index(root: Path) -> Path | None:
    """Return the index file of a commit in progress, from the environment that git gives to hooks."""
    told = os.environ.get("GIT_INDEX_FILE")
    folder = git(root, "rev-parse", "--absolute-git-dir")
    if not told or not folder:
        return None
    file = (root / told).resolve()
    # A hook's environment may belong to another repository.
    return file if file.is_relative_to(Path(folder.strip()).resolve()) and file.is_file() else None


def _fields(said: str) -> list[str]:
    return [each for each in said.split("\0") if each]


def _tree(root: Path, tree: str) -> dict[str, str]:
    return {each.path: each.object_id for each in entries(root, tree) if each.mode not in {LINK, SUBMODULE}}


def _staged(listed: str) -> dict[str, str]:
    """Return the objects of an index by path; for a file in conflict, our own side."""
    found: dict[str, str] = {}
    for entry in _fields(listed):
        about, _, path = entry.partition("\t")
        mode, object_id, stage = about.split()
        if mode not in {LINK, SUBMODULE} and stage in {"0", "2"}:
            found[path] = object_id
    return found


def _concerns_sources(changed: Collection[str]) -> bool:
    return any(each.endswith(_SUFFIXES) for each in changed)


def _is_wanted(path: str, paths: Collection[str]) -> bool:
    """Return whether a path is a requested source: named itself, or in a named folder and not excluded."""
    if path in paths:
        return path.endswith(_SUFFIXES)
    place = PurePosixPath(path)
    for each in paths:
        base = PurePosixPath(each)
        if place.is_relative_to(base):
            folders = place.relative_to(base).parts[:-1]
            return path.endswith(_SUFFIXES) and not any(_is_left_out(folder) for folder in folders)
    return False


def _is_left_out(folder: str) -> bool:
    return folder.startswith(".") or folder in LEFT_OUT


def _is_file(root: Path, path: str) -> bool:
    try:
        return stat.S_ISREG((root / path).lstat().st_mode)
    except OSError:
        return False


def _sources(root: Path, objects: Mapping[str, str], paths: Collection[str]) -> tuple[ReviewSource | Unreadable, ...]:
    with contents(root) as held:
        return tuple(
            _source(held, path, object_id) for path, object_id in sorted(objects.items()) if _is_wanted(path, paths)
        )


def _source(held: Contents, path: str, object_id: str) -> ReviewSource | Unreadable:
    size = held.size(object_id)
    if size is None or size > LARGEST_BYTES:
        problem = "not in the repository" if size is None else f"larger than {LARGEST_BYTES} bytes"
        return Unreadable(path, problem, "exclude it from the paths", None)
    return from_bytes(b"".join(held.chunks()), path)
