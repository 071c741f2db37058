"""Files of a project that differ between two revisions, or between a revision and the work tree."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.codec import carried
from esper_agents.errors import EvidenceError
from esper_agents.git.files import listed_files
from esper_agents.git.revisions import commit_of, repository, tree_of
from esper_agents.git.trees import LINK, SUBMODULE, entries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from esper_agents.git.trees import GitTreeEntry

_MOST_TEXT = 16 << 20
_CHUNK = 1 << 20
_SHA256_DIGITS = 64


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """Files of a project that differ between two sides.

    Attributes:
        is_target_changed: Whether the target's own file differs.
        others: Paths of all other differing files, sorted.
    """

    is_target_changed: bool
    others: tuple[str, ...]


def changed(
    project: Path, base: str, other: str | None = None, *, target_file: str | None, apart_from: Sequence[str] = ()
) -> ChangedFiles:
    """Return the files that differ between a revision and the work tree, or between two revisions.

    Line ends alone do not count: git may have converted them in the work tree.

    Args:
        project: The folder of the project.
        base: A commit, branch or tag.
        other: A second revision; if omitted, the work tree, including untracked files that are not ignored.
        target_file: The file that is expected to differ, relative to the project.
        apart_from: Folders to ignore.

    Raises:
        UsageError: As for `checkout`.
        EvidenceError: git cannot read a revision.
    """
    top = repository(project)
    one = _by_path(top, project, base)
    if other is not None:
        two = _by_path(top, project, other)
        paths = [path for path in one.keys() | two.keys() if _held(one.get(path)) != _held(two.get(path))]
    else:
        listing = listed_files(project)
        if listing is None:
            raise EvidenceError("git does not list the files of the project", remedy="run `git fsck` in the project")
        known = {path for path in listing if os.path.lexists(project / path)}
        paths = [path for path, entry in one.items() if not _is_same(project / path, entry)]
        paths += [path for path in known - one.keys() if not (project / path).is_dir()]
    counted = sorted({carried(path) for path in paths if not path.startswith(tuple(f"{each}/" for each in apart_from))})
    return ChangedFiles(target_file in counted, tuple(path for path in counted if path != target_file))


def _by_path(top: Path, project: Path, revision: str) -> dict[str, GitTreeEntry]:
    tree = tree_of(top, project, commit_of(top, revision), revision)
    return {entry.path: entry for entry in entries(top, tree) if entry.mode != SUBMODULE}


def _held(entry: GitTreeEntry | None) -> tuple[bool, str] | None:
    return None if entry is None else (entry.mode == LINK, entry.object_id)


def _is_same(file: Path, entry: GitTreeEntry) -> bool:
    """Return whether a file of the work tree has the content of the revision.

    Compares the content: flags in git's index may hide changes.
    """
    with suppress(OSError):
        found = file.lstat()
        if entry.mode == LINK:
            # Not Path.readlink, which normalizes the target.
            return _object_id(os.fsencode(os.readlink(file)), entry) == entry.object_id  # noqa: PTH115 - see above
        if not stat.S_ISREG(found.st_mode):
            return False
        if _hashed(file, found.st_size, entry) == entry.object_id:
            return True
        if found.st_size <= _MOST_TEXT and b"\r\n" in (content := file.read_bytes()):
            return _object_id(content.replace(b"\r\n", b"\n"), entry) == entry.object_id
    return False


def _hashed(file: Path, size: int, entry: GitTreeEntry) -> str:
    digest = _digest(size, entry)
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _object_id(content: bytes, entry: GitTreeEntry) -> str:
    digest = _digest(len(content), entry)
    digest.update(content)
    return digest.hexdigest()


def _digest(size: int, entry: GitTreeEntry) -> hashlib._Hash:
    name = "sha256" if len(entry.object_id) == _SHA256_DIGITS else "sha1"
    return hashlib.new(name, f"blob {size}\0".encode(), usedforsecurity=False)
