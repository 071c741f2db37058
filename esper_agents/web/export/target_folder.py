"""Folder of an export: new, empty, or written by an earlier export."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from esper_agents.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Self, TextIO

MARKER, SCRATCH = ".esper-pages", ".esper-pages.new"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_HEAD = "Pages of `esper archive export --html`. A later export removes the files in this list."
_NAME = re.compile(r"(?:[a-z0-9][a-z0-9_-]*/)?[a-z0-9][a-z0-9_-]*\.(?:css|html|js|json|svg)")
_MOST_BYTES = 64 * 2**20
_MODE = 0o644


class TargetFolder:
    """Folder that takes the pages of an export; files that an earlier export wrote are replaced or removed.

    Its list of files is written as the files are, so that an interrupted export can be repeated.
    """

    def __init__(self, root: Path) -> None:
        """Write nothing yet.

        Raises:
            UsageError: The folder has other content, or is not a folder.
        """
        self._root = root
        self._marker = root / MARKER
        self._list: TextIO | None = None
        self._folders: set[str] = set()
        self._written: set[str] = set()
        self._earlier = self._read()

    def __enter__(self) -> Self:
        """Create the folder and its list.

        Raises:
            StorageError: It cannot be written.
        """
        with _translated(self._root):
            self._root.mkdir(parents=True, exist_ok=True)
            self._list = self._marker.open("a", encoding="ascii")
            if not self._earlier and self._list.tell() == 0:
                self._list.write(f"{_HEAD}\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After a complete export, remove earlier files that it did not write."""
        assert self._list is not None  # noqa: S101 - set on entry
        self._list.close()
        if kind is not None:
            return
        with _translated(self._root):
            for name in sorted(self._earlier - self._written):
                self._make_folder(name)
                (self._root / name).unlink(missing_ok=True)
            names = "\n".join((_HEAD, *sorted(self._written), ""))
            self._replace(MARKER, names.encode("ascii"))

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the export.

        Args:
            name: Name relative to the folder, with at most one folder before it.
            data: Content.

        Raises:
            StorageError: It cannot be written.
        """
        if not _NAME.fullmatch(name) or self._list is None:
            raise UsageError(f"{name!r} is not a name of an exported page", remedy="report it")
        with _translated(self._root):
            self._make_folder(name)
            if name not in self._earlier and name not in self._written:
                self._list.write(f"{name}\n")
                self._list.flush()
            self._replace(name, data)
        self._written.add(name)

    def _replace(self, name: str, data: bytes) -> None:
        """Replace a file in one step: a web server never has half a page, and no link or FIFO is opened."""
        scratch = self._root / SCRATCH
        scratch.unlink(missing_ok=True)
        with open(os.open(scratch, _FLAGS, _MODE), "wb") as stream:  # noqa: PTH123 - a descriptor
            stream.write(data)
        scratch.replace(self._root / name)

    def _make_folder(self, name: str) -> None:
        """Create the folder of a file, unless it is a symbolic link."""
        folder = name.rpartition("/")[0]
        if not folder or folder in self._folders:
            return
        path = self._root / folder
        if path.is_symlink():
            raise StorageError(f"{str(path)!r} is a symbolic link", remedy="remove it, or use another folder")
        path.mkdir(exist_ok=True)
        self._folders.add(folder)

    def _read(self) -> set[str]:
        """Return the files of an earlier export.

        Raises:
            UsageError: The folder has other content.
        """
        remedy = "use a new folder, such as --html public"
        if self._root.exists() and not self._root.is_dir():
            raise UsageError(f"{str(self._root)!r} is not a folder", remedy=remedy)
        is_marked = self._marker.is_file() and not self._marker.is_symlink()
        if not is_marked:
            if self._root.is_dir() and any(self._root.iterdir()):
                problem = f"folder {str(self._root)!r} is not empty, and no earlier export wrote it"
                raise UsageError(problem, remedy=remedy)
            return set()
        with self._marker.open(encoding="utf-8", errors="replace") as stream:
            lines = stream.read(_MOST_BYTES).split("\n")
        # A changed list cannot name files outside the folder.
        return {line for line in lines[1:] if _NAME.fullmatch(line)}


@contextmanager
def _translated(root: Path) -> Iterator[None]:
    """Translate errors of the operating system into errors of the folder."""
    try:
        yield
    except OSError as error:
        why = (error.strerror or "cannot be written").lower()
        remedy = "make room or use another folder"
        raise StorageError(f"the export cannot be written to {str(root)!r}: {why}", remedy=remedy) from error
