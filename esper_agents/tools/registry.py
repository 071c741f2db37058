"""All tools there are: the files beside this one, other packages' entry points, and those a program registers."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import esper_agents.tools
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.extensions import extensions
from esper_agents.tools.names import Offered, offered
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
        """Return the tools that those names come to, in order of name; all of them for None."""
        return tuple(self.tools[name] for name in self.offered(names).tools)

    def offered(self, names: Iterable[str] | None) -> Offered:
        """Return what the tools that a definition names come to, with what cannot be offered and why."""
        return offered(names, self.tools)


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
    for found in extensions(_GROUP):
        if isinstance(found.thing, Tool):
            yield replace(found.thing, provider=found.provider_of(found.thing.function))
