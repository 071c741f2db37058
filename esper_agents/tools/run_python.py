"""Run a model's Python code on a copy of the project, in the sandbox."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.tools.model_output import cut, kept_text
from esper_agents.tools.output_comparison import without
from esper_agents.tools.sandbox_programs import ProgramResult, SandboxCopy, run, sandbox_copy
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

_MOST_SHOWN = 10_000
_SNIPPET = "snippet.py"


def _rerun(arguments: JsonObject) -> str:
    return f"python -c {quote(str(arguments['code']))}"


@tool("run-python", risk=Risk.LOW, repeatable=True, rerun=_rerun, comparing=without("sandbox", "python", "files"))
async def run_python(context: ToolContext, code: str, timeout_s: int = 60, data: list[str] | None = None) -> ToolResult:
    """Run Python code with the interpreter of the torch tools on a copy of the project, confined and without a network.

    The working folder is the copy, without secrets and ignored files. Files that the code writes are deleted when it
    ends: print the results.

    Args:
        context: The project.
        code: Script to run; the value of its last expression is not printed automatically.
        timeout_s: Time limit in seconds, up to 600.
        data: Ignored files or folders that the code reads, if the user named them in the task's paths.
    """
    async with sandbox_copy(context, data or ()) as place:
        (place.folder / _SNIPPET).write_text(code, encoding="utf-8")
        argv = [place.python.executable, str(place.folder / _SNIPPET)]
        ran = await run(context, place, argv, timeout_s=timeout_s)
        return told(context, "the code", place, ran)


def told(context: ToolContext, what: str, place: SandboxCopy, ran: ProgramResult) -> ToolResult:
    """Return the outcome of a program as a tool result."""
    kept = kept_text(context, ran.printed, "printed.txt") if len(ran.printed) > _MOST_SHOWN else ()
    output = {
        "exit_code": None if ran.stopped else ran.exit_code,
        "ended": ran.ended,
        "printed": cut(ran.printed, _MOST_SHOWN, kept),
        "dropped_bytes": ran.dropped,
        "files": place.files,
        "python": ".".join(map(str, place.python.version)),
        "sandbox": place.choice.described(),
    }
    last = ran.printed.strip().splitlines()[-1][:200] if ran.printed.strip() else "no output"
    return ToolResult(f"{what} {ran.ended}: {last}", output, artifacts=kept)
