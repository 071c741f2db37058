"""Build the spans of a session from its ledger; equal events give equal spans.

Names follow the OpenTelemetry GenAI conventions, development schema 1.42.0, which builds on the core conventions
1.44.0; none of them is declared stable. Names without a convention begin with `esper.`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.ledger import RowKind
from esper_agents.domain.session import SessionState
from esper_agents.observing.content import Content
from esper_agents.observing.event_names import OF_FRAME, OF_SESSION, known_of, name_of
from esper_agents.observing.model_turn import (
    chat_attributes,
    count_of,
    messages_of,
    model_of,
    provider_of,
    spent_attributes,
)
from esper_agents.observing.span import SESSION, SpanEvent, SpanLink, TraceSpan, span_id, trace_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from esper_agents.domain.session import Event, SessionSummary
    from esper_agents.observing.span import Attribute

    Known = Iterable[tuple[str, Attribute]]

SCHEMA = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
_OPERATION, _INPUT, _OUTPUT = "gen_ai.operation.name", "gen_ai.input.messages", "gen_ai.output.messages"
_WORKFLOW = "esper"
_ENDS = frozenset((RowKind.CERTIFIED, RowKind.REFUSED, RowKind.CANCELLED))
_NS_IN_MS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def spans_of(found: SessionSummary, events: Sequence[Event], *, with_content: bool = False) -> tuple[TraceSpan, ...]:
    """Return the spans of a session up to its latest event: the session, its agents, their turns and tool calls.

    Args:
        found: The session.
        events: Its events, in order.
        with_content: Whether attributes include prompts, answers, tool arguments and results, without secrets;
            otherwise only names, counts, times and digests.
    """
    return tuple(_Trace(found, events, Content(with_content)).spans())


@dataclass(frozen=True, slots=True)
class _When:
    start_ns: int
    end_ns: int
    is_over: bool


class _Trace:
    """The events of one session, indexed by frame, step and call."""

    def __init__(self, found: SessionSummary, events: Sequence[Event], content: Content) -> None:
        self._found = found
        self._events = events
        self._content = content
        self._rows = {(event.kind, event.frame, event.step, event.call): event for event in events}
        self._opened = {event.frame: event.body for event in events if event.kind == RowKind.OPENED}
        self._within: dict[int, list[Event]] = defaultdict(list)
        for event in events:
            self._within[event.frame].append(event)
        self._times = [_ns(event.at) for event in events] or [0]

    def spans(self) -> Iterator[TraceSpan]:
        """Yield every span, including those that have started and not ended."""
        yield self._session()
        for event in self._events:
            match event.kind:
                case RowKind.OPENED:
                    yield self._agent(event)
                case RowKind.MOVED:
                    yield self._turn(event, self._like(RowKind.DECIDING, event), event)
                case RowKind.DECIDING if not (event.call or self._like(RowKind.MOVED, event)):
                    yield self._turn(event, event, None)
                case RowKind.CALLED:
                    yield self._call(event, self._like(RowKind.CALLING, event), event)
                case RowKind.CALLING if not self._like(RowKind.CALLED, event):
                    yield self._call(event, event, None)

    def _like(self, kind: RowKind, event: Event) -> Event | None:
        """Return the event of another kind for the same step."""
        return self._rows.get((kind, event.frame, event.step, event.call))

    def _of_frame(self, kind: RowKind, number: int) -> Event | None:
        return self._rows.get((kind, number, 0, 0))

    def _session(self) -> TraceSpan:
        found = self._found
        begun = self._of_frame(RowKind.SUBMITTED, 0)
        body: Mapping[str, Any] = begun.body if begun else {"project": "", "task": {"kind": "", "request": ""}}
        origin = SpanLink(
            trace_id(found.origin.session),
            span_id(found.origin.session, SESSION),
            {"esper.link": str(found.origin.kind)},
        )
        return self._span(
            SESSION,
            "",
            f"invoke_workflow {_WORKFLOW}",
            self._whole(),
            (
                (_OPERATION, "invoke_workflow"),
                ("gen_ai.workflow.name", _WORKFLOW),
                ("esper.session.state", str(found.state)),
                ("esper.project", body["project"]),
                ("esper.question.kind", body["task"]["kind"]),
                *(("esper.verdict", status) for each in self._opened if (status := self._verdict(each))),
                (_INPUT, self._content.message("user", body["task"]["request"])),
            ),
            events=self._told(0, OF_SESSION),
            links=(origin,) if found.origin.session else (),
            error="refused" if found.state is SessionState.REFUSED else "",
        )

    def _whole(self) -> _When:
        """Return the start and end of the session, without later operations on its data."""
        ended = [_ns(event.at) for event in self._events if event.kind in _ENDS]
        return _When(min(self._times), ended[-1] if ended else max(self._times), bool(ended))

    def _agent(self, event: Event) -> TraceSpan:
        number, body, agent = event.frame, event.body, event.body["agent"]
        ended = self._of_frame(RowKind.CONCLUDED, number) or self._of_frame(RowKind.HANDED_OFF, number)
        moves = [each.body for each in self._within[number] if each.kind == RowKind.MOVED]
        records: Iterator[Mapping[str, Any]] = (move["record"] for move in moves)
        asked = next((record for record in records if model_of(record)), {})
        said = moves[-1]["move"].get("summary") if moves else ""
        return self._span(
            f"frame {number}",
            f"frame {body['parent']}" if body["parent"] else SESSION,
            f"invoke_agent {agent['name']}",
            self._when(event, ended),
            (
                (_OPERATION, "invoke_agent"),
                ("gen_ai.provider.name", provider_of(body["definition"]["reasoner"], asked)),
                *self._by(number),
                ("gen_ai.agent.version", agent["sha256"]),
                ("esper.verdict", self._verdict(number)),
                ("gen_ai.agent.description", self._content.text(agent["description"])),
                (_INPUT, self._content.message("user", body["question"])),
                (_OUTPUT, self._content.message("assistant", said)),
            ),
            events=self._told(number, OF_FRAME),
            links=tuple(self._came_of(body)),
            error="no-answer" if ended and ended.body.get("problem") else "",
        )

    def _came_of(self, opened: Mapping[str, Any]) -> Iterator[SpanLink]:
        """Yield a link to the turn that asked, for a consult, or to the sender's frame, for a handoff."""
        session = self._found.id
        if opened["parent"]:
            asking = span_id(session, f"turn {opened['parent']}.{opened['parent_step']}")
            yield SpanLink(trace_id(session), asking, {"esper.link": "consult"})
        hop = opened["handoff"]["hop"] if opened["handoff"] else 0
        for frame in self._opened:
            handed = self._of_frame(RowKind.HANDED_OFF, frame)
            if handed and handed.body["handoff"]["hop"] == hop:
                sender = span_id(session, f"frame {frame}")
                yield SpanLink(trace_id(session), sender, {"esper.link": "handoff", "esper.hop": hop})

    def _turn(self, event: Event, begun: Event | None, ended: Event | None) -> TraceSpan:
        opened = self._opened[event.frame]
        moved: Mapping[str, Any] = ended.body if ended else {"record": {}, "move": {"move": ""}}
        record, model = moved["record"], model_of(moved["record"])
        return self._span(
            f"turn {event.frame}.{event.step}",
            f"frame {event.frame}",
            f"chat {model}" if model else f"decide {opened['agent']['name']}",
            self._when(begun, ended, count_of(moved.get("took_ms")) * _NS_IN_MS),
            (
                *(chat_attributes(opened["definition"]["reasoner"], record) if model else ()),
                *spent_attributes(record),
                *self._by(event.frame),
                ("esper.step", event.step),
                ("esper.move", moved["move"]["move"]),
                ("esper.stopped_by", moved.get("stopped_by") or ""),
                (_OUTPUT, self._content.text(messages_of(record))),
            ),
            is_remote=bool(model),
        )

    def _call(self, event: Event, begun: Event | None, ended: Event | None) -> TraceSpan:
        evidence = ended.body["evidence"] if ended else {}
        tool, outcome = evidence.get("tool") or event.body["tool"], evidence.get("outcome", "")
        return self._span(
            f"call {event.frame}.{event.step}.{event.call}",
            f"frame {event.frame}",
            f"execute_tool {tool}",
            self._when(begun, ended, count_of(evidence.get("duration_ns"))),
            (
                (_OPERATION, "execute_tool"),
                ("gen_ai.tool.name", tool),
                ("gen_ai.tool.call.id", evidence.get("id") or event.body["evidence"]),
                ("gen_ai.tool.type", "function"),
                *self._by(event.frame),
                ("esper.step", event.step),
                ("esper.outcome", outcome),
                ("esper.tool.risk", evidence.get("risk", "")),
                ("esper.tool.provider", evidence.get("provider", "")),
                *((("esper.findings", len(ended.body["findings"])),) if ended else ()),
                ("gen_ai.tool.call.arguments", self._content.text(evidence.get("arguments"))),
                ("gen_ai.tool.call.result", self._content.text(evidence.get("output"))),
            ),
            error="" if outcome == CallOutcome.COMPLETED else outcome,
        )

    def _by(self, frame: int) -> Known:
        """Yield the attributes of the agent."""
        opened = self._opened[frame]
        yield "gen_ai.agent.name", opened["agent"]["name"]
        yield "esper.reasoner", opened["definition"]["reasoner"]
        yield "esper.frame", frame

    def _verdict(self, frame: int) -> str:
        concluded = self._of_frame(RowKind.CONCLUDED, frame)
        return str(concluded.body["verdict"]["status"]) if concluded and concluded.body["verdict"] else ""

    def _told(self, frame: int, kinds: frozenset[RowKind]) -> tuple[SpanEvent, ...]:
        return tuple(
            SpanEvent(name_of(each), _ns(each.at), _filled(known_of(each, self._content)))
            for each in self._within[frame]
            if each.kind in kinds
        )

    def _span(
        self, what: str, parent: str, name: str, when: _When, known: Known, *, error: str = "", **more: Any
    ) -> TraceSpan:
        session = self._found.id
        ended: Known = (("error.type", error),) if when.is_over else (("esper.unfinished", True),)
        return TraceSpan(
            trace=trace_id(session),
            id=span_id(session, what),
            parent=span_id(session, parent) if parent else "",
            name=name,
            start_ns=when.start_ns,
            end_ns=when.end_ns,
            attributes=_filled((("gen_ai.conversation.id", session), *known, *ended)),
            error=error,
            **more,
        )

    def _when(self, begun: Event | None, ended: Event | None, took_ns: int | None = None) -> _When:
        """Return the start and end of an operation, by the clock of the events.

        An operation repeated after a crash is dated by the duration of its last run.
        """
        end_ns = _ns(ended.at) if ended else max(self._times)
        start_ns = _ns(begun.at) if begun else 0
        if ended and took_ns is not None:
            start_ns = max(start_ns, end_ns - took_ns)
        return _When(min(start_ns, end_ns), end_ns, ended is not None)


def _filled(known: Known) -> dict[str, Attribute]:
    """Return attributes without empty texts, which stand for missing values."""
    return {name: each for name, each in known if each != ""}


def _ns(at: str) -> int:
    """Return an event's time in nanoseconds since 1970, without floating-point rounding."""
    since = datetime.fromisoformat(at) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000
