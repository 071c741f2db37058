"""Tools as a model sees them: those of its role in full, all others it may call in one line each."""

from __future__ import annotations

import json
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from esper_agents.reasoning.action_schema import move_tools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.agent_action import ToolUse
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.frame import Brief

# General tool that calls the tools with one line.
CALL_TOOL = "call_tool"
# Limit of the descriptions in full, as JSON; the tools that a definition names first are described first.
_MOST_BYTES = 1_600
# Order for agents whose definition names no tools.
_USUAL = ("read-file", "search-code", "static-review", "find-files", "run-python", "run-tests", "edit-file", "shell")
_LONGEST = 56


def tools_of(brief: Brief) -> list[dict[str, Any]]:
    """Return the tools that the agent may call and its actions in the format of the Messages API, in a fixed order."""
    full, listed = _parted(brief)
    general = [_call_tool(listed)] if listed else []
    return [*map(_described, full), *general, *(dict(move_tool) for move_tool in move_tools())]


def _parted(brief: Brief) -> tuple[tuple[ToolUse, ...], tuple[ToolUse, ...]]:
    """Return the tools to describe in full, and the others."""
    names = brief.agent.tools if brief.agent.tools is not None else _USUAL
    place = {name: number for number, name in enumerate(names)}
    # Every agent reads.
    place["read-file"] = -1
    uses = sorted((tool.use for tool in brief.tools), key=lambda use: (place.get(use.name, len(place)), use.name))
    full: list[ToolUse] = []
    left = _MOST_BYTES
    for use in uses:
        size = len(json.dumps(_described(use), ensure_ascii=False).encode())
        if size <= left:
            full.append(use)
            left -= size
    return tuple(full), tuple(use for use in uses if use not in full)


def _described(use: ToolUse) -> dict[str, Any]:
    repeat = "" if use.is_repeatable else " It is never run twice."
    described = f"{use.description}\n\nRisk: {use.risk}.{repeat}"
    return {"name": use.name, "description": described, "input_schema": dict(use.schema)}


def _call_tool(listed: Sequence[ToolUse]) -> dict[str, Any]:
    lines = "\n".join(map(tool_line, sorted(listed, key=lambda use: use.name)))
    properties = {"name": {"type": "string"}, "arguments": {"type": "object"}}
    return {
        "name": CALL_TOOL,
        "description": f"Call one of these tools by its name and arguments; those in brackets are optional.\n{lines}",
        "input_schema": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
    }


def tool_line(use: ToolUse) -> str:
    """Return a tool in one line: its name, its arguments and the first sentence of its description."""
    sentence = " ".join(use.description.split()).partition(". ")[0].rstrip(".")
    first = shorten(sentence, _LONGEST, placeholder=" ...")
    risk = "" if use.risk == "low" else f" (risk {use.risk})"
    return f"- {use.name}({_arguments(use.schema)}): {first}{risk}"


def _arguments(schema: JsonObject) -> str:
    """Return the arguments of a tool, the optional ones in brackets with their defaults."""
    required, optional = [], []
    for name, member in schema.get("properties", {}).items():
        kind, default = member.get("type", ""), member.get("default")
        if name in schema.get("required", ()):
            required.append(name if kind in {"string", ""} else f"{name}: {'list' if kind == 'array' else kind}")
        else:
            optional.append(f"{name}={default}" if default else name)
    return ", ".join((*required, *([f"[{', '.join(optional)}]"] if optional else [])))


def called_tool(name: str, given: Any) -> tuple[str, Any, str]:
    """Return the tool and the arguments that a call means, and the fault of a call of the general tool.

    Args:
        name: Name of the called tool.
        given: Its arguments.
    """
    if name != CALL_TOOL:
        return name, given, ""
    called, arguments = (given.get(each) for each in ("name", "arguments")) if isinstance(given, dict) else (None, None)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = None
    if not isinstance(called, str) or not isinstance(arguments, dict):
        return CALL_TOOL, {}, f"{CALL_TOOL} needs `name`, the name of a tool, and `arguments`, an object"
    return called, arguments, ""
