"""Explain a stack trace or error message with the code that it points at."""

from __future__ import annotations

import asyncio
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.tools.tool import THIS_SESSION, ToolContext, ToolResult, tool
from esper_agents.traces.explain import explain_text

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.traces.explain import TraceExplanation

_RULE = "TRACE"
# A longer text is read again from the session.
_LONGEST_SHOWN = 160


def _rerun(arguments: JsonObject) -> str:
    text = str(arguments["text"])
    if len(text) <= _LONGEST_SHOWN and "\n" not in text and not text.startswith("-"):
        return f"esper explain {quote(text)}"
    return f"esper explain --session {THIS_SESSION}"


@tool("explain-trace", risk=Risk.LOW, repeatable=True, concurrent=True, rerun=_rerun)
async def explain_trace(context: ToolContext, text: str) -> ToolResult:
    """Explain a stack trace or error message: cause, line of the project and fix, without running code.

    Args:
        context: The project.
        text: Text that contains the trace or message, such as a log.
    """
    try:
        explained = await asyncio.to_thread(explain_text, text, context.root)
    except UsageError as error:
        raise EvidenceError(error.problem, remedy=error.remedy) from error
    claim = _claim(context, explained)
    claims = (claim,) if claim is not None else ()
    return ToolResult(explained.answer, _output(explained), claims=claims, examined=explained.examined)


def _output(explained: TraceExplanation) -> JsonObject:
    rerun = {name: text for name, text in (("target", explained.target), ("shape", explained.shape)) if text}
    return {
        **rerun,
        "error": explained.trace.headline[:500],
        "family": explained.family,
        "cause": explained.cause,
        "is_certain": explained.is_certain,
        "answer": explained.answer,
        "fix": explained.fix,
        "why": explained.why,
        "alternatives": list(explained.alternatives),
        "location": str(explained.location) if explained.location else "",
        "also": [str(place) for place in explained.also],
        "frames": list(explained.frames),
        "sources": list(explained.sources),
    }


def _claim(context: ToolContext, explained: TraceExplanation) -> Diagnostic | None:
    """Return the diagnostic at the line of the cause; None without a known error at a line of the project."""
    place = explained.location
    if place is None or not explained.family:
        return None
    lines = context.inside(place.path).read_text(encoding="utf-8", errors="replace").split("\n")
    text = lines[place.line - 1]
    # The finding names its location already.
    message = explained.answer.removeprefix(f"{place}: ").removeprefix(f"{place} ")
    return Diagnostic(
        rule=_RULE,
        name=explained.family,
        severity=Severity.CRITICAL,
        category=Category.CORRECTNESS,
        location=Location(place.path, place.line, 1, place.line),
        message=message,
        remedy=explained.fix or "find out which of the causes it is",
        confidence=Confidence.HIGH if explained.is_certain else Confidence.MODERATE,
        basis="the program failed with this error; message and code name the cause"
        if explained.is_certain
        else "the program failed with this error; its message leaves more than one cause",
        excerpt=text,
        fingerprint=fingerprint(_RULE, place.path, text, 0),
    )
