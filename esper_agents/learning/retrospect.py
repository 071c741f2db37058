"""Find patterns that recur over the sessions of a project.

Pure: the same sessions give the same answer, in whatever order they come.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

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
    """Return what sessions show together.

    Args:
        project: The project's name.
        sessions: What each came to.
        rules: The rules that are installed.
        least: In how many sessions something has to be seen before it counts as repeated.
    """
    seen = sorted(sessions, key=lambda each: each.source.session)
    habits = _habits(seen, least)
    insights = (*_lasting(seen, least), *_hops(seen), *_refuted(seen), *_gaps(seen, least), *_denied(seen, least))
    return Retrospect(
        project=project,
        sessions=tuple(each.source for each in seen),
        habits=habits,
        suggestions=_suggestions(habits, {each.code: each for each in rules}),
        insights=_told_first(insights),
        insights_left=max(0, len(insights) - _MOST_INSIGHTS),
    )


def _told_first(insights: Sequence[Insight]) -> tuple[Insight, ...]:
    """Return the insights that most sessions show, each with what it is called."""
    ranked = sorted(insights, key=lambda each: -counted(each.sources))[:_MOST_INSIGHTS]
    return tuple(replace(each, id=f"I{number}") for number, each in enumerate(ranked, 1))


def _habits(seen: Sequence[SessionFacts], least: int) -> tuple[RecurringViolation, ...]:
    by_rule: dict[str, list[tuple[Diagnostic, SessionFacts]]] = defaultdict(list)
    for each in seen:
        for claim in each.claims:
            by_rule[claim.rule].append((claim, each))
    habits = (_habit(found) for found in by_rule.values())
    # One finding that is still there is no habit: the rule has to be broken in several places.
    repeated = [each for each in habits if each.tally.sessions >= least and each.tally.findings >= least]
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
    """Return a skill for each part of the checklist in which installed rules are broken again and again."""
    known = [each for each in habits if each.rule in rules]
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
            heading = "A finding met again in the same code" if tally.states == 1 else "A finding that stays"
            text = f"{claim.rule} at `{claim.location}` is {tally}: {claim.message}"
            yield Insight(heading, text, claim.remedy, _sources(each.source for _, each in found))


def _hops(seen: Sequence[SessionFacts]) -> Iterator[Insight]:
    for hop, sources in _gathered(seen, lambda each: each.refused_hops).items():
        text = f"{hop.sender} wanted to hand the task to {hop.receiver}, which was refused: {hop.reason}"
        advice = f"Say in the definition of {hop.sender} whose subject that is."
        yield Insight("A handoff that was refused", text, advice, sources)


def _refuted(seen: Sequence[SessionFacts]) -> Iterator[Insight]:
    for claim, sources in _gathered(seen, lambda each: each.refuted).items():
        named = f"{claim.rule}: {claim.text}" if claim.rule else claim.text
        text = f"{named} was shown not to be so{f' by {claim.tool}' if claim.tool else ''}"
        if claim.rule:
            yield Insight(
                "A claim that was refuted", text, "Have a run confirm this rule before acting on it.", sources
            )
        else:
            yield Insight("Taken for granted, and false", text, "Check it at the start of the next task.", sources)


def _gaps(seen: Sequence[SessionFacts], least: int) -> Iterator[Insight]:
    told = {gap.what: gap for each in seen for gap in each.gaps}
    for what, sources in _gathered(seen, lambda each: [gap.what for gap in each.gaps]).items():
        if counted(sources) >= least:
            command = told[what].command
            advice = f"Close it once and for all: `{command}`" if command else "Write the answer into the project."
            yield Insight("A gap that stays open", f"{what}: {told[what].why}", advice, sources)


def _denied(seen: Sequence[SessionFacts], least: int) -> Iterator[Insight]:
    for call, sources in _gathered(seen, lambda each: each.denied).items():
        if counted(sources) >= least:
            advice = f"Settle it by a rule for {call.tool} in your settings, one way or the other."
            yield Insight("A call that is denied again and again", f"{call.tool}: {call.reason}", advice, sources)
