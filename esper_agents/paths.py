"""Locations of the data directory and of the packaged data folders."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path

# Folder of a project for published certificates and memory documents.
PUBLISHED = "docs/ai/agents"
# Folder of a project for harnesses that measurements write.
HARNESS_FOLDER = ".esper/harness"
# Suffix of published signed envelopes.
RECORD_SUFFIX = ".dsse.json"
# Folder of published public keys, among those of agents, whose names may not be this one.
PUBLISHED_KEYS = "keys"
# Folder of published checkpoints with their cosignatures, also among those of agents.
PUBLISHED_LOGS = "logs"
# File that keeps diffs of published files quiet.
GIT_ATTRIBUTES = ".gitattributes"
_PUBLISHED_SUFFIXES = (GIT_ATTRIBUTES, ".pub", ".md", ".html", RECORD_SUFFIX, ".notice.json", ".tlog-proof")
_LOG_SUFFIXES = (".request", ".checkpoint")
_PROJECT_KEY = re.compile(r"[A-Za-z0-9._-]{1,60}-[0-9a-f]{12}")
_PACKAGE = Path(__file__).resolve().parent


def is_published(path: str) -> bool:
    """Return whether a path of a project is a published certificate or document: never code or settings.

    Args:
        path: Relative to the project, or the folder itself.
    """
    inside = path.startswith(f"{PUBLISHED}/") and path.endswith(_PUBLISHED_SUFFIXES)
    of_log = path.startswith(f"{PUBLISHED}/{PUBLISHED_LOGS}/") and path.endswith(_LOG_SUFFIXES)
    return inside or of_log or path == PUBLISHED


@cache
def data_folder(name: str) -> Path:
    """Return a packaged data folder: from the wheel if installed, else from the checkout.

    Args:
        name: `prompts`, `certificates`, `memory`, `web` or `alembic`.
    """
    packed = _PACKAGE / "_data" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name


def home() -> Path:
    """Return the data directory, which contains all files that the program writes; `ESPER_HOME` overrides it.

    It is `esper-agents` in `$XDG_DATA_HOME`, else in the folder of the platform for data of users.
    """
    if moved := os.environ.get("ESPER_HOME"):
        return Path(moved).expanduser().absolute()
    base = os.environ.get("XDG_DATA_HOME", "").strip()
    if not os.path.isabs(base):  # noqa: PTH117 - the specification ignores a relative path
        base = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    return Path(base).expanduser() / "esper-agents"


def project_key(root: Path) -> str:
    """Return the key of a project: that of its path, or of the checkout that the user joined it with."""
    own = key_of_path(root)
    try:
        joined = joined_file(own).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return own
    return joined if _PROJECT_KEY.fullmatch(joined) else own


def joined_file(own_key: str) -> Path:
    """Return the file that names the project of another checkout, by the key of the path of this one."""
    return home() / "checkouts" / own_key


def key_of_path(root: Path) -> str:
    """Return the name of the folder of a project: its folder name, and a digest of its path."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", root.name)[:40] or "root"
    return f"{name}-{sha256(str(root).encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def project_home(key: str) -> Path:
    """Return the folder in the data directory for one project.

    Args:
        key: `domain.project.Project.key`.
    """
    return home() / "projects" / key
