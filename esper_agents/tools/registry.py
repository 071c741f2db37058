"""Registry of tools: files of this package, entry points of other packages, and registered tools."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import esper_agents.tools
from esper_agents.errors import DefinitionError, NotFoundError, UsageError
from esper_agents.extensions import extension_points, load_extension
from esper_agents.tools.tool import Tool
from esper_agents.tools.tool_names import OfferedTools, resolve_tools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from esper_agents.extensions import Extension

_GROUP = "esper_agents.tools"


@dataclass(frozen=True, slots=True)
class ToolRegistry:
    """Registered tools.

    Attributes:
        tools: Tools by name.
        refused: Reasons that tools of other packages cannot be used; all others can.
    """

    tools: Mapping[str, Tool]
    refused: tuple[DefinitionError, ...] = ()

    def get(self, name: str) -> Tool:
        """Return a tool.

        Raises:
            NotFoundError: No tool has that name.
        """
        if found := self.tools.get(name):
            return found
        raise NotFoundError("tool", name, self.tools, listing="esper agents show AGENT")

    def named(self, names: Iterable[str] | None) -> tuple[Tool, ...]:
        """Return the tools that the names resolve to, sorted by name; all tools for None."""
        return tuple(self.tools[name] for name in self.offered(names).tools)

    def offered(self, names: Iterable[str] | None) -> OfferedTools:
        """Return the tools that a definition's names resolve to, and those unavailable with the reasons."""
        return resolve_tools(names, self.tools)


def load_tools(extra: Iterable[Tool] = ()) -> ToolRegistry:
    """Find every tool. An unusable tool of another package is refused, without affecting the others.

    Args:
        extra: Tools that a program registers itself.

    Raises:
        UsageError: Two tools share a name.
    """
    found: dict[str, Tool] = {}
    refused: list[DefinitionError] = []
    for each in (*_ours(), *_installed(refused), *extra):
        if each.name in found:
            raise UsageError(f"two tools are named {each.name!r}", remedy="rename one of them")
        found[each.name] = each
    return ToolRegistry(found, tuple(refused))


def _ours() -> Iterator[Tool]:
    provider = f"esper-agents {version('esper-agents')}"
    for module in pkgutil.iter_modules(esper_agents.tools.__path__):
        for thing in vars(importlib.import_module(f"esper_agents.tools.{module.name}")).values():
            if isinstance(thing, Tool):
                yield replace(thing, provider=provider)


def _installed(refused: list[DefinitionError]) -> Iterator[Tool]:
    for point in extension_points(_GROUP):
        try:
            yield _tool_of(load_extension(point))
        except DefinitionError as error:
            refused.append(error)


def _tool_of(found: Extension) -> Tool:
    if not isinstance(found.thing, Tool):
        raise DefinitionError(found.where, "is not a tool", remedy="name a tool made by `esper_agents.api.tool`")
    return replace(found.thing, provider=found.provider_of(found.thing.function))
