"""Evidence of a call, from the result of its tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.evidence import CallOutcome, Evidence, Risk

if TYPE_CHECKING:
    from esper_agents.tools.tool import ToolResult


def evidence_with(result: ToolResult, name: str = "a-tool", identifier: str = "ev_" + "0" * 32) -> Evidence:
    """Return the evidence of a completed call that had a result."""
    return Evidence(
        id=identifier,
        tool=name,
        provider="tests 1",
        risk=Risk.LOW,
        is_repeatable=True,
        arguments={},
        arguments_sha256="",
        outcome=CallOutcome.COMPLETED,
        summary=result.summary,
        output=result.output,
        output_sha256="",
        examined=result.examined,
        artifacts=result.artifacts,
        started_at="2026-01-01T00:00:00.000Z",
        duration_ns=1,
        rerun="",
    )
