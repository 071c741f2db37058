"""Names and versions of the runtime environment, read without importing packages."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("esper-agents", "langgraph", "sqlalchemy", "torch")


def environment() -> dict[str, str]:
    """Return names and versions; a package that is not installed has the version `absent`."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        **{name: _version(name) for name in _PACKAGES},
    }


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
