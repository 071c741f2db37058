"""Run a model's command line on a copy of the project, in the sandbox, after the user's approval."""

from __future__ import annotations

import shutil
from shlex import quote

from esper_agents.domain.evidence import Risk
from esper_agents.tools.run_python import told
from esper_agents.tools.sandbox_programs import run, sandbox_copy
from esper_agents.tools.tool import ToolContext, ToolResult, tool

_PLAIN = "/bin/sh"


@tool("shell", risk=Risk.HIGH, repeatable=False, rerun=lambda arguments: f"sh -c {quote(str(arguments['command']))}")
async def shell(context: ToolContext, command: str, timeout_s: int = 120, data: list[str] | None = None) -> ToolResult:
    """Run a command line on a copy of the project, confined and without a network; each call needs the user's approval.

    The working folder is the copy, without secrets, git's own files and ignored files. Files that the command writes
    are deleted when it ends: print the results, and change files with edit-file.

    Args:
        context: The project.
        command: Command line for the shell.
        timeout_s: Time limit in seconds, up to 600.
        data: Ignored files or folders that the command reads, if the user named them as paths.
    """
    async with sandbox_copy(context, data or ()) as place:
        argv = [shutil.which("bash") or _PLAIN, "-c", command]
        ran = await run(context, place, argv, timeout_s=timeout_s)
        return told(context, "the command", place, ran)
