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
    """How often something was found.

    Attributes:
        findings: How many findings it is, by fingerprint: one that is met again is the same one.
        sessions: In how many sessions; see `counted`.
        states: How many states of the files that it stands in these sessions saw; 0 where that is not known.
    """

    findings: int
    sessions: int
    states: int

    def __str__(self) -> str:
        """Return it in words."""
        on = f" on {number_of(self.states, 'state')} of the code" if self.states else ""
        return f"{number_of(self.findings, 'finding')}, seen in {number_of(self.sessions, 'session')}{on}"


@dataclass(frozen=True, slots=True)
class RecurringViolation:
    """A rule that is broken again and again.

    Attributes:
        rule: Its code.
        name: Its name.
        category: Its part of the checklist.
        severity: The worst that was found.
        message: What is wrong, as it was found last.
        remedy: What to do about it.
        places: Where it was found, some of them.
        tally: How often it was found.
        sources: The sessions in which it was found.
        id: What it is called in this report.
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
    """Something that the sessions show.

    Attributes:
        heading: What it is, in a few words.
        text: What was seen.
        advice: What to do about it.
        sources: The sessions that show it.
        id: What it is called in this report.
    """

    heading: str
    text: str
    advice: str
    sources: tuple[SourceRef, ...]
    id: str = ""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A skill worth having: what keeps one part of the checklist from being missed again.

    Attributes:
        name: What it would be called.
        category: The part of the checklist.
        habits: What it would prevent, by rule; only rules that are installed here.
        rules: The rules, with their pages and examples.
        sources: The sessions it rests on.
    """

    name: str
    category: Category
    habits: tuple[RecurringViolation, ...]
    rules: tuple[Rule, ...]
    sources: tuple[SourceRef, ...]


@dataclass(frozen=True, slots=True)
class Retrospect:
    """What the sessions of a project say.

    Attributes:
        project: The project's name.
        sessions: Those that were looked at, by identifier.
        habits: Rules that are broken in several sessions: what guidelines are made of.
        suggestions: Skills worth having.
        insights: What else the sessions show, what most of them show first.
        insights_left: How many more there are.
        wording: The same in the words of a model; None where there are none.
        unworded: Why there are none, where a model was wanted; else empty.
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
    """Return how many sessions there are: a fork counts with what it was forked from."""
    return len({each.counted_as for each in sources})
