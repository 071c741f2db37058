"""Load the text of a skill or of one of its reference sheets, as evidence of the guidance used."""

from __future__ import annotations

import asyncio
from shlex import join
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.errors import EvidenceError
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

_MOST_LINES = 400
_MOST_CHARACTERS = 40_000


def _rerun(arguments: JsonObject) -> str:
    names = [str(arguments["name"]), str(arguments.get("sheet", ""))]
    return join(["esper", "skills", "show", *(name for name in names if name)])


@tool("load-skill", risk=Risk.LOW, repeatable=True, concurrent=True, rerun=_rerun)
async def load_skill(context: ToolContext, name: str, sheet: str = "", first_line: int = 1) -> ToolResult:
    """Load the text of a skill: guidance on a kind of work, to be read before that work. At most 400 lines.

    Args:
        context: The skills that may be loaded.
        name: The skill's name, or words about its purpose.
        sheet: Name of one of its reference sheets; empty for the skill's main text, which lists the sheets.
        first_line: Line, from 1; longer texts are read in parts.
    """
    if context.skills is None:
        raise EvidenceError("no skills are available", remedy="continue without them")
    found = await asyncio.to_thread(context.skills, name, sheet)
    lines = found.text.splitlines()
    first = max(1, first_line)
    shown = "\n".join(lines[first - 1 : first - 1 + _MOST_LINES])[:_MOST_CHARACTERS]
    last = first - 1 + len(shown.splitlines())
    output: JsonObject = {
        "skill": found.skill,
        "sheet": found.sheet,
        "path": found.path,
        "sha256": found.sha256,
        "first_line": first,
        "last_line": last,
        "lines": len(lines),
        "text": shown,
    }
    whole = "" if (first, last) == (1, len(lines)) else f", lines {first}-{last} of {len(lines)}"
    return ToolResult(f"{found.path}{whole}", output)
