"""Let an agent keep notes: the SDK's memory tool over the agent's own memory items."""

from __future__ import annotations

import os
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from esper_agents.certificates.redaction import redacted, secrets_of
from esper_agents.domain.evidence import Risk
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAsyncAbstractMemoryTool
    from anthropic.types import beta

    from esper_agents.memory.agent_files import OwnFiles

_ROOT = "/memories"
_WANTS = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


@tool(
    "memory",
    risk=Risk.LOW,
    repeatable=False,
    rerun=lambda arguments: (
        f"esper memory search {quote(str(arguments.get('path') or arguments.get('new_path') or ''))}"
    ),
)
async def memory(  # noqa: PLR0913, PLR0917 - as the SDK's own memory tool is called
    context: ToolContext,
    command: Literal["view", "create", "str_replace", "insert", "delete", "rename"],
    path: str | None = None,
    view_range: list[int] | None = None,
    file_text: str | None = None,
    old_str: str | None = None,
    new_str: str | None = None,
    insert_line: int | None = None,
    insert_text: str | None = None,
    old_path: str | None = None,
    new_path: str | None = None,
) -> ToolResult:
    """Read and change your own files under /memories, which persist across sessions of the project.

    Notes left for you by certificates and users are in /memories/kept, which is read-only.

    Args:
        context: The memory of the agent.
        command: The operation.
        path: The file; for `view` and `delete` also a folder.
        view_range: For `view`: first and last line.
        file_text: For `create`: the whole content of the file.
        old_str: For `str_replace`: the text to replace; it must occur once.
        new_str: For `str_replace`: the new text.
        insert_line: For `insert`: line after which to insert; 0 is the beginning.
        insert_text: For `insert`: the text to insert.
        old_path: For `rename`: the existing file.
        new_path: For `rename`: the new name.
    """
    if context.memory is None:
        raise EvidenceError("no memory is available here", remedy="call it within a session of the project")
    given: dict[str, Any] = {
        "path": path if path is not None or command != "view" else _ROOT,
        "view_range": view_range,
        "file_text": file_text,
        "old_str": old_str,
        "new_str": "" if new_str is None and command == "str_replace" else new_str,
        "insert_line": insert_line,
        "insert_text": insert_text,
        "old_path": old_path,
        "new_path": new_path,
    }
    if lacking := [name for name in _WANTS[command] if given[name] is None]:
        raise UsageError(f"memory {command} lacks {lacking[0]}", remedy=f"give {', '.join(_WANTS[command])}")
    asked = {name: each for name, each in given.items() if each is not None}
    clean = redacted(asked, known=secrets_of(os.environ)).value
    said = str(await _commands(context.memory).call({"command": command, **clean}))
    return ToolResult(f"memory: {command} {new_path or given['path']}", {"said": said})


def _commands(files: OwnFiles) -> BetaAsyncAbstractMemoryTool:
    from anthropic.lib.tools import BetaAsyncAbstractMemoryTool

    class Notes(BetaAsyncAbstractMemoryTool):
        async def view(self, command: beta.BetaMemoryTool20250818ViewCommand) -> str:
            return await files.view(command.path, command.view_range)

        async def create(self, command: beta.BetaMemoryTool20250818CreateCommand) -> str:
            return await files.create(command.path, command.file_text)

        async def str_replace(self, command: beta.BetaMemoryTool20250818StrReplaceCommand) -> str:
            return await files.str_replace(command.path, command.old_str, command.new_str)

        async def insert(self, command: beta.BetaMemoryTool20250818InsertCommand) -> str:
            return await files.insert(command.path, command.insert_line, command.insert_text)

        async def delete(self, command: beta.BetaMemoryTool20250818DeleteCommand) -> str:
            return await files.delete(command.path)

        async def rename(self, command: beta.BetaMemoryTool20250818RenameCommand) -> str:
            return await files.rename(command.old_path, command.new_path)

    return Notes()
