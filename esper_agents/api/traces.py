"""OpenTelemetry spans of a session: write them as OTLP JSON lines, or send them to a collector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.observing import collector, otlp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.observing.span import TraceSpan


@dataclass(frozen=True, slots=True)
class SessionTrace:
    """Trace of a session, computed from its ledger; the same ledger gives the same span IDs.

    Attributes:
        session: `ses_` identifier.
        spans: The session, its agents, their turns and tool calls.
    """

    session: str
    spans: tuple[TraceSpan, ...]

    @property
    def trace_id(self) -> str:
        """ID of the trace, 32 hexadecimal digits."""
        return self.spans[0].trace

    def json_lines(self) -> Iterator[str]:
        """Yield the spans as OTLP JSON lines, in ASCII.

        Raises:
            UsageError: OpenTelemetry is not installed.
        """
        return otlp.json_lines(self.spans)

    def send(self, url: str) -> str:
        """Send the spans to a collector, OTLP over HTTP, and return its host.

        Args:
            url: See `collector_url`.

        Raises:
            UsageError: It is not an HTTP URL, or OpenTelemetry is not installed.
            EsperError: The collector did not accept all spans.
        """
        address = collector_url(url)
        collector.send(self.spans, address)
        return collector.host_of(address)


def collector_url(text: str) -> str:
    """Return the URL that spans are sent to; without a path, `/v1/traces` is added.

    Raises:
        UsageError: It is not an HTTP URL.
    """
    return collector.address_of(text)
