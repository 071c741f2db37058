"""All tools there are: the files beside this one, other packages' entry points, and those a program registers."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, replace
from importlib.metadata import entry_points, version
from typing import TYPE_CHECKING

import esper_agents.tools
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_GROUP = "esper_agents.tools"


@dataclass(frozen=True, slots=True)
class ToolRegistry:
    """The tools there are, by name."""

    tools: Mapping[str, Tool]

    def get(self, name: str) -> Tool:
        """Return a tool.

        Raises:
            NotFoundError: There is none of that name.
        """
        if found := self.tools.get(name):
            return found
        raise NotFoundError("tool", name, self.tools, listing="esper agents show AGENT")

    def named(self, names: Iterable[str] | None) -> tuple[Tool, ...]:
        """Return the tools of those names, in order of name; all of them for None; unknown names left out."""
        wanted = self.tools.keys() if names is None else set(names)
        return tuple(self.tools[name] for name in sorted(self.tools) if name in wanted)


def load_tools(extra: Iterable[Tool] = ()) -> ToolRegistry:
    """Find every tool.

    Args:
        extra: Tools that a program registers itself.

    Raises:
        UsageError: Two tools share a name.
    """
    found: dict[str, Tool] = {}
    for each in (*_ours(), *_installed(), *extra):
        if each.name in found:
            raise UsageError(f"two tools are named {each.name!r}", remedy="rename one of them")
        found[each.name] = each
    return ToolRegistry(found)


def _ours() -> Iterator[Tool]:
    provider = f"esper-agents {version('esper-agents')}"
    for module in pkgutil.iter_modules(esper_agents.tools.__path__):
        for thing in vars(importlib.import_module(f"esper_agents.tools.{module.name}")).values():
            if isinstance(thing, Tool):
                yield replace(thing, provider=provider)


def _installed() -> Iterator[Tool]:
    for point in entry_points(group=_GROUP):
        thing = point.load()
        source = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
        if isinstance(thing, Tool):
            yield replace(thing, provider=source)
