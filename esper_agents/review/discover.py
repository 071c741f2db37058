"""From the paths a person names to the Python files to read, in one order everywhere."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import InputFileError
from esper_agents.review.source import NOTEBOOK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Folders that hold what somebody else wrote, or what a program made. Hidden folders are left out as well.
LEFT_OUT = frozenset({"__pycache__", "build", "node_modules", "site-packages", "venv"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file to read.

    Attributes:
        file: Where it is, absolute.
        path: Relative to the root, with forward slashes.
        is_explicit: Whether the person named the file itself.
    """

    file: Path
    path: str
    is_explicit: bool


def discover(root: Path, paths: Sequence[Path], *, notebooks: bool = False) -> tuple[Candidate, ...]:
    """Return the Python files that the paths stand for, sorted by path, each once.

    A directory is walked: hidden folders, virtual environments, `build`, `node_modules`, `site-packages` and
    `__pycache__` are left out, links to folders are not followed, and of links to files only those that stay inside
    the root.

    Args:
        root: The project's folder; every path must lie in it.
        paths: Files and directories; a relative one starts at the root.
        notebooks: Whether `.ipynb` files are wanted as well.

    Raises:
        InputFileError: A path does not exist, lies outside the root, is no Python source, or holds none.
    """
    root = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow links and change the names people gave
    suffixes = (".py", NOTEBOOK) if notebooks else (".py",)
    found: dict[str, Candidate] = {}
    for given in paths:
        for each in _candidates(root, given, suffixes):
            known = found.get(each.path)
            if known is None or each.is_explicit:
                found[each.path] = each
    return tuple(found[path] for path in sorted(found))


def _candidates(root: Path, given: Path, suffixes: tuple[str, ...]) -> list[Candidate]:
    file = Path(os.path.abspath(root / given))  # noqa: PTH100 - as above
    try:
        mode = file.stat().st_mode
    except (OSError, ValueError) as error:
        raise InputFileError(str(given), "no such path", remedy="check the spelling, or run `ls` there") from error
    path = _relative(root, file, given)
    if stat.S_ISDIR(mode):
        walked = _walk(file, root.resolve(), suffixes)
        inside = [Candidate(each, _relative(root, each, given), is_explicit=False) for each in walked]
        if not inside:
            raise InputFileError(
                str(given), "no Python file in this directory", remedy="name the directory that holds the .py files"
            )
        return inside
    if not stat.S_ISREG(mode):
        raise InputFileError(str(given), "no regular file", remedy="name a .py file or a directory")
    if file.suffix not in suffixes:
        raise InputFileError(str(given), "no Python source", remedy=_instead_of(file.suffix))
    return [Candidate(file, path, is_explicit=True)]


def _instead_of(suffix: str) -> str:
    if suffix == NOTEBOOK:
        return "run `esper review` on it, or `jupyter nbconvert --to script` and name the .py file"
    return "name a file that ends in .py, or a directory"


def _relative(root: Path, file: Path, given: Path) -> str:
    if file.is_relative_to(root):
        return file.relative_to(root).as_posix()
    if (real := file.resolve()).is_relative_to(root.resolve()):
        return real.relative_to(root.resolve()).as_posix()
    raise InputFileError(
        str(given), "path outside the project", remedy=f"name a path in {str(root)!r}, or start in its own project"
    )


def _walk(folder: Path, root: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files in a folder and its folders, in no particular order."""
    folders = [os.fspath(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                found = list(entries)
        except OSError:
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if not _is_left_out(entry):
                    folders.append(entry.path)
            elif entry.name.endswith(suffixes) and _is_readable_file(entry, root):
                yield Path(entry.path)


def _is_left_out(entry: os.DirEntry[str]) -> bool:
    return entry.name.startswith(".") or entry.name in LEFT_OUT or Path(entry.path, "pyvenv.cfg").exists()


def _is_readable_file(entry: os.DirEntry[str], root: Path) -> bool:
    try:
        if not entry.is_file():
            return False
        return not entry.is_symlink() or Path(entry.path).resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return False
