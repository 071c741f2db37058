"""An agent of your own, with a tool of its own: `python own_agent.py TRAIN.py`."""

import sys
from pathlib import Path
from shlex import quote

from esper_agents.api import Conclude, Risk, ToolCall, ToolResult, CallTools, open_project_sync, source_file, tool


@tool("find-seeds", risk=Risk.LOW, repeatable=True, rerun=lambda call: f"grep -n manual_seed {quote(call['path'])}")
async def find_seeds(context, path: str):
    """Find where a script fixes its seeds.

    Args:
        path: The script, relative to the project.
    """
    data = context.read(path)
    lines = [number for number, line in enumerate(data.splitlines(), 1) if b"manual_seed" in line]
    return ToolResult(f"seeds are fixed on lines {lines}", {"lines": lines}, examined=(source_file(path, data),))


def play(brief):
    reports = yield CallTools(tuple(ToolCall("find-seeds", {"path": path}) for path in brief.task.paths))
    missing = [report.evidence.summary for report in reports if not report.evidence.output["lines"]]
    return Conclude("every script fixes its seed" if not missing else "a script fixes no seed", conditions=tuple(missing))


mine = {"tools": [find_seeds], "playbooks": {"seed-auditor": play}, "agents": [Path(__file__).parent]}
with open_project_sync(sys.argv[1], **mine) as project:
    task = project.tasks.create("review whether this run is reproducible", sys.argv[1:], agent="seed-auditor")
    outcome = project.tasks.submit(task).run()
    print(project.certificates.markdown(outcome.certificate.id))
