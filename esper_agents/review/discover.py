"""Find the Python files under the paths of a request, in the same order on every machine."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.domain.codec import carried
from esper_agents.errors import InputFileError
from esper_agents.review.source import NOTEBOOK, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Folders of third-party or generated files. Hidden folders are excluded as well.
LEFT_OUT = frozenset({"__pycache__", "build", "node_modules", "site-packages", "venv"})


@dataclass(frozen=True, slots=True)
class DiscoveredFile:
    """One file to read.

    Attributes:
        file: Absolute path.
        path: Relative to the root, with forward slashes.
        is_explicit: Whether the user named the file itself.
    """

    file: Path
    path: str
    is_explicit: bool


def discover(
    root: Path, paths: Sequence[Path], *, notebooks: bool = False, unread: dict[str, Unreadable] | None = None
) -> tuple[DiscoveredFile, ...]:
    """Return the Python files under the paths, sorted by path, without duplicates.

    A directory is walked. Hidden folders, virtual environments, `build`, `node_modules`, `site-packages` and
    `__pycache__` are excluded; links to folders are not followed; links to files are followed only inside
    the root.

    Args:
        root: The project's folder; every path must lie in it.
        paths: Files and directories; a relative one starts at the root.
        notebooks: Whether to include `.ipynb` files.
        unread: Receives the items in directories that cannot be read, by path: folders that cannot be listed,
            special files, and links that are broken or point outside the root.

    Raises:
        InputFileError: A path does not exist, lies outside the root, is not Python source, or contains none.
    """
    root = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow links and change the names people gave
    suffixes = (".py", NOTEBOOK) if notebooks else (".py",)
    found: dict[str, DiscoveredFile] = {}
    for given in paths:
        for candidate in _candidates(root, given, suffixes, {} if unread is None else unread):
            known = found.get(candidate.path)
            if known is None or candidate.is_explicit:
                found[candidate.path] = candidate
    return tuple(found[path] for path in sorted(found))


def python_files(root: Path, *, most: int) -> tuple[str, ...]:
    """Return the Python files and notebooks of a project, relative to it and sorted; at most as many as given."""
    found = islice(_walk(root, root.resolve(), (".py", NOTEBOOK), {}), most)
    return tuple(sorted(carried(file.relative_to(root).as_posix()) for file in found))


def _candidates(
    root: Path, given: Path, suffixes: tuple[str, ...], unread: dict[str, Unreadable]
) -> list[DiscoveredFile]:
    file = Path(os.path.abspath(root / given))  # noqa: PTH100 - as above
    try:
        mode = file.stat().st_mode
    except (OSError, ValueError) as error:
        raise InputFileError(str(given), "no such path", remedy="check the spelling, or run `ls` there") from error
    path = _relative(root, file, given)
    if stat.S_ISDIR(mode):
        problems: dict[Path, str] = {}
        walked = _walk(file, root.resolve(), suffixes, problems)
        inside = [DiscoveredFile(each, _relative(root, each, given), is_explicit=False) for each in walked]
        for at, problem in problems.items():
            shown = carried(_lexical(root, at))
            unread[shown] = Unreadable(shown, problem, "make it readable, or exclude it from the paths", None)
        if not inside and not problems:
            raise InputFileError(
                str(given), "no Python file in this directory", remedy="name the directory that holds the .py files"
            )
        return inside
    if not stat.S_ISREG(mode):
        raise InputFileError(str(given), "not a regular file", remedy="name a .py file or a directory")
    if file.suffix not in suffixes:
        raise InputFileError(str(given), "not a Python source file", remedy=_instead_of(file.suffix))
    return [DiscoveredFile(file, path, is_explicit=True)]


def _instead_of(suffix: str) -> str:
    if suffix == NOTEBOOK:
        return "run `esper review` on it, or `jupyter nbconvert --to script` and name the .py file"
    return "name a file that ends in .py, or a directory"


def _lexical(root: Path, at: Path) -> str:
    """Return a path relative to the root without following links."""
    return Path(os.path.relpath(at, root)).as_posix()


def _relative(root: Path, file: Path, given: Path) -> str:
    if file.is_relative_to(root):
        return file.relative_to(root).as_posix()
    if (real := file.resolve()).is_relative_to(root.resolve()):
        return real.relative_to(root.resolve()).as_posix()
    raise InputFileError(
        str(given), "path outside the project", remedy=f"name a path in {str(root)!r}, or start in its own project"
    )


def _walk(folder: Path, root: Path, suffixes: tuple[str, ...], problems: dict[Path, str]) -> Iterator[Path]:
    """Yield the files in a folder and its folders, in no particular order, and record unreadable entries."""
    folders = [os.fspath(folder)]
    while folders:
        at = folders.pop()
        try:
            with os.scandir(at) as entries:
                found = list(entries)
        except OSError as error:
            problems[Path(at)] = f"folder that cannot be listed: {(error.strerror or 'unknown error').lower()}"
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if not _is_left_out(entry):
                    folders.append(entry.path)
            elif entry.name.endswith(suffixes):
                problem = _why_not_read(entry, root)
                if problem:
                    problems[Path(entry.path)] = problem
                elif problem is not None:
                    yield Path(entry.path)


def _is_left_out(entry: os.DirEntry[str]) -> bool:
    return entry.name.startswith(".") or entry.name in LEFT_OUT or Path(entry.path, "pyvenv.cfg").exists()


def _why_not_read(entry: os.DirEntry[str], root: Path) -> str | None:
    """Return the reason an entry cannot be read; empty if it can, None if it is a link to a folder."""
    try:
        if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(root):
            return "link to a path outside the project"
        if entry.is_dir():
            return None
        if entry.is_symlink() and not Path(entry.path).exists():
            return "broken link"
        return "" if entry.is_file() else "not a regular file"
    except (OSError, RuntimeError):
        return "link that cannot be followed"
