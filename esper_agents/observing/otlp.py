"""Spans in the OpenTelemetry data model, and as lines of OTLP JSON."""

from __future__ import annotations

import json
from base64 import b64decode
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from esper_agents.extras import Extra, require_extra
from esper_agents.observing.ledger_spans import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext

    from esper_agents.observing.span import TraceSpan

_SERVICE = "esper-agents"
# Number of spans per request, as in the SDK; collectors reject large requests, usually above 20 MB.
_AT_ONCE, _MOST_CHARACTERS = 512, 4_000_000
_IDS = frozenset(("traceId", "spanId", "parentSpanId"))


def json_lines(spans: Sequence[TraceSpan]) -> Iterator[str]:
    """Yield spans as OTLP JSON, one `TracesData` per line, in ASCII.

    Raises:
        MissingExtraError: OpenTelemetry is not installed.
    """
    require_extra(Extra.TRACE)
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # it has no types
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    for batch in batches(spans):
        data = MessageToDict(encode_spans(batch), use_integers_for_enums=True)
        yield json.dumps(_with_hex_ids(data), separators=(",", ":"))


def batches(spans: Sequence[TraceSpan]) -> Iterator[list[ReadableSpan]]:
    """Yield spans in the SDK's form, in batches of a size that collectors accept."""
    batch: list[ReadableSpan] = []
    characters = 0
    for span in spans:
        batch.append(_readable(span))
        characters += len(repr(span))
        if len(batch) == _AT_ONCE or characters > _MOST_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


@cache
def _resource() -> Resource:
    from opentelemetry.sdk.resources import Resource

    # Service attributes in the environment describe programs that trace themselves, and would change the spans.
    return Resource({"service.name": _SERVICE, "service.version": version(_SERVICE)})


@cache
def _scope() -> InstrumentationScope:
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    return InstrumentationScope(_SERVICE, version(_SERVICE), SCHEMA)


def _readable(span: TraceSpan) -> ReadableSpan:
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode

    return ReadableSpan(
        name=span.name,
        context=_context(span.trace, span.id),
        parent=_context(span.trace, span.parent) if span.parent else None,
        resource=_resource(),
        attributes=span.attributes,
        events=[Event(event.name, event.attributes, event.at_ns) for event in span.events],
        links=[Link(_context(link.trace, link.span), link.attributes) for link in span.links],
        kind=SpanKind.CLIENT if span.is_remote else SpanKind.INTERNAL,
        instrumentation_scope=_scope(),
        status=Status(StatusCode.ERROR if span.error else StatusCode.UNSET),
        start_time=span.start_ns,
        end_time=span.end_ns,
    )


def _context(trace: str, span: str) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _with_hex_ids(data: Any) -> Any:
    """Return a protobuf message as JSON data with hexadecimal identifiers, as OTLP requires."""
    if isinstance(data, dict):
        return {name: b64decode(each).hex() if name in _IDS else _with_hex_ids(each) for name, each in data.items()}
    return [_with_hex_ids(each) for each in data] if isinstance(data, list) else data
