"""Claims of a coding agent: the request that tests one, and what its certificate decides."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import CallOutcome, own_harness
from esper_agents.errors import UsageError
from esper_agents.mcp_server.results import ClaimAnswer, clipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from esper_agents.api import OpenProject
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import Evidence
    from esper_agents.mcp_server.results import SessionAnswer

CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "not decided"
# Agent that tests a kind of claim, its tool, and the code of the finding that confirms it.
_AGENTS = {
    "speedup": "pytorch-ultimate-performance-engineer",
    "leak": "memory-diagnostician",
    "nan": "nan-debugger",
}
_TOOLS = {"speedup": "torch-compare", "leak": "torch-memory", "nan": "torch-nan"}
_FINDINGS = {"leak": "LAB401", "nan": "LAB501"}
_FASTER = "faster as claimed"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_MOST_NAMED = 12
_NOT_SHOWN = frozenset(("not shown", "different results", "error"))


@dataclass(frozen=True, slots=True)
class AgentClaim:
    """Claim that can be tested.

    Attributes:
        kind: speedup, leak or nan.
        text: The claim in words.
        request: Request that tests it.
        agent: Agent for the request.
        target: Target that it is about.
        baseline: Target that it is compared with; empty for none.
        paths: Files of the targets.
    """

    kind: str
    text: str
    request: str
    agent: str
    target: str
    baseline: str
    paths: tuple[str, ...]


def claim_request(
    kind: str, target: str, baseline: str, ratio: float | None, *, inputs: Sequence[str], inputs_from: str
) -> AgentClaim:
    """Return a claim with the request that tests it.

    Raises:
        UsageError: The arguments do not make a claim that can be tested.
    """
    if inputs and inputs_from:
        raise UsageError("inputs and inputs_from are mutually exclusive", remedy="keep one of them")
    if kind == "speedup" and (not baseline or ratio is None):
        raise UsageError(
            "a speedup needs a baseline and a ratio", remedy="name the slower code and a ratio such as 1.4"
        )
    if kind != "speedup" and (baseline or ratio is not None):
        raise UsageError(f"a claim of kind {kind!r} has no baseline and no ratio", remedy="leave them out")
    if inputs and kind != "speedup":
        raise UsageError(f"a claim of kind {kind!r} takes no inputs", remedy="name a harness or inputs_from, or none")
    given = f" on inputs {', '.join(inputs)}" if inputs else f" with inputs from {inputs_from}" if inputs_from else ""
    match kind:
        case "speedup":
            text = f"{target} is {ratio:g}x faster than {baseline}{given}"
            request = f"is {target} at least {ratio:g}x faster than {baseline}{given}?"
        case "leak":
            text = f"{target} leaks memory{given}"
            request = f"{target} leaks memory{given}: why?"
        case _:
            text = f"{target} produces NaN or Inf{given}"
            request = f"why does {target} produce NaN{given}?"
    files = (each.rpartition(":")[0] for each in (target, baseline) if each)
    paths = tuple(dict.fromkeys(file for file in files if file.endswith(".py")))
    return AgentClaim(kind, text, request, _AGENTS[kind], target, baseline, paths)


def refuse_unknown_names(root: Path, targets: Iterable[str]) -> None:
    """Refuse a claim about a name that its file does not have, before a session certifies that nothing was measured.

    Raises:
        UsageError: The file of a target defines and imports no such name.
    """
    for target in targets:
        file, _, name = target.rpartition(":")
        try:
            tree = ast.parse((root / file).read_bytes()) if file.endswith(".py") else None
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if tree is None:
            continue
        defined = [node.name for node in tree.body if isinstance(node, _DEFINITIONS)]
        known = _names_in(tree)
        if "*" not in known and name.partition(".")[0] not in known:
            shown = ", ".join(defined[:_MOST_NAMED]) or "a definition of another file"
            raise UsageError(f"{file} has no {name!r}", remedy=f"name one of: {shown}")


def _names_in(tree: ast.Module) -> set[str]:
    """Return the names that any scope of a module binds; `*` for all names of another module."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


async def claim_answer(opened: OpenProject, claim: AgentClaim, session: SessionAnswer) -> ClaimAnswer:
    """Return what the session decides about a claim."""
    if not session.certificate:
        return ClaimAnswer(claim.text, UNDECIDED, f"the session is {session.state}", session)
    outcome, reason = decided(claim, await opened.certificates.read(session.certificate))
    return ClaimAnswer(claim.text, outcome, clipped(reason), session)


def decided(claim: AgentClaim, certificate: Certificate) -> tuple[str, str]:
    """Return whether the evidence of a certificate confirms or refutes a claim, with the reason.

    Only a completed measurement of the claimed target counts; text decides nothing. A harness that the project has is
    named, because it may run something else.
    """
    outcome, reason = _decided(claim, certificate)
    own = next(filter(None, map(own_harness, certificate.evidence)), "")
    if own and outcome != UNDECIDED:
        reason = f"by the project's own harness {own}, which is not checked: {reason}"
    return outcome, reason


def _decided(claim: AgentClaim, certificate: Certificate) -> tuple[str, str]:
    calls = [
        each for each in certificate.evidence if each.tool == _TOOLS[claim.kind] and _is_about(claim, each, certificate)
    ]
    completed = [call for call in calls if call.outcome is CallOutcome.COMPLETED]
    if not completed:
        failed = [call.summary for call in calls]
        gaps = [f"{gap.what}: {gap.why}" for gap in certificate.gaps]
        return UNDECIDED, next(iter([*failed, *gaps]), f"{claim.target} was not measured")
    last = completed[-1]
    if claim.kind == "speedup":
        outcome = str(last.output.get("outcome", ""))
        if outcome == _FASTER:
            return CONFIRMED, last.summary
        return (UNDECIDED if outcome in _NOT_SHOWN or not outcome else REFUTED), last.summary
    identifiers = {each.id for each in completed}
    for finding in certificate.findings:
        if finding.claim.rule == _FINDINGS[claim.kind] and identifiers & {*finding.evidence}:
            return CONFIRMED, f"{finding.claim.location}: {finding.claim.message}"
    if claim.kind == "leak" and last.output.get("result", {}).get("issue", {}).get("repeats"):
        # Calls were measured one after another: a loop inside of one call may keep what it makes.
        return UNDECIDED, f"not between calls; within one call: {last.summary}"
    return REFUTED, f"not on the measured inputs: {last.summary}"


def _is_about(claim: AgentClaim, evidence: Evidence, certificate: Certificate) -> bool:
    """Return whether a measurement ran the claimed target, itself or by a harness made for it."""
    made = {
        str(each.output.get("runnable")): str(each.arguments.get("target"))
        for each in certificate.evidence
        if each.tool == "torch-scaffold" and each.outcome is CallOutcome.COMPLETED
    }

    def named(name: object) -> str:
        return made.get(str(name), str(name))

    arguments = evidence.arguments
    if claim.kind == "speedup":
        return (named(arguments.get("candidate")), named(arguments.get("baseline"))) == (claim.target, claim.baseline)
    return named(arguments.get("target")) == claim.target
