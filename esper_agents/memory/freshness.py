"""Check whether the files that notes refer to have changed."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from errno import ELOOP, ENOENT
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from esper_agents.domain.memory import MemoryNote

_MOST_BYTES = 64 * 2**20
_AT_ONCE = 2**20


class FileCache:
    """Cache of a project's file digests for one call: every file is read once, however many notes refer to it."""

    def __init__(self, root: Path) -> None:
        """Create an empty cache."""
        self._root = os.path.realpath(root)
        self._digests: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def told(self, notes: Iterable[MemoryNote]) -> tuple[MemoryNote, ...]:
        """Return notes with the paths of their files that have changed or are missing."""
        return tuple(self._told(note) for note in notes)

    def _told(self, note: MemoryNote) -> MemoryNote:
        # A file that changed during the session is listed with every digest that was read.
        was: dict[str, set[str]] = {}
        for source in note.sources:
            was.setdefault(source.path, set()).add(source.sha256)
        found = tuple(path for path, digests in was.items() if self.digest(path) not in digests)
        return replace(note, changed=found) if found else note

    def digest(self, path: str) -> str:
        """Return the digest of a file's bytes; empty if the project has no such readable file."""
        if path not in self._digests:
            self._digests[path] = self._read(path)
        return self._digests[path]

    def _read(self, path: str) -> str:
        try:
            handle = self._opened(path)
        except (OSError, ValueError):
            return ""
        try:
            return _digest(handle)
        except OSError:
            return ""
        finally:
            os.close(handle)

    def _opened(self, path: str) -> int:
        folder, _, name = path.rpartition("/")
        try:
            return self._open(f"{self._folder(folder)}{os.sep}{name}")
        except OSError as error:
            if error.errno != ELOOP:
                raise
        # A link, which may point to another file of the project.
        target = os.path.realpath(os.path.join(self._root, path))  # noqa: PTH118 - pathlib takes three times as long
        return self._open(os.path.join(self._folder(os.path.dirname(target)), os.path.basename(target)))  # noqa: PTH118, PTH119, PTH120

    def _folder(self, folder: str) -> str:
        """Return the resolved path of a folder of the project.

        Raises:
            OSError: The folder is outside the project.
        """
        found = self._folders.get(folder)
        if found is None:
            real = os.path.realpath(os.path.join(self._root, folder))  # noqa: PTH118 - likewise
            is_inside = f"{real}{os.sep}".startswith(self._root.rstrip(os.sep) + os.sep)
            found = self._folders[folder] = real if is_inside else ""
        if not found:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), folder)
        return found

    @staticmethod
    def _open(file: str) -> int:
        # Reading a pipe would never end, and a link could point anywhere.
        return os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _digest(handle: int) -> str:
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode) or state.st_size > _MOST_BYTES:
        return ""
    made = sha256()
    while data := os.read(handle, _AT_ONCE):
        made.update(data)
    return made.hexdigest()
