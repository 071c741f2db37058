"""Files of a work tree that git tracks or could add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.git.process import git

if TYPE_CHECKING:
    from pathlib import Path

_UNTRACKED = ("ls-files", "-z", "--others", "--exclude-standard")


def listed_files(root: Path, *paths: str) -> list[str] | None:
    """Return the tracked files and the untracked ones that are not ignored; None if git fails.

    Args:
        root: A folder of the work tree; paths are relative to it.
        paths: Pathspecs that limit the result; if omitted, all files of the folder.
    """
    return names_in(git(root, *_UNTRACKED, "--cached", "--", *paths))


def untracked_files(root: Path) -> list[str] | None:
    """Return the untracked files that are not ignored; None if git fails."""
    return names_in(git(root, *_UNTRACKED))


def ignored_files(root: Path, *paths: str) -> list[str] | None:
    """Return the untracked files and whole folders that git ignores; None if git fails."""
    return names_in(git(root, *_UNTRACKED, "--ignored", "--directory", "--", *paths))


def names_in(output: str | None) -> list[str] | None:
    """Return the names that git separated with null bytes; None if it failed."""
    return None if output is None else [each for each in output.split("\0") if each]
