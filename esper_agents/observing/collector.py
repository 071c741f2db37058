"""Send spans to an OpenTelemetry collector and report the ones it rejects."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from esper_agents.errors import EsperError, UsageError
from esper_agents.extras import Extra, require_extra
from esper_agents.observing.otlp import batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.observing.span import TraceSpan

_LOGGER = "opentelemetry.exporter"
_SUCCESSES = range(200, 300)
_NOTHING = "nothing was sent"
_EXAMPLE = "--otlp http://localhost:4318"
_LOOK = "check the collector's address and OTEL_EXPORTER_OTLP_HEADERS, or write a file: --output"


def send(spans: Sequence[TraceSpan], url: str) -> None:
    """Send spans to a collector over HTTP; headers, certificates and time-outs come from `OTEL_EXPORTER_OTLP_*`.

    Args:
        spans: The spans.
        url: See `address_of`.

    Raises:
        UsageError: OpenTelemetry is not installed, or an environment variable is invalid.
        EsperError: The collector did not accept all spans.
    """
    require_extra(Extra.TRACE)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    with _heard() as heard, _noting_session() as session:
        exporter = OTLPSpanExporter(endpoint=url, session=session)
        if heard:
            raise UsageError(heard[0].getMessage(), remedy="correct the variable OTEL_EXPORTER_OTLP_..., or unset it")
        for batch in batches(spans):
            session.fault = _NOTHING
            exporter.export(batch)
            if why := session.fault:
                raise EsperError(f"{host_of(url)} did not accept the spans: {why[:200]}", remedy=_LOOK)


def address_of(text: str) -> str:
    """Return the URL for the spans from a user's URL; without a path, `/v1/traces` is added.

    Raises:
        UsageError: It is not an HTTP URL.
    """
    parts = urlsplit(text) if _is_address(text) else None
    if parts is None:
        raise UsageError(f"{text[:200]!r} is not a collector URL", remedy=f"write it as in {_EXAMPLE}")
    return text if parts.path.strip("/") else parts._replace(path="/v1/traces").geturl()


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_whole and text == text.strip() and text.isprintable()


def host_of(url: str) -> str:
    """Return the host of a URL, without user name and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


@contextmanager
def _heard() -> Iterator[list[logging.LogRecord]]:
    """Yield the log records of the exporter, so that errors are reported once and in this program's wording."""
    heard: list[logging.LogRecord] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record)

    logger, ear = logging.getLogger(_LOGGER), Ear()
    is_passed_on, logger.propagate = logger.propagate, False
    logger.addHandler(ear)
    try:
        yield heard
    finally:
        logger.removeHandler(ear)
        logger.propagate = is_passed_on


def _noting_session() -> Any:
    """Return an HTTP session that stores the problem of its last response in `fault`; empty if there is none.

    The exporter counts a redirect, which it does not follow, and a partial success as a success.
    """
    import requests

    class Noting(requests.Session):
        fault = _NOTHING

        def request(self, *given: Any, **named: Any) -> Any:
            try:
                answer = super().request(*given, **named)
            except Exception as error:
                self.fault = _innermost(error)
                raise
            self.fault = _fault_of(answer)
            return answer

    return Noting()


def _fault_of(answer: Any) -> str:
    """Return the problem of a collector's response, or an empty text."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # it has no types
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    if answer.status_code not in _SUCCESSES:
        return f"{answer.status_code} {answer.reason}"
    try:
        left = ExportTraceServiceResponse.FromString(answer.content).partial_success
    except DecodeError:
        # Some servers answer with plain text although they accepted the spans.
        return ""
    return f"{left.rejected_spans} were rejected: {left.error_message}" if left.rejected_spans else ""


def _innermost(error: BaseException) -> str:
    """Return the operating system's message if it caused an error."""
    said, cause = str(error), error.__cause__ or error.__context__
    while cause is not None:
        said = getattr(cause, "strerror", None) or said
        cause = cause.__cause__ or cause.__context__
    return said
