"""Names that tools have in Claude Code with the server of `esper mcp`, by `claude_code.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# Claude Code's prefix for the tools of the server `esper` in the plugin `esper`.
PREFIX = "mcp__plugin_esper_esper__"
# Tools of the server that every agent has: they make its judgement a certificate.
CERTIFYING = (
    *("submit_task", "submit_claim", "get_session"),
    *("pending_questions", "show_certificate", "verify_certificate"),
)


def client_tools(names: Iterable[str]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the tools of Claude Code and of the server that stand for native ones.

    Args:
        names: Names of native tools.

    Returns:
        The tools of Claude Code, and those of the server by the native name.
    """
    known = tuple(names)
    clients = dict.fromkeys(tool for name in known for tool in _table("client").get(name, ()))
    servers = {name: tuple(_table("server")[name]) for name in known if name in _table("server")}
    return tuple(clients), servers


def native_tools() -> dict[str, str]:
    """Return the native tool for each tool of the server that has one, by its name in Claude Code."""
    return {f"{PREFIX}{tool}": name for name, tools in _table("server").items() for tool in tools}


@cache
def _table(name: str) -> dict[str, list[str]]:
    text = Path(__file__).with_name("claude_code.toml").read_text(encoding="utf-8")
    table: dict[str, Any] = tomllib.loads(text)[name]
    return table
