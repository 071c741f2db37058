"""Sources on both sides of a change: a revision and the work tree, two revisions, or the index."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.git.diffs import TreeDiff, diff_since, diff_staged
from esper_agents.git.trees import contents
from esper_agents.review.discover import LEFT_OUT
from esper_agents.review.source import LARGEST_BYTES, Unreadable, from_bytes, read

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from esper_agents.git.trees import Contents
    from esper_agents.review.source import ReviewSource

_SUFFIXES = (".py", ".ipynb")


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


def change_since(root: Path, revision: str, paths: Collection[str], *, only_changed: bool = False) -> TreePair:
    """Return the difference between a revision and the work tree, or between the two revisions of `A..B` or `A...B`.

    Args:
        root: The work tree.
        revision: Any name of a commit.
        paths: Files and folders to compare, relative to the root; `.` means all.
        only_changed: Whether to read only sources that differ, instead of all as context.

    Raises:
        UsageError: The revision does not exist, or the folder is not under git.
    """
    return _sources_of(root, diff_since(root, revision), paths, only_changed=only_changed)


def staged_change(root: Path, paths: Collection[str], *, only_changed: bool = False) -> TreePair:
    """Return the difference between the last commit and the index.

    Args:
        root: The work tree.
        paths: As in `change_since`.
        only_changed: As in `change_since`.

    Raises:
        UsageError: The folder is not under git.
    """
    return _sources_of(root, diff_staged(root), paths, only_changed=only_changed)


def _sources_of(root: Path, diff: TreeDiff, paths: Collection[str], *, only_changed: bool) -> TreePair:
    if not any(each.endswith(_SUFFIXES) for each in diff.paths):
        return TreePair(diff.paths, (), ())
    if only_changed:
        changed = frozenset(diff.paths)
        before, after = ({path: each[path] for path in changed & each.keys()} for each in (diff.before, diff.after))
        diff = TreeDiff(diff.paths, before, after, tuple(path for path in diff.work_tree if path in changed))
    here = tuple(
        read(root / path, path) for path in diff.work_tree if is_source_in(path, paths) and _is_file(root, path)
    )
    return TreePair(diff.paths, _sources(root, diff.before, paths), here or _sources(root, diff.after, paths))


def is_source_in(path: str, paths: Collection[str]) -> bool:
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
            _source(held, path, object_id) for path, object_id in sorted(objects.items()) if is_source_in(path, paths)
        )


def _source(held: Contents, path: str, object_id: str) -> ReviewSource | Unreadable:
    size = held.size(object_id)
    if size is None or size > LARGEST_BYTES:
        problem = "not in the repository" if size is None else f"larger than {LARGEST_BYTES} bytes"
        return Unreadable(path, problem, "exclude it from the paths", None)
    return from_bytes(b"".join(held.chunks()), path)
