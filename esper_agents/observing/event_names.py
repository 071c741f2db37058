"""Span events for the moments of a session or of a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.ledger import RowKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.domain.session import Event
    from esper_agents.observing.content import Content
    from esper_agents.observing.span import Attribute

OF_SESSION = frozenset(
    (
        RowKind.ROUTED,
        RowKind.REFUSED,
        RowKind.DRIFT_ACCEPTED,
        RowKind.CERTIFIED,
        RowKind.CANCELLED,
        RowKind.PRUNED,
    )
)
OF_FRAME = frozenset((RowKind.ASKED, RowKind.ANSWERED, RowKind.MOVE_REFUSED, RowKind.HANDED_OFF))


def name_of(event: Event) -> str:
    """Return the name of an event, such as `esper.handed_off`."""
    return f"esper.{event.kind.replace('-', '_')}"


def known_of(event: Event, content: Content) -> Iterable[tuple[str, Attribute]]:
    """Yield the attributes of an event; an empty text stands for a missing value."""
    body = event.body
    match event.kind:
        case RowKind.ROUTED | RowKind.REFUSED:
            yield "esper.route", body["outcome"]
            yield "gen_ai.agent.name", body["agent"]
        case RowKind.ASKED:
            yield "esper.question", body["id"]
            yield "gen_ai.tool.name", body["tool"]
            yield "esper.text", content.text(body["text"])
        case RowKind.ANSWERED:
            yield "esper.question", body["question"]
            yield "esper.text", content.text(body["text"])
        case RowKind.MOVE_REFUSED:
            yield "esper.step", event.step
            yield "esper.stopped_by", body.get("stopped_by") or ""
            yield "esper.text", content.text("; ".join(body["reasons"]))
        case RowKind.HANDED_OFF:
            yield "gen_ai.transfer.target.name", body["handoff"]["receiver"]
            yield "gen_ai.transfer.mode", "pass_control"
            yield "esper.hop", body["handoff"]["hop"]
            yield "esper.text", content.text(body["handoff"]["context"])
        case RowKind.CERTIFIED:
            yield "esper.certificate", body["certificate"]
            yield "esper.certificate.sha256", body["sha256"]
        case RowKind.PRUNED:
            yield "esper.rows", body["rows"]
        case _:
            return
