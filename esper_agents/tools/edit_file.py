"""Replace a text in a file of the project, after the user's approval."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.errors import UsageError
from esper_agents.tools.file_edits import changed
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

_PROGRAM = (
    "import sys, pathlib; f = pathlib.Path(sys.argv[1]); "
    "f.write_bytes(f.read_bytes().replace(sys.argv[2].encode(), sys.argv[3].encode()))"
)


def _rerun(arguments: JsonObject) -> str:
    texts = (str(arguments[name]) for name in ("path", "old_string", "new_string"))
    return " ".join(("python", "-c", quote(_PROGRAM), *map(quote, texts)))


@tool("edit-file", risk=Risk.MEDIUM, repeatable=False, rerun=_rerun)
async def edit_file(
    context: ToolContext, path: str, old_string: str, new_string: str, *, replace_all: bool = False
) -> ToolResult:
    """Replace a text in a file of the project, exactly as it occurs there.

    Args:
        context: The project.
        path: Relative to the project.
        old_string: Text to replace; it must occur exactly once.
        new_string: New text.
        replace_all: Replace every occurrence.
    """
    from anthropic.lib.tools.agent_toolset import beta_edit_tool

    if not old_string:
        raise UsageError("the text to replace is empty", remedy="give the text to replace, or use write-file")
    texts = {"old_string": old_string, "new_string": new_string, "replace_all": replace_all}
    return await changed(context, path, beta_edit_tool, texts)
