"""Timeline of a session as labelled lines: agents, questions, answers, durations and cost."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of
from esper_agents.domain.usage import Expense, expense_of
from esper_agents.observing.event_lines import event_lines, preview_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.session import Event, SessionSummary

Line = tuple[str, str]
# Indentation per level of consulted agents.
_STEP = "> "
# Characters of an ID that every command accepts instead of the whole.
_SHORT = 12
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
# Durations below one second are printed in milliseconds.
_LONG_MS = 1_000


def session_timeline(found: SessionSummary, events: Sequence[Event]) -> list[Line]:
    """Return the timeline of a session, as pairs of label and unescaped text."""
    return [*_head(found, events), *_Story(events).lines(), *_end(events)]


def _head(found: SessionSummary, events: Sequence[Event]) -> Iterator[Line]:
    if found.origin.session:
        word = {"forked": "forked from", "continued": "continues"}.get(found.origin.kind, found.origin.kind)
        yield "origin", f"{word} {found.origin.session}"
    if not events:
        return
    begun = events[0]
    yield "submitted", f"{begun.at[:19].replace('T', ' ')} UTC by {begun.body.get('person', 'nobody')}"
    about = ", ".join(begun.body.get("task", {}).get("paths", ()))
    if about:
        yield "about", about


def _end(events: Sequence[Event]) -> Iterator[Line]:
    """Yield the total duration, the time in tools and waiting for the user, and the cost of models."""
    if not events:
        return
    times = [_moment(event.at) for event in events]
    tools_s = sum(event.body["evidence"]["duration_ns"] for event in events if event.kind == "called") / 1e9
    asked = {_of_call(event): _moment(event.at) for event in events if event.kind == "asked"}
    waited_s = sum(
        (_moment(event.at) - asked[_of_call(event)]).total_seconds()
        for event in events
        if event.kind == "answered" and _of_call(event) in asked
    )
    whole = span((max(times) - min(times)).total_seconds())
    waited = f", {span(waited_s)} waiting for people" if waited_s else ""
    yield "lasted", f"{whole}, {span(tools_s)} of it in tools{waited}"
    used = sum((expense_of(event.body["record"]) for event in events if event.kind == "moved"), Expense())
    if used.turns:
        yield "cost", f"{used} in {number_of(used.turns, 'turn')}"


class _Story:
    """Formatter of the events of a session in order."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._start = min((_moment(event.at) for event in events), default=None)
        self._told = set[str]()
        self._depth: dict[int, int] = defaultdict(int)
        self._agents: dict[int, str] = {}
        self._answers = {_of_call(event): event for event in events if event.kind == "answered"}
        self._called = {_of_call(event) for event in events if event.kind == "called"}
        self._last_words: dict[int, str] = {}

    def lines(self) -> Iterator[Line]:
        """Yield all lines of the timeline."""
        for event in self._events:
            if event.kind == "moved" and event.body["move"].get("move") == "conclude":
                self._last_words[event.frame] = str(event.body["move"].get("summary", ""))
            for number, (label, text) in enumerate(self._lines_of(event)):
                first = f"{self._when(event)} {_STEP * self._depth[event.frame]}{_place(event)}"
                yield label, f"{first} {text}" if number == 0 else text

    def _lines_of(self, event: Event) -> list[Line]:
        tell = {
            "opened": self._opened,
            "asked": self._asked,
            "answered": self._answered,
            "calling": self._calling,
            "handed-off": self._handed_off,
            "concluded": self._concluded,
        }.get(event.kind)
        return tell(event) if tell else event_lines(event, self._told, all_calls=True)

    def _answered(self, _: Event) -> list[Line]:
        """Return nothing: an answer is printed with its question."""
        return []

    def _calling(self, event: Event) -> list[Line]:
        is_done = _of_call(event) in self._called
        return [] if is_done else [("unfinished", f"{event.body['tool']} has no result")]

    def _concluded(self, event: Event) -> list[Line]:
        verdict = event.body["verdict"]
        if verdict:
            why = verdict.get("below_ceiling") or verdict.get("rationale") or ""
            return [("verdict", f"{verdict['status']}{f': {why}' if why else ''}")]
        said = self._last_words.get(event.frame) or event.body.get("problem", "")
        return [("answer", f"{self._agents.get(event.frame, '')} answers: {said}")]

    def _opened(self, event: Event) -> list[Line]:
        body, name = event.body, event.body["agent"]["name"]
        self._agents[event.frame] = name
        if body["parent"]:
            self._depth[event.frame] = self._depth[body["parent"]] + 1
            asker = self._agents.get(body["parent"], "")
            return [("consult", f"{asker} asks {name} at {body['parent']}.{body['parent_step']}: {body['question']}")]
        return event_lines(event, self._told)

    def _asked(self, event: Event) -> list[Line]:
        body, answer = event.body, self._answers.get(_of_call(event))
        label = "approval" if body["tool"] else "question"
        if answer is None:
            return [(label, f"{body['text']} Not answered: {_short(body['id'])}"), *preview_lines(body)]
        took = span((_moment(answer.at) - _moment(event.at)).total_seconds())
        when = answer.at[:16].replace("T", " ")
        answered = f"Answered {answer.body['text']} by {answer.body['by']}, {when}, after {took}"
        return [(label, f"{body['text']} {answered}{_scope(answer.body)}"), *preview_lines(body)]

    @staticmethod
    def _handed_off(event: Event) -> list[Line]:
        packet = event.body["handoff"]
        evidence = number_of(len(packet["evidence"]), "piece of evidence", "pieces of evidence")
        carried = f"{number_of(len(packet['findings']), 'finding')}, {evidence}"
        return [
            ("handoff", f"hop {packet['hop']}, {packet['sender']} to {packet['receiver']}: {packet['reason']}"),
            ("", f"{carried}; {packet['context']}"),
        ]

    def _when(self, event: Event) -> str:
        start = self._start or _moment(event.at)
        return f"+{span((_moment(event.at) - start).total_seconds())}"


def _scope(answer: JsonObject) -> str:
    """Return the further calls that an approval covers, in words; empty if there are none."""
    scope = answer.get("scope")
    if not scope:
        return ""
    words = f" commands that begin with {' '.join(scope['prefix'])!r}" if scope["prefix"] else ""
    return f", for later {scope['tool']}{words or ' calls'} of this session"


def _place(event: Event) -> str:
    if not event.frame:
        return ""
    return f"{event.frame}.{event.step}" if event.step else f"frame {event.frame}"


def _of_call(event: Event) -> tuple[int, int, int]:
    return event.frame, event.step, event.call


def _moment(at: str) -> datetime:
    return datetime.fromisoformat(at)


def span(seconds: float) -> str:
    """Return a duration in its two most significant units."""
    whole = int(seconds)
    if seconds * 1000 < _LONG_MS:
        return f"{seconds * 1000:.0f} ms"
    if whole < _MINUTE_S:
        return f"{seconds:.1f} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"


def _short(identifier: str) -> str:
    prefix, _, rest = identifier.partition("_")
    return f"{prefix}_{rest[-_SHORT:]}" if rest else identifier
