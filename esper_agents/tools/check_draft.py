"""Check a drafted patch: run tests, code or a comparison on private copies with the patch."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Any

from esper_agents.domain.evidence import Risk
from esper_agents.errors import UsageError
from esper_agents.tools import run_python, run_tests
from esper_agents.tools.drafts import PATCH_FILE, Draft, load_draft
from esper_agents.tools.lab_pool import LabPool
from esper_agents.tools.measurement_tools import measure, outlined, spec, trimmed
from esper_agents.tools.output_comparison import without
from esper_agents.tools.sandbox_programs import project_copy
from esper_agents.tools.tool import ToolContext, ToolResult, tool
from esper_agents.torchlab.compare.change_control import BaseRevision
from esper_agents.torchlab.interpreter_choice import project_candidates
from esper_agents.torchlab.lab import LabSettings
from esper_agents.torchlab.measurement import measurement

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import Artifact


def _rerun(arguments: JsonObject) -> str:
    """Return commands that apply the patch in a clean checkout and check it there."""
    words = [f"git apply {PATCH_FILE}"]
    if arguments.get("tests"):
        words.append("python -m pytest -q " + " ".join(quote(str(each)) for each in arguments["tests"]))
    if arguments.get("code"):
        words.append(f"python -c {quote(str(arguments['code']))}")
    if arguments.get("compare"):
        words.append(f"esper torch compare {quote(str(arguments['compare']))} --base HEAD")
    return " && ".join(words)


@tool(
    "check-draft",
    risk=Risk.LOW,
    repeatable=True,
    rerun=_rerun,
    comparing=without("tests", "code", "comparison"),
    stoppable=True,
)
async def check_draft(
    context: ToolContext,
    patch: str,
    *,
    tests: list[str] | None = None,
    code: str = "",
    compare: str = "",
    inputs: list[str] | None = None,
    inputs_from: str = "",
    timeout_s: int = 300,
) -> ToolResult:
    """Run tests or code, or compare speed and outputs, on a private copy of the project with a drafted patch.

    The results are about the patch: they neither support nor refute findings about the project as it is.

    Args:
        context: The project.
        patch: Evidence of the draft-patch call, such as e9.
        tests: Test files or folders to run with the patch.
        code: Python script to run with the patch; print the results.
        compare: `FILE.py:NAME` to compare with the patch (candidate) and without it (baseline).
        inputs: Inputs of the comparison such as `randn(32,128)`; if omitted, those that the file makes itself.
        inputs_from: `FILE:FUNCTION` that makes the inputs of the comparison.
        timeout_s: Time limit of tests and code in seconds, up to 600.
    """
    if not (tests or code or compare):
        raise UsageError("nothing to check", remedy="give tests, code or compare")
    draft = await asyncio.to_thread(load_draft, context, patch)
    patched = replace(context, overlay=draft.overlay)
    output: dict[str, Any] = {"patch": patch, "files": sorted(draft.texts)}
    told: list[str] = []
    artifacts: tuple[Artifact, ...] = ()
    if tests:
        ran = await run_tests.run_tests.function(patched, paths=tests, timeout_s=timeout_s)
        failures = [{"place": str(claim.location), "message": claim.message} for claim in ran.claims]
        output["tests"] = {**ran.output, "failures": failures, "with_patch": True}
        told.append(ran.summary)
        artifacts += ran.artifacts
    if code:
        ran = await run_python.run_python.function(patched, code=code, timeout_s=timeout_s)
        output["code"] = {**ran.output, "with_patch": True}
        told.append(ran.summary)
        artifacts += ran.artifacts
    if compare:
        compared = await _compared(context, draft, compare, inputs, inputs_from)
        output["comparison"] = {**compared.output, "with_patch": True}
        told.append(compared.summary)
        artifacts += compared.artifacts
    return ToolResult(f"with the patch: {'; '.join(told)}", output, artifacts=artifacts)


async def _compared(
    context: ToolContext, draft: Draft, target: str, inputs: list[str] | None, inputs_from: str
) -> ToolResult:
    """Compare a target in a copy with the patch with the same target in a copy without it."""
    about = measurement("compare")
    wanted = spec(target, inputs, inputs_from)
    python = await asyncio.to_thread(_interpreter, context.root)
    async with project_copy(context) as before, project_copy(replace(context, overlay=draft.overlay)) as after:
        file = target.rpartition(":")[0]
        others = tuple(text for text in sorted(draft.texts) if text != file)
        base = BaseRevision(before, "", file in draft.texts, others)
        options = about.options(baseline=target, found=base)
        bench = LabPool(after, LabSettings(python=python))
        try:
            copied = replace(context, root=after, bench=bench)
            found = await measure(copied, [target], lambda lab: about.run(lab, wanted, options, None), roots=(before,))
        finally:
            await bench.close()
    result, subject = about.parsed(found.report), found.report.subject
    outline = about.outline(subject.title, result)
    facts = {name: trimmed(each) for name, each in outline.facts.items()}
    output = outlined(found.report, witnesses=outline.witnesses, only=outline.parts, **facts)
    return ToolResult(outline.said, output, artifacts=found.artifacts)


def _interpreter(root: Path) -> str | None:
    """Return the project's interpreter with torch, as measurements of the project choose it."""
    return next(
        (project_candidate.python for project_candidate in project_candidates(root) if not project_candidate.problem),
        None,
    )
