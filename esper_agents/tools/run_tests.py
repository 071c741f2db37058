"""Runs the project's own tests, which runs code of the project without a sandbox: a person must agree first."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.errors import EvidenceError
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

_MOST_OUTPUT = 8_000
# What pytest exits with when it ran tests: all passed, or some failed.
_RAN = (0, 1)
_SECRETS = ("ANTHROPIC_", "ESPER_", "AWS_", "GITHUB_TOKEN", "HF_TOKEN")


def _rerun(arguments: JsonObject) -> str:
    return f"python -m pytest -q -p no:cacheprovider {quote(str(arguments['path']))}"


@tool("run-tests", risk=Risk.MEDIUM, repeatable=False, rerun=_rerun)
async def run_tests(context: ToolContext, path: str, timeout_s: int = 600) -> ToolResult:
    """Run pytest on a path of the project, with the project's code running unconfined.

    Args:
        context: The project.
        path: File or folder, relative to the project.
        timeout_s: Seconds after which the tests are stopped.
    """
    context.inside(path)
    process = await asyncio.create_subprocess_exec(
        *(shutil.which("python") or sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path),
        cwd=context.root,
        env={name: text for name, text in os.environ.items() if not name.startswith(_SECRETS)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError as error:
        _kill_group(process.pid)
        await process.wait()
        raise EvidenceError(f"the tests of {path!r} ran over {timeout_s} s", remedy="run fewer tests") from error
    text = said.decode("utf-8", "replace")
    if process.returncode not in _RAN:
        raise EvidenceError(
            f"pytest could not run {path!r} and exited with {process.returncode}", remedy=_rerun({"path": path})
        )
    output = {"exit_code": process.returncode, "output": text[-_MOST_OUTPUT:]}
    last = text.strip().splitlines()[-1] if text.strip() else "no output"
    return ToolResult(f"tests of {path}: {last.strip('= ')}", output)


def _kill_group(process_id: int) -> None:
    import signal

    os.killpg(process_id, signal.SIGKILL)
