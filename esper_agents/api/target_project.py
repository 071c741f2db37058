"""Project of a measurement target, and file names relative to it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from esper_agents.errors import InputFileError, UsageError
from esper_agents.paths import project_home


@dataclass(frozen=True, slots=True)
class TargetProject:
    """Project of a measurement target.

    Attributes:
        root: Project directory.
        home: Data directory of the project.
        here: Directory that relative paths start from.
        target: Target with its file relative to the root.
    """

    root: Path
    home: Path
    here: Path
    target: str

    def inside(self, name: str) -> str:
        """Return `FILE`, `FILE:NAME`, `FILE::TEST` or `FILE ARGUMENTS` with the file relative to the project's root.

        `package.module:NAME` stays as it is.

        Raises:
            InputFileError: The file does not exist.
            UsageError: The file is not in the project.
        """
        where, colon, function = name.rpartition(":")
        if not colon or where.endswith(".py") or not all(map(str.isidentifier, where.split("."))):
            return _named(name, self.root, self.here)
        file = _file_of(where, self.here)
        return _named(f"{file}:{function}", self.root, self.here) if file else name

    def capture_source(self, name: str) -> str:
        """Return the source of captured inputs: the absolute path of a `calls.espb`, or a script as in `inside`.

        Raises:
            InputFileError: The script does not exist.
            UsageError: The script is not in the project.
        """
        from esper_agents.torchlab.capture import SUFFIX

        return str(self.here / name) if name.endswith(SUFFIX) else self.inside(name)


def find_target_project(target: str, here: Path) -> TargetProject:
    """Return the project of a target.

    Args:
        target: `FILE.py:FUNCTION` or `package.module:NAME`, as given by the user.
        here: Current directory.

    Raises:
        InputFileError: The file does not exist.
        UsageError: The text is not a valid target.
    """
    from esper_agents.git.find_project import find_project

    where, colon, name = target.rpartition(":")
    if not colon or not where or not name:
        raise UsageError(f"{target!r} names no target", remedy="write FILE.py:FUNCTION or package.module:Class.method")
    file = _file_of(where, here)
    found = find_project([file] if file else [], here)
    root = Path(found.root)
    shown = _named(f"{file}:{name}", root, here) if file else target
    return TargetProject(root, project_home(found.key), here, shown)


def current_project(here: Path) -> TargetProject:
    """Return the project of the current directory, for commands without a target."""
    from esper_agents.git.find_project import find_project

    found = find_project([], here)
    return TargetProject(Path(found.root), project_home(found.key), here, "")


def _file_of(where: str, here: Path) -> Path | None:
    """Return the file of a target; None for a module outside the current directory."""
    if where.endswith(".py"):
        return Path(where)
    stem = here.joinpath(*where.split("."))
    return next((each for each in (stem.with_suffix(".py"), stem / "__init__.py") if each.is_file()), None)


def _words(text: str) -> list[str]:
    """Return the words of a command line, such as a script with its arguments.

    Raises:
        UsageError: A quotation is not closed.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a command line: {error}", remedy="close the quotation") from error


def _named(name: str, root: Path, here: Path) -> str:
    where, colon, function = name.partition("::") if "::" in name else name.rpartition(":")
    if not (here / (where if colon else name)).is_file() and len(words := _words(name)) > 1:
        return shlex.join([_named(words[0], root, here), *words[1:]])
    path = here / (where if colon else name)
    if not path.is_file():
        raise InputFileError(where if colon else name, "no such file", remedy="correct the path")
    real = path.resolve()
    if not real.is_relative_to(root):
        raise UsageError(
            f"{str(path)!r} is not in the project {str(root)!r}", remedy="name files of one project, or copy it there"
        )
    return f"{real.relative_to(root).as_posix()}{colon}{function if colon else ''}"
