"""Statements of a model that a measurement of the same file contradicts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.paths import HARNESS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Diagnostic


@dataclass(frozen=True, slots=True)
class _Opposite:
    """Statement that results of a tool contradict.

    Attributes:
        claimed: Words of the statement.
        tool: The tool.
        member: Member of its output.
        results: Values of the member that say the opposite.
        needs_input: Whether the fault shows only on some inputs, so that a run on made-up ones contradicts nothing.
    """

    claimed: re.Pattern[str]
    tool: str
    member: str
    results: frozenset[str]
    needs_input: bool = False


def _opposite(words: str, tool: str, member: str, *results: str, needs_input: bool = False) -> _Opposite:
    return _Opposite(re.compile(words, re.IGNORECASE), tool, member, frozenset(results), needs_input)


_OPPOSITES = (
    _opposite(r"\b(?:graph[- ]breaks?|breaks? the graph)\b", "torch-explain", "status", "clean"),
    _opposite(r"\bNaNs?\b|\bInfs?\b|\bnon-?finite\b", "torch-nan", "status", "clean", needs_input=True),
    _opposite(
        r"\bleaks?\b|\bmemory (?:grows|growth)\b|\bgrow\w* memory\b",
        "torch-memory",
        "bytes_per_step",
        "0",
        needs_input=True,
    ),
    _opposite(r"\bfaster\b|\bspeed[- ]?up\b", "torch-compare", "outcome", "not as fast as claimed", "wrong"),
    _opposite(
        r"\b(?:not equivalent|different results|wrong results)\b", "torch-compare", "outcome", "faster as claimed"
    ),
    _opposite(r"\btests? fails?\b|\bfailing tests?\b", "run-tests", "outcome", "passed"),
)
_BEFORE = 20
_DENIED = re.compile(r"\b(?:no|not|never|without|avoids?|prevents?)\b", re.IGNORECASE)


def contradiction(claim: Diagnostic, evidence: Sequence[Evidence]) -> str:
    """Return the measurement that says the opposite of a claim, as a sentence; empty if none does.

    Args:
        claim: Claim of a model.
        evidence: Completed calls of the session.
    """
    text = f"{claim.name.replace('-', ' ')}. {claim.message}"
    for opposite in _OPPOSITES:
        found = opposite.claimed.search(text)
        if found is None or _DENIED.search(text[: found.start()].rpartition(". ")[2][-_BEFORE:]):
            continue
        for call in evidence:
            is_about = any(file.path == claim.location.path for file in call.examined)
            if opposite.needs_input and str(call.arguments.get("target", "")).startswith(f"{HARNESS_FOLDER}/"):
                continue
            if call.tool == opposite.tool and is_about and str(call.output.get(opposite.member)) in opposite.results:
                return f"a measurement says the opposite: {call.summary}"
    return ""
