"""Root of the project that a server serves."""

from __future__ import annotations

from pathlib import Path

from esper_agents.errors import UsageError

_MARKS = (".git", ".esper", "pyproject.toml", "setup.py")


def project_root(path: Path, command: str) -> Path:
    """Return the root of a project.

    Args:
        path: A path in the project.
        command: Name of the command, for the remedy.

    Raises:
        UsageError: The folder is neither in a git work tree nor a Python project.
    """
    from esper_agents.api import current_project

    root = current_project((Path.cwd() / path.expanduser()).resolve()).root
    if any((root / name).exists() for name in _MARKS) or next(root.glob("*.py"), None):
        return root
    raise UsageError(
        f"{str(root)!r} is no project: no git work tree, no pyproject.toml and no Python file",
        remedy=f"name one: esper {command} --project PATH",
    )
