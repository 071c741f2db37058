"""Find the project that the paths of a task belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.codec import carried
from esper_agents.domain.project import Project
from esper_agents.errors import InputFileError, UsageError
from esper_agents.git.process import git, toplevel
from esper_agents.paths import project_key

if TYPE_CHECKING:
    from pathlib import Path


def find_project(paths: list[Path], here: Path) -> Project:
    """Return the project that contains all paths: the git work tree, else the folder.

    Args:
        paths: Paths of a task; if empty, the project of `here`.
        here: The working directory.

    Raises:
        InputFileError: A path does not exist, or its name is not UTF-8.
        UsageError: The paths belong to two projects.
    """
    for path in paths or [here]:
        refuse_unusable(path, here)
    roots: dict[Path, Path] = {}
    repositories: set[Path] = set()
    for path in paths or [here]:
        root, is_repository = _root_of((here / path).resolve(), here.resolve())
        roots[root] = path
        repositories |= {root} if is_repository else set()
    outermost = min(roots, key=lambda each: len(each.parts))
    strangers = [each for each in roots if not each.is_relative_to(outermost)]
    if strangers:
        both = (f"{str(roots[each])!r} to {str(each)!r}" for each in (outermost, strangers[0]))
        raise UsageError(
            f"the paths belong to two projects, {' and '.join(both)}",
            remedy="name paths of one project; submit another task for the other",
        )
    return Project(str(outermost), outermost.name or "/", project_key(outermost), outermost in repositories)


def refuse_unusable(path: Path, here: Path) -> None:
    """Reject a path that no task can use.

    Raises:
        InputFileError: It does not exist, or its name is not UTF-8.
    """
    if not (here / path).exists():
        raise InputFileError(str(path), "no such file or folder", remedy="correct the path")
    if carried(whole := str((here / path).resolve())) != whole:
        raise InputFileError(str(path), "its name is not UTF-8", remedy="rename it, or the folder that is not")


def _root_of(path: Path, here: Path) -> tuple[Path, bool]:
    """Return the project directory of a path, and whether it is a git work tree."""
    folder = path if path.is_dir() else path.parent
    top = toplevel(folder)
    # A package installed in an ignored virtual environment does not belong to the project around it.
    if top is not None and (path == top or git(top, "check-ignore", "-q", str(path)) is None):
        return top, True
    root = here if top is None and path.is_relative_to(here) else folder
    return root, root == top
