"""Contents of a git commit: files by path, with their committed bytes, ignoring all filters."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.git.process import running_git

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

# A few trees that refer to each other many times produce an endless listing.
MOST_ENTRIES = 200_000
_CHUNK = 1 << 20

LINK = "120000"
SUBMODULE = "160000"
EXECUTABLE = "100755"


@dataclass(frozen=True, slots=True)
class GitTreeEntry:
    """One file of a tree.

    Attributes:
        path: Relative to the tree, as passed to the file system.
        mode: Mode as written by git, such as `100644`.
        object_id: Object id of the content.
    """

    path: str
    mode: str
    object_id: str


def entries(repository: Path, tree: str) -> list[GitTreeEntry]:
    """Return every file, link and submodule of a tree, in git's order.

    Raises:
        UsageError: There are too many.
        EvidenceError: git cannot read the tree.
    """
    found: list[GitTreeEntry] = []
    with running_git(repository, "ls-tree", "-r", "-z", "--full-tree", tree) as git:
        for line in fields(git.answers):
            about, _, path = line.partition(b"\t")
            mode, _, object_id = about.decode("ascii").split()
            found.append(GitTreeEntry(os.fsdecode(path), mode, object_id))
            if len(found) > MOST_ENTRIES:
                raise UsageError(f"the revision holds over {MOST_ENTRIES} files", remedy="measure a smaller project")
        if git.wait() != 0:
            raise _unreadable(tree)
    return found


def fields(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the parts of git's output that null bytes separate."""
    rest = b""
    while chunk := stream.read(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole
    if rest.strip():
        yield rest


class Contents:
    """Reader of object contents, one after another; created by `contents`."""

    def __init__(self, ask: IO[bytes], answers: IO[bytes]) -> None:
        """Use the pipes of a `git cat-file --batch` process."""
        self._ask = ask
        self._answers = answers
        self._left = 0

    def size(self, object_id: str) -> int | None:
        """Request a file, whose content `chunks` then yields, and return its size in bytes; None if it does not exist.

        Raises:
            EvidenceError: The object is not a file, or git ended.
        """
        for _ in self.chunks():
            pass
        try:
            self._ask.write(f"{object_id}\n".encode())
            self._ask.flush()
        except BrokenPipeError as error:
            raise _unreadable(object_id) from error
        match self._answers.readline().split():
            case [_, b"blob", size]:
                self._left = int(size) + 1
                return int(size)
            case [_, b"missing"]:
                return None
            case _:
                raise _unreadable(object_id)

    def read_object(self, object_id: str) -> tuple[str, bytes]:
        """Return the type and the content of an object.

        Raises:
            EvidenceError: The object does not exist, or git ended.
        """
        for _ in self.chunks():
            pass
        self._ask.write(f"{object_id}\n".encode())
        self._ask.flush()
        match self._answers.readline().split():
            case [_, kind, size]:
                self._left = int(size) + 1
                return kind.decode("ascii"), b"".join(self.chunks())
            case _:
                raise _unreadable(object_id)

    def chunks(self) -> Iterator[bytes]:
        """Yield the remaining content of the requested file.

        Raises:
            EvidenceError: git ends before the file does.
        """
        while self._left:
            chunk = self._answers.read(min(self._left - 1, _CHUNK) or 1)
            if not chunk:
                raise _unreadable("a file")
            self._left -= len(chunk)
            # The last byte is a line feed that git adds.
            if self._left:
                yield chunk


@contextmanager
def contents(repository: Path) -> Iterator[Contents]:
    """Yield a reader for the objects of a repository."""
    with running_git(repository, "cat-file", "--batch") as git:
        yield Contents(git.ask, git.answers)


def _unreadable(what: str) -> EvidenceError:
    return EvidenceError(f"git cannot read {what}", remedy="run `git fsck` in the project")
