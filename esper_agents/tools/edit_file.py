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
    """Replace a text in a file of the project by another, exactly as it stands there.

    Args:
        context: The project.
        path: Relative to the project.
        old_string: What stands there; it must stand there once.
        new_string: What is to stand there.
        replace_all: Replace it wherever it stands.
    """
    from anthropic.lib.tools.agent_toolset import beta_edit_tool

    if not old_string:
        raise UsageError("the text to replace is empty", remedy="name what stands there, or use write-file")
    texts = {"old_string": old_string, "new_string": new_string, "replace_all": replace_all}
    return await changed(context, path, beta_edit_tool, texts)
