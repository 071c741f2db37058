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
    """Run a command line on a copy of the project, confined and without a network; a person is asked each time.

    The working folder is the copy, without secrets, git's own files and what git ignores. What the command writes is
    gone when it ends: print what matters, and change files with edit-file.

    Args:
        context: The project.
        command: What the shell is given.
        timeout_s: Seconds after which it is stopped, up to 600.
        data: Files or folders that git ignores and the command wants to read, if the user named them as paths.
    """
    async with sandbox_copy(context, data or ()) as place:
        argv = [shutil.which("bash") or _PLAIN, "-c", command]
        ran = await run(context, place, argv, timeout_s=timeout_s)
        return told(context, "the command", place, ran)
