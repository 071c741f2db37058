"""Runs the project's own tests, which runs code of the project without a sandbox: a person must agree first."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk, source_file
from esper_agents.domain.finding import Category, Claim, Confidence, Location, Severity, fingerprint
from esper_agents.errors import EvidenceError
from esper_agents.review.discover import discover
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import SourceFile

_MOST_OUTPUT = 8_000
# What pytest exits with when it ran tests: all passed, or some failed.
_RAN = (0, 1)
# Nothing of these may reach code that nobody has confined.
_SECRETS = re.compile(r"ANTHROPIC_|ESPER_|AWS_|.*(TOKEN|SECRET|PASSWORD|CREDENTIAL|API_?KEY)", re.IGNORECASE)
_TEST_FILE = re.compile(r"test_.*\.py|.*_test\.py")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (?P<path>[^\s:]+\.py)(?:::(?P<test>\S+))?(?: - (?P<why>.*))?$", re.MULTILINE)


def _rerun(arguments: JsonObject) -> str:
    return "python -m pytest -q -p no:cacheprovider " + " ".join(quote(str(each)) for each in arguments["paths"])


@tool("run-tests", risk=Risk.MEDIUM, repeatable=False, rerun=_rerun)
async def run_tests(context: ToolContext, paths: list[str], timeout_s: int = 600) -> ToolResult:
    """Run pytest on paths of the project, with the project's code running unconfined; each failed test is a finding.

    Args:
        context: The project.
        paths: Files or folders, relative to the project.
        timeout_s: Seconds after which the tests are stopped.
    """
    for path in paths:
        context.inside(path)
    exit_code, said = await _pytest(context, paths, timeout_s)
    if exit_code not in _RAN:
        why = "found no tests" if exit_code == 5 else f"exited with {exit_code}"  # noqa: PLR2004 - pytest's own
        raise EvidenceError(f"pytest {why} in {', '.join(paths)}", remedy=_rerun({"paths": paths}))
    examined = tuple(_examined(context, paths, said))
    last = said.strip().splitlines()[-1] if said.strip() else "no output"
    output = {"exit_code": exit_code, "output": said[-_MOST_OUTPUT:]}
    return ToolResult(f"tests: {last.strip('= ')}", output, tuple(_claims(context, said)), examined)


async def _pytest(context: ToolContext, paths: list[str], timeout_s: int) -> tuple[int, str]:
    python = shutil.which("python") or sys.executable
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "--color=no", "--", *paths),
        cwd=context.root,
        env={name: text for name, text in os.environ.items() if not _SECRETS.match(name)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError as error:
        raise EvidenceError(f"the tests ran over {timeout_s} s", remedy="name fewer tests") from error
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return process.returncode or 0, said.decode("utf-8", "replace")


def _examined(context: ToolContext, paths: list[str], said: str) -> Iterator[SourceFile]:
    """Yield the test files that pytest takes by their names, and those that it named: they are what was run."""
    candidates = discover(context.root, [context.inside(path) for path in paths])
    ran = {each.path for each in candidates if each.is_explicit or _TEST_FILE.fullmatch(each.file.name)}
    for path in sorted(ran | {found["path"] for found in _FAILED.finditer(said)}):
        yield source_file(path, context.inside(path).read_bytes())


def _claims(context: ToolContext, said: str) -> Iterator[Claim]:
    for found in _FAILED.finditer(said):
        path, test, why = found["path"], found["test"] or "", found["why"] or "it does not even start"
        lines = context.inside(path).read_text(encoding="utf-8", errors="replace").splitlines()
        name = test.partition("[")[0].rpartition("::")[2]
        line = next((n for n, text in enumerate(lines, 1) if name and f"def {name}(" in text), 1)
        yield Claim(
            rule="TESTS",
            name="test-fails",
            severity=Severity.CRITICAL,
            category=Category.CORRECTNESS,
            location=Location(path, line, 1, line),
            message=f"the test {test or path} fails: {why}",
            remedy=f"run python -m pytest {quote(path)} and mend what it shows",
            confidence=Confidence.HIGH,
            basis="it was run",
            excerpt=lines[line - 1] if lines else "",
            fingerprint=fingerprint("TESTS", path, test, 0),
        )
