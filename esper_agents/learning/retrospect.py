"""Find patterns that recur over the sessions of a project.

A pure function: equal sessions give equal results, in any order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from esper_agents.certificates.suggested_command import suggested_command
from esper_agents.domain.finding import Category, Severity
from esper_agents.learning.report import Insight, RecurringViolation, Retrospect, Suggestion, Tally, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.learning.session_summary import SessionFacts, SourceRef
    from esper_agents.review.rule import Rule

T = TypeVar("T")

LEAST_SESSIONS = 2
_MOST_INSIGHTS = 40
_MOST_NAMED = 5
_WORST_FIRST = tuple(Severity)


def retrospect(
    project: str, sessions: Iterable[SessionFacts], rules: Iterable[Rule] = (), *, least: int = LEAST_SESSIONS
) -> Retrospect:
    """Return the patterns that recur over sessions.

    Args:
        project: The project's name.
        sessions: Facts of the sessions.
        rules: The installed rules.
        least: Minimum number of sessions for a pattern to count as recurring.
    """
    seen = sorted(sessions, key=lambda each: each.source.session)
    habits = _habits(seen, least)
    insights = (*_lasting(seen, least), *_hops(seen), *_refuted(seen), *_gaps(seen, least), *_denied(seen, least))
    return Retrospect(
        project=project,
        sessions=tuple(each.source for each in seen),
        habits=habits,
        suggestions=_suggestions(habits, {rule.code: rule for rule in rules}),
        insights=_told_first(insights),
        insights_left=max(0, len(insights) - _MOST_INSIGHTS),
    )


def _told_first(insights: Sequence[Insight]) -> tuple[Insight, ...]:
    """Return the insights with the most sessions, with their identifiers."""
    ranked = sorted(insights, key=lambda each: -counted(each.sources))[:_MOST_INSIGHTS]
    return tuple(replace(each, id=f"I{number}") for number, each in enumerate(ranked, 1))


def _habits(seen: Sequence[SessionFacts], least: int) -> tuple[RecurringViolation, ...]:
    by_rule: dict[str, list[tuple[Diagnostic, SessionFacts]]] = defaultdict(list)
    for each in seen:
        for claim in each.claims:
            by_rule[claim.rule].append((claim, each))
    habits = (_habit(found) for found in by_rule.values())
    # One persisting finding is not a recurring violation: the rule must be violated at more than one location.
    repeated = [habit for habit in habits if habit.tally.sessions >= least and habit.tally.findings >= least]
    ranked = sorted(repeated, key=lambda each: (-each.tally.sessions, _WORST_FIRST.index(each.severity), each.rule))
    return tuple(replace(each, id=f"G{number}") for number, each in enumerate(ranked, 1))


def _habit(found: Sequence[tuple[Diagnostic, SessionFacts]]) -> RecurringViolation:
    last = found[-1][0]
    return RecurringViolation(
        rule=last.rule,
        name=last.name,
        category=last.category,
        severity=min((claim.severity for claim, _ in found), key=_WORST_FIRST.index),
        message=last.message,
        remedy=last.remedy,
        places=tuple(dict.fromkeys(claim.location.path for claim, _ in found))[:_MOST_NAMED],
        tally=_tally(found),
        sources=_sources(each.source for _, each in found),
    )


def _tally(found: Sequence[tuple[Diagnostic, SessionFacts]]) -> Tally:
    return Tally(
        findings=len({claim.fingerprint for claim, _ in found}),
        sessions=counted(each.source for _, each in found),
        states=len(
            {
                (file.path, file.sha256)
                for claim, each in found
                for file in each.examined
                if file.path == claim.location.path
            }
        ),
    )


def _sources(found: Iterable[SourceRef]) -> tuple[SourceRef, ...]:
    return tuple(dict.fromkeys(found))


def _suggestions(habits: Sequence[RecurringViolation], rules: Mapping[str, Rule]) -> tuple[Suggestion, ...]:
    """Return a skill for every part of the checklist with repeated violations of installed rules."""
    known = [habit for habit in habits if habit.rule in rules]
    found = []
    for category in Category:
        some = tuple(each for each in known if each.category is category)
        if some:
            sources = _sources(source for each in some for source in each.sources)
            named = tuple(rules[each.rule] for each in some)
            found.append(Suggestion(f"learnt-{category}", category, some, named, sources))
    return tuple(found)


def _gathered(
    seen: Sequence[SessionFacts], things: Callable[[SessionFacts], Iterable[T]]
) -> dict[T, tuple[SourceRef, ...]]:
    found: dict[T, list[SourceRef]] = defaultdict(list)
    for each in seen:
        for thing in things(each):
            found[thing].append(each.source)
    return {thing: _sources(sources) for thing, sources in found.items()}


def _lasting(seen: Sequence[SessionFacts], least: int) -> Iterator[Insight]:
    met: dict[str, list[tuple[Diagnostic, SessionFacts]]] = defaultdict(list)
    for each in seen:
        for claim in each.claims:
            met[claim.fingerprint].append((claim, each))
    for found in met.values():
        tally, claim = _tally(found), found[-1][0]
        if tally.sessions >= least:
            heading = "A recurring finding in unchanged code" if tally.states == 1 else "A persistent finding"
            text = f"{claim.rule} at `{claim.location}` is {tally}: {claim.message}"
            yield Insight(heading, text, claim.remedy, _sources(each.source for _, each in found))


def _hops(seen: Sequence[SessionFacts]) -> Iterator[Insight]:
    for hop, sources in _gathered(seen, lambda each: each.refused_hops).items():
        text = f"{hop.sender} tried to hand off the task to {hop.receiver}; the handoff was refused: {hop.reason}"
        advice = f"State in the definition of {hop.sender} which agent owns that subject."
        yield Insight("A refused handoff", text, advice, sources)


def _refuted(seen: Sequence[SessionFacts]) -> Iterator[Insight]:
    for claim, sources in _gathered(seen, lambda each: each.refuted).items():
        named = f"{claim.rule}: {claim.text}" if claim.rule else claim.text
        text = f"{named} was refuted{f' by {claim.tool}' if claim.tool else ''}"
        if claim.rule:
            yield Insight(
                "A refuted claim",
                text,
                "Confirm a finding of this rule by a run before acting on it.",
                sources,
            )
        else:
            yield Insight("A refuted assumption", text, "Check it at the start of the next task.", sources)


def _gaps(seen: Sequence[SessionFacts], least: int) -> Iterator[Insight]:
    told = {gap.what: gap for each in seen for gap in each.gaps}
    for what, sources in _gathered(seen, lambda each: [gap.what for gap in each.gaps]).items():
        if counted(sources) >= least:
            command = suggested_command(told[what].command)
            advice = f"Close it permanently: `{command}`" if command else "Document the answer in the project."
            yield Insight("A persistent information gap", f"{what}: {told[what].why}", advice, sources)


def _denied(seen: Sequence[SessionFacts], least: int) -> Iterator[Insight]:
    for call, sources in _gathered(seen, lambda each: each.denied).items():
        if counted(sources) >= least:
            advice = f"Add a permission rule for {call.tool} to your settings, to allow or deny it."
            yield Insight("A repeatedly denied tool call", f"{call.tool}: {call.reason}", advice, sources)
