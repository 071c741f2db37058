"""From the paths a person names to the Python files to read, in one order everywhere."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import InputFileError

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


def discover(root: Path, paths: Sequence[Path]) -> tuple[Candidate, ...]:
    """Return the Python files that the paths stand for, sorted by path, each once.

    A directory is walked: hidden folders, virtual environments, `build`, `node_modules`, `site-packages` and
    `__pycache__` are left out, links to folders are not followed, and of links to files only those that stay inside
    the root.

    Args:
        root: The project's folder; every path must lie in it.
        paths: Files and directories; a relative one starts at the root.

    Raises:
        InputFileError: A path does not exist, lies outside the root, is no Python source, or holds none.
    """
    root = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow links and change the names people gave
    found: dict[str, Candidate] = {}
    for given in paths:
        for each in _candidates(root, given):
            known = found.get(each.path)
            if known is None or each.is_explicit:
                found[each.path] = each
    return tuple(found[path] for path in sorted(found))


def _candidates(root: Path, given: Path) -> list[Candidate]:
    file = Path(os.path.abspath(root / given))  # noqa: PTH100 - as above
    try:
        mode = file.stat().st_mode
    except (OSError, ValueError) as error:
        raise InputFileError(str(given), "no such path", remedy="check the spelling, or run `ls` there") from error
    path = _relative(root, file, given)
    if stat.S_ISDIR(mode):
        inside = [
            Candidate(each, _relative(root, each, given), is_explicit=False) for each in _walk(file, root.resolve())
        ]
        if not inside:
            raise InputFileError(
                str(given), "no Python file in this directory", remedy="name the directory that holds the .py files"
            )
        return inside
    if not stat.S_ISREG(mode):
        raise InputFileError(str(given), "no regular file", remedy="name a .py file or a directory")
    if file.suffix != ".py":
        raise InputFileError(str(given), "no Python source", remedy=_instead_of(file.suffix))
    return [Candidate(file, path, is_explicit=True)]


def _instead_of(suffix: str) -> str:
    if suffix == ".ipynb":
        return "run `jupyter nbconvert --to script` on it and name the .py file"
    return "name a file that ends in .py, or a directory"


def _relative(root: Path, file: Path, given: Path) -> str:
    for base, inside in ((root, file), (root.resolve(), file.resolve())):
        if inside.is_relative_to(base):
            return inside.relative_to(base).as_posix()
    raise InputFileError(
        str(given), "path outside the project", remedy=f"name a path in {str(root)!r}, or start in its own project"
    )


def _walk(folder: Path, root: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in ordered:
        if entry.is_dir(follow_symlinks=False):
            if not _is_left_out(entry):
                yield from _walk(Path(entry.path), root)
        elif entry.name.endswith(".py") and _is_readable_file(entry, root):
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
