"""Write a whole file of the project, after the user's approval."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.tools.file_edits import changed
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject


def _rerun(arguments: JsonObject) -> str:
    return f"printf %s {quote(str(arguments['content']))} > {quote('./' + str(arguments['path']))}"


@tool("write-file", risk=Risk.MEDIUM, repeatable=False, rerun=_rerun)
async def write_file(context: ToolContext, path: str, content: str) -> ToolResult:
    """Write a whole file of the project, creating its folders; an existing file is replaced.

    Args:
        context: The project.
        path: Relative to the project.
        content: The whole content.
    """
    from anthropic.lib.tools.agent_toolset import beta_write_tool

    return await changed(context, path, beta_write_tool, {"content": content})
