"""Ownership of findings by agents, and conclusions of static playbooks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Category, Severity
from esper_agents.domain.handoff import OpenPart
from esper_agents.domain.memory import NoteKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from esper_agents.domain.agent_action import ToolReport
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Diagnostic, Finding
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.memory import MemoryNote

REVIEWER, COMPILER, MEMORY, NAN = "pytorch-code-reviewer", "pytorch-expert", "memory-diagnostician", "nan-debugger"
DOMAINS = {COMPILER: "torch.compile", MEMORY: "memory", NAN: "NaN"}

# Rules whose hits can put a NaN or Inf into a loss; their category says only that nothing is raised.
_NAN_RULES = "ESP21"


def owner(claim: Diagnostic) -> str:
    """Return whose part a claim is."""
    if claim.rule.startswith(_NAN_RULES):
        return NAN
    match claim.category:
        case Category.COMPILE:
            return COMPILER
        case Category.MEMORY:
            return MEMORY
        case (
            Category.CORRECTNESS
            | Category.SILENT_CORRECTNESS
            | Category.PERFORMANCE
            | Category.COMPANION
            | Category.SECURITY
        ):
            return REVIEWER


def parts_of(findings: Iterable[Finding], brief: Brief) -> tuple[OpenPart, ...]:
    """Return the parts of a task that other agents own, the one with most findings first.

    Suggestions move nobody; an agent that is not installed owns nothing. Who is asked a question answers it whole.
    """
    if brief.question:
        return ()
    weighty = [each for each in findings if each.claim.severity is not Severity.SUGGESTION]
    owned = Counter(owner(each.claim) for each in weighty)
    return tuple(
        OpenPart(
            agent=agent,
            domain=DOMAINS[agent],
            question=f"what do these {number} findings mean for {', '.join(brief.task.paths)}?",
            findings=tuple(each.claim.fingerprint for each in weighty if owner(each.claim) == agent),
        )
        for agent, number in owned.most_common()
        if agent in DOMAINS and agent in brief.agents and agent != brief.agent.name
    )


def my_part(brief: Brief) -> tuple[Finding, ...]:
    """Return the findings that a handoff put before this agent."""
    if brief.handoff is None or not brief.handoff.open_parts:
        return ()
    mine = set(brief.handoff.open_parts[0].findings)
    return tuple(each for each in brief.findings if each.claim.fingerprint in mine)


def named(findings: Sequence[Finding], *, most: int = 3) -> str:
    """Return the first findings in words, with their places."""
    shown = "; ".join(f"{each.claim.name} at {each.claim.location}" for each in findings[:most])
    return shown + (f" and {len(findings) - most} more" if len(findings) > most else "")


def failures(reports: Iterable[ToolReport]) -> tuple[ToolReport, ...]:
    """Return the reports of calls that did not complete."""
    return tuple(each for each in reports if each.evidence.outcome is not CallOutcome.COMPLETED)


def since_last(notes: Sequence[MemoryNote], findings: Iterable[Finding], evidence: Iterable[Evidence]) -> str:
    """Return what has changed since the agent last looked at the same files, in a sentence; or nothing.

    It speaks of what was just looked at again: that a note is stale does not matter, that nobody vouches for it does.
    """
    looked_at = {file.path for each in evidence for file in each.examined}
    before = {
        each.subject: each.certificate
        for each in notes
        if each.kind is NoteKind.ACTION
        and each.is_vouched_for
        and each.sources
        and {source.path for source in each.sources} <= looked_at
    }
    if not before:
        return ""
    now = {each.claim.fingerprint for each in findings}
    gone = len(before.keys() - now)
    return (
        f"Of {len(before)} findings remembered from {max(before.values())}, "
        f"{gone} are gone and {len(before) - gone} still stand."
    )
