"""Extract a git revision of a project into a folder, without touching the checkout.

None of the project's code is run.
"""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from esper_agents.domain.codec import carried
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.git.process import git, toplevel
from esper_agents.git.trees import EXECUTABLE, LINK, SUBMODULE, contents, entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.git.trees import Contents, GitTreeEntry

_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_LARGEST_POINTER = 1_024
_LONGEST_LINK = 4_096
_MOST_BYTES = 8 << 30
_NOT_HERE = "this clone does not have it: run `git fetch`"
_UNUSABLE_NAMES = {errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL}


@dataclass(frozen=True, slots=True)
class MissingFile:
    """Item of a revision that was not extracted.

    Attributes:
        path: Relative to the project.
        why: Reason, in words.
    """

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class CheckedOutRevision:
    """Extracted revision of a project.

    Attributes:
        asked: Revision as named by the user.
        commit: Full object id of the commit.
        tree: Object id of the project's folder in it.
        root: Folder of the project at that revision.
        absent: Items that were not extracted.
    """

    asked: str
    commit: str
    tree: str
    root: Path
    absent: tuple[MissingFile, ...]

    def described(self) -> JsonObject:
        """Return the revision as stored in reports."""
        left_out = [{"path": each.path, "why": each.why} for each in self.absent]
        return {"asked": self.asked, "commit": self.commit, "tree": self.tree, "absent": left_out}


def checkout(project: Path, revision: str, into: Path) -> CheckedOutRevision:
    """Write a project's files at a revision, byte for byte as committed.

    Args:
        project: The folder of the project, inside a git work tree.
        revision: A commit, branch or tag, such as `HEAD~1`.
        into: An empty or missing folder.

    Raises:
        UsageError: There is no git, no repository or no such revision, or the folder is not empty.
        EvidenceError: git cannot read the revision, or the folder cannot be written.
    """
    top = repository(project)
    commit = commit_of(top, revision)
    tree = tree_of(top, project, commit, revision)
    listed = entries(top, tree)
    try:
        into.mkdir(parents=True, exist_ok=True)
        if any(into.iterdir()):
            raise UsageError(f"{str(into)!r} is not empty", remedy="name an empty folder")
        absent = _write(top, listed, into)
    except OSError as error:
        raise EvidenceError(
            f"the revision cannot be written to {str(into)!r}: {error.strerror}", remedy="free some space there"
        ) from error
    return CheckedOutRevision(revision, commit, tree, into, tuple(absent))


def repository(project: Path) -> Path:
    """Return the git work tree that contains a project.

    Raises:
        UsageError: There is no work tree, or no git.
    """
    if shutil.which("git") is None:
        raise UsageError("git is not installed", remedy="install git, or compare two functions of the work tree")
    top = toplevel(project)
    if top is None:
        raise UsageError(
            f"{str(project)!r} is not a git repository that git trusts, so it has no revisions",
            remedy="run `git status` there, or compare two functions of the folder as it is",
        )
    return top


def commit_of(top: Path, revision: str) -> str:
    """Return the full commit id of a revision named by the user.

    Raises:
        UsageError: There is no such revision; similar names are suggested.
    """
    if not revision.isprintable() or not revision.strip() or revision.startswith("-"):
        raise UsageError(f"{revision!r} is not a valid revision", remedy="name a branch, tag or commit, such as HEAD~1")
    found = git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if found:
        return found.strip()
    if git(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None:
        remedy = "commit something first"
    elif (git(top, "rev-parse", "--is-shallow-repository") or "").strip() == "true":
        remedy = "the clone is shallow: run `git fetch --unshallow`, or name a later revision"
    else:
        known = (git(top, "for-each-ref", "--format=%(refname:short)") or "").split()
        close = get_close_matches(revision, known, n=3, cutoff=0.5)
        remedy = f"did you mean {' or '.join(map(repr, close))}?" if close else "run `git log --oneline`"
    raise UsageError(f"there is no revision {revision!r}", remedy=remedy)


def tree_of(top: Path, project: Path, commit: str, revision: str) -> str:
    """Return the object id of a project's folder in a commit.

    Raises:
        UsageError: The folder did not exist in that commit.
    """
    inside = project.resolve().relative_to(top).as_posix()
    name = f"{commit}^{{tree}}" if inside == "." else f"{commit}:{inside}"
    found = git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
    if found is None or (git(top, "cat-file", "-t", found.strip()) or "").strip() != "tree":
        raise UsageError(
            f"at {revision!r} there was no folder {inside!r}", remedy="name a later revision: run `git log --oneline`"
        )
    return found.strip()


def _write(top: Path, listed: Sequence[GitTreeEntry], into: Path) -> list[MissingFile]:
    absent: list[MissingFile] = []
    left = _MOST_BYTES
    with contents(top) as read:
        # Links last: before they exist, no write can follow one.
        for entry in sorted(listed, key=lambda each: each.mode == LINK):
            why = _refusal(entry)
            size = None if why else read.size(entry.object_id)
            left -= size or 0
            if left < 0:
                raise UsageError(f"the revision holds over {_MOST_BYTES >> 30} GiB", remedy="measure a smaller project")
            why = why or (_NOT_HERE if size is None else _written(read, size, entry, into / entry.path))
            absent += [MissingFile(carried(entry.path), why)] if why else []
    return absent


def _refusal(entry: GitTreeEntry) -> str:
    parts = entry.path.split("/")
    if any(part in {"", ".", ".."} or part.lower() == ".git" for part in parts):
        return "its path is not one that git would write"
    return "a submodule, which is a repository of its own" if entry.mode == SUBMODULE else ""


def _written(read: Contents, size: int, entry: GitTreeEntry, target: Path) -> str:
    """Write one file or link; return the reason if it was skipped."""
    chunks = read.chunks()
    if size <= _LARGEST_POINTER:
        chunks = iter([start := b"".join(chunks)])
        if start.startswith(_LFS):
            return "kept in Git LFS, which has only a pointer in the revision"
    try:
        if entry.mode == LINK and size > _LONGEST_LINK:
            raise ValueError("a name that is too long")  # noqa: TRY301 - the file system's wording
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode == LINK:
            target.symlink_to(os.fsdecode(b"".join(chunks)))
        else:
            _fill(target, 0o755 if entry.mode == EXECUTABLE else 0o644, chunks)
    except (FileExistsError, NotADirectoryError):
        return "another entry of the revision has its name"
    except (FileNotFoundError, ValueError):
        return "a link that cannot be made"
    except OSError as error:
        if error.errno not in _UNUSABLE_NAMES:
            raise
        return "its name is one that files cannot have here"
    return ""


def _fill(target: Path, mode: int, chunks: Iterator[bytes]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(target, flags, mode), "wb") as opened:  # noqa: PTH123 - a descriptor
        opened.writelines(chunks)
