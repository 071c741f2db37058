"""Retrospect reports: guidelines, proposed skills and insights, with their sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.domain.finding import Category, Severity
    from esper_agents.learning.model_wording import Wording
    from esper_agents.learning.session_summary import SourceRef
    from esper_agents.review.rule import Rule


@dataclass(frozen=True, slots=True)
class Tally:
    """Count of findings of one kind.

    Attributes:
        findings: Number of distinct findings, by fingerprint.
        sessions: Number of sessions; see `counted`.
        states: Number of distinct states of the files in these sessions; 0 if unknown.
    """

    findings: int
    sessions: int
    states: int

    def __str__(self) -> str:
        """Return the count in words."""
        on = f" on {number_of(self.states, 'state')} of the code" if self.states else ""
        return f"{number_of(self.findings, 'finding')}, seen in {number_of(self.sessions, 'session')}{on}"


@dataclass(frozen=True, slots=True)
class RecurringViolation:
    """A rule that is violated repeatedly.

    Attributes:
        rule: The rule's code.
        name: The rule's name.
        category: Part of the checklist that it belongs to.
        severity: The worst severity found.
        message: The message of the latest finding.
        remedy: A fix for it.
        places: Some locations of its findings.
        tally: Count of its findings.
        sources: The sessions with these findings.
        id: Its identifier in the report.
    """

    rule: str
    name: str
    category: Category
    severity: Severity
    message: str
    remedy: str
    places: tuple[str, ...]
    tally: Tally
    sources: tuple[SourceRef, ...]
    id: str = ""


@dataclass(frozen=True, slots=True)
class Insight:
    """An observation over several sessions.

    Attributes:
        heading: Short title.
        text: The observation.
        advice: The recommended action.
        sources: The sessions that support it.
        id: Its identifier in the report.
    """

    heading: str
    text: str
    advice: str
    sources: tuple[SourceRef, ...]
    id: str = ""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A proposed skill that helps to prevent repeated violations in one part of the checklist.

    Attributes:
        name: The name of the skill.
        category: Part of the checklist.
        habits: The repeated violations, by rule; only rules that are installed here.
        rules: The rules, with their documentation and examples.
        sources: The sessions that support it.
    """

    name: str
    category: Category
    habits: tuple[RecurringViolation, ...]
    rules: tuple[Rule, ...]
    sources: tuple[SourceRef, ...]


@dataclass(frozen=True, slots=True)
class Retrospect:
    """Report on recurring patterns over the sessions of a project.

    Attributes:
        project: The project's name.
        sessions: Identifiers of the sessions.
        habits: Rules violated in more than one session: the basis of the guidelines.
        suggestions: The proposed skills.
        insights: Other observations, those with the most sessions first.
        insights_left: Number of omitted insights.
        wording: The report as worded by a model, or None.
        unworded: Why there is no wording although one was requested; else empty.
    """

    project: str
    sessions: tuple[SourceRef, ...] = ()
    habits: tuple[RecurringViolation, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    insights: tuple[Insight, ...] = ()
    insights_left: int = 0
    wording: Wording | None = None
    unworded: str = ""


def counted(sources: Iterable[SourceRef]) -> int:
    """Return the number of sessions; a fork counts together with its origin."""
    return len({source.counted_as for source in sources})
