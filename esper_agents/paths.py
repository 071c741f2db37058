"""Locations of the data directory and of the packaged data folders."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

# Folder of a project for published certificates and memory documents.
PUBLISHED = "docs/ai/agents"
_PACKAGE = Path(__file__).resolve().parent


@cache
def data_folder(name: str) -> Path:
    """Return a packaged data folder: from the wheel if installed, else from the checkout.

    Args:
        name: `prompts`, `certificates`, `memory` or `alembic`.
    """
    packed = _PACKAGE / "_data" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name


def home() -> Path:
    """Return the data directory, which contains all files that the program writes; `ESPER_HOME` overrides it."""
    from platformdirs import user_data_path

    moved = os.environ.get("ESPER_HOME")
    return Path(moved).expanduser().absolute() if moved else user_data_path("esper-agents", appauthor=False)


def project_home(key: str) -> Path:
    """Return the folder in the data directory for one project.

    Args:
        key: `domain.project.Project.key`.
    """
    return home() / "projects" / key
