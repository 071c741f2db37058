"""Extras of the distribution: optional packages that some operations need."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache

from esper_agents.errors import UsageError

_DISTRIBUTION = "esper-agents"
_REQUIREMENT = re.compile(r"([\w.-]+).*;.*\bextra == ['\"]([\w-]+)['\"]")


class Extra(StrEnum):
    """Extra of the distribution, as `pip install 'esper-agents[NAME]'` takes it."""

    AGENTS = "agents"
    FIX = "fix"
    TORCH = "torch"
    POSTGRESQL = "postgresql"
    TRACE = "trace"
    MCP = "mcp"
    WEB = "web"
    RAY = "ray"

    @property
    def install_command(self) -> str:
        """Shell command that installs the extra."""
        return f"pip install '{_DISTRIBUTION}[{self}]'"

    @property
    def purpose(self) -> str:
        """Operation that needs the extra."""
        return _PURPOSES[self]


_PURPOSES = {
    Extra.AGENTS: "running agents",
    Extra.FIX: "fixing code",
    Extra.TORCH: "measuring code",
    Extra.POSTGRESQL: "using a PostgreSQL database",
    Extra.TRACE: "exporting spans",
    Extra.MCP: "serving coding agents",
    Extra.WEB: "showing the archive in the browser",
    Extra.RAY: "working on a Ray cluster",
}


class MissingExtraError(UsageError):
    """An operation needs an extra that is not installed.

    Attributes:
        extra: The extra.
    """

    def __init__(self, extra: Extra) -> None:
        problem = f"{extra.purpose} needs the extra {extra.value!r}, which is not installed"
        super().__init__(problem, remedy=extra.install_command)
        self.extra = extra


def require_extra(extra: Extra) -> None:
    """Raise an error if an extra is not installed; imports nothing of it.

    Raises:
        MissingExtraError: A package of the extra is not installed.
    """
    if not is_installed(extra):
        raise MissingExtraError(extra)


def is_installed(extra: Extra) -> bool:
    """Return whether all packages of an extra are installed, of any version."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        for name in _packages().get(extra, ()):
            distribution(name)
    except PackageNotFoundError:
        return False
    return True


@cache
def _packages() -> dict[str, tuple[str, ...]]:
    """Return the packages of each extra, as this distribution declares them; empty if it is not installed."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:
        return {}
    found = [match.groups() for line in lines if (match := _REQUIREMENT.match(line))]
    return {extra: tuple(name for name, of in found if of == extra) for _, extra in found}
