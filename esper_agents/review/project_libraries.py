"""Library files of a project: `[tool.esper.review] libraries` in its `pyproject.toml`."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST_BYTES = 1_000_000


def library_files(root: Path) -> tuple[Path, ...]:
    """Return the library files that a project names; a `pyproject.toml` that cannot be read names none.

    Args:
        root: The project's folder.

    Raises:
        UsageError: If the setting is not a list of files in the project, or one of them is not valid.
    """
    named = _named(root / "pyproject.toml")
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise UsageError(
            "'libraries' of [tool.esper.review] in pyproject.toml is not a list of file names",
            remedy='write libraries = ["libraries.toml"]',
        )
    files = tuple(_inside(root, name) for name in named)
    if files:
        from esper_agents.review.model.libraries import LibraryKnowledge

        LibraryKnowledge(files)
    return files


def _named(file: Path) -> object:
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            return []
        table: Any = tomllib.loads(file.read_text(encoding="utf-8"))
        for key in ("tool", "esper", "review"):
            table = table.get(key, {})
        return table.get("libraries", [])
    except (OSError, ValueError, AttributeError, RecursionError):
        return []


def _inside(root: Path, name: str) -> Path:
    """Return a file of the project.

    Raises:
        UsageError: If there is no such file, it is too large, or a link or `..` leads out of the project.
    """
    problem, file = "", root / name
    try:
        if not file.resolve().is_relative_to(root.resolve()):
            problem = "is not in the project"
        elif not file.is_file():
            problem = "does not exist"
        elif file.stat().st_size > _LARGEST_BYTES:
            problem = f"is larger than {_LARGEST_BYTES:,} bytes"
    except (OSError, ValueError):
        problem = "cannot be read"
    if problem:
        raise UsageError(
            f"library file {name!r} of pyproject.toml {problem}",
            remedy="correct 'libraries' of [tool.esper.review] in pyproject.toml",
        )
    return file
