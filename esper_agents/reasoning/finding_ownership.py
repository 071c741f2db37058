"""Ownership of findings by agents, and conclusions of static playbooks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Category, Severity
from esper_agents.domain.handoff import OpenPart
from esper_agents.domain.memory import NoteKind
from esper_agents.reasoning.request_answer import is_asked_about

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from esper_agents.domain.agent_action import ToolReport
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Diagnostic, Finding
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.memory import MemoryNote

REVIEWER, COMPILER, MEMORY, NAN = "pytorch-code-reviewer", "pytorch-expert", "memory-diagnostician", "nan-debugger"
DOMAINS = {COMPILER: "torch.compile", MEMORY: "memory", NAN: "NaN"}

# Rules whose findings can cause a NaN or Inf loss; their category only states that no error is raised.
_NAN_RULES = "ESP21"


def owner(claim: Diagnostic) -> str:
    """Return the name of the agent that owns a claim."""
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
    """Return the parts of a task that other agents own, the one with the most findings first.

    Suggestions cause no handoff, nor do findings that a request for advice is not about; an agent that is not installed
    owns nothing. A consulted agent answers the whole question itself, and a change is judged as a whole.
    """
    if brief.question or brief.task.change:
        return ()
    asked = [finding for finding in findings if is_asked_about(brief, finding)]
    weighty = [each for each in asked if each.claim.severity is not Severity.SUGGESTION]
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
    """Return the findings that a handoff assigned to this agent."""
    if brief.handoff is None or not brief.handoff.open_parts:
        return ()
    mine = set(brief.handoff.open_parts[0].findings)
    return tuple(finding for finding in brief.findings if finding.claim.fingerprint in mine)


def named(findings: Sequence[Finding], *, most: int = 3) -> str:
    """Return a description of the first findings with their locations."""
    shown = "; ".join(f"{finding.claim.name} at {finding.claim.location}" for finding in findings[:most])
    return shown + (f" and {len(findings) - most} more" if len(findings) > most else "")


def failures(reports: Iterable[ToolReport]) -> tuple[ToolReport, ...]:
    """Return the reports of calls that did not complete."""
    return tuple(report for report in reports if report.evidence.outcome is not CallOutcome.COMPLETED)


def since_last(notes: Sequence[MemoryNote], findings: Iterable[Finding], evidence: Iterable[Evidence]) -> str:
    """Return a sentence about changes since the agent last reviewed the same files; empty if there are none.

    Only recorded playbooks of version 0.1.0 call it: see `memory.earlier`.

    The findings were just checked again, so stale notes are included; unverified notes are excluded.
    """
    looked_at = {file.path for each in evidence for file in each.examined}
    before = {
        note.subject: note.certificate
        for note in notes
        if note.kind is NoteKind.ACTION
        and note.is_vouched_for
        and note.sources
        and {source.path for source in note.sources} <= looked_at
    }
    if not before:
        return ""
    now = {finding.claim.fingerprint for finding in findings}
    gone = len(before.keys() - now)
    return (
        f"Of {len(before)} findings remembered from {max(before.values())}, "
        f"{gone} are gone and {len(before) - gone} still stand."
    )
