"""Read-only checks of programs, directories and disk space; loads none of the programs."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

from esper_agents.extras import Extra, is_installed

_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Versions:
    """Installed versions.

    Attributes:
        esper_agents: Version of this program.
        python: Version of Python.
        interpreter: Path of the Python interpreter.
        torch: Version of torch; empty if it is not installed.
        extras: Installed extras of the distribution.
        sandbox: Available sandboxes for user code.
        git: Version of git; empty if it is not found.
    """

    esper_agents: str
    python: str
    interpreter: str
    torch: str
    extras: tuple[str, ...]
    sandbox: str
    git: str


@dataclass(frozen=True, slots=True)
class Folder:
    """Data directory of a project.

    Attributes:
        path: Path of the directory, which may not exist yet.
        is_writable: Whether files can be written there.
        free_bytes: Free space of its disk in bytes.
    """

    path: str
    is_writable: bool
    free_bytes: int


def find_versions() -> Versions:
    """Return the installed versions."""
    from esper_agents.torchlab.sandbox import available_sandboxes

    return Versions(
        esper_agents=_installed("esper-agents"),
        python=".".join(map(str, sys.version_info[:3])),
        interpreter=sys.executable,
        torch=_installed("torch"),
        extras=tuple(extra.value for extra in Extra if is_installed(extra)),
        sandbox=available_sandboxes(),
        git=_git_version(),
    )


def _installed(distribution: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _git_version() -> str:
    import subprocess

    try:
        done = subprocess.run(["git", "--version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().removeprefix("git version ") if done.returncode == 0 else ""


def look_at_folder(path: Path) -> Folder:
    """Return whether a directory can be written or created, and its free disk space."""
    there = _nearest(path)
    return Folder(str(path), is_writable=_is_writable(there), free_bytes=_free_bytes(there))


def _is_writable(folder: Path) -> bool:
    import tempfile

    try:
        # Permissions do not show a full disk, a quota or a read-only disk; a test write does.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"esper")
    except OSError:
        return False
    return True


def _free_bytes(there: Path) -> int:
    import shutil

    try:
        return shutil.disk_usage(there).free
    except OSError:
        return 0


def _nearest(path: Path) -> Path:
    """Return the path, or its nearest existing parent directory, without raising an error."""
    return next(each for each in (path, *path.parents) if os.path.exists(each) or each == each.parent)  # noqa: PTH110
