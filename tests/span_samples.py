"""Two spans with everything that a span can have."""

from __future__ import annotations

from esper_agents.observing.span import SpanEvent, SpanLink, TraceSpan

ROOT = TraceSpan(
    trace="0198f0aa" * 4,
    id="00000000000000a1",
    parent="",
    name="invoke_workflow esper",
    start_ns=1_700_000_000_000_000_000,
    end_ns=1_700_000_001_000_000_001,
    attributes={"gen_ai.operation.name": "invoke_workflow", "esper.unfinished": True},
    events=(SpanEvent("esper.routed", 1_700_000_000_500_000_000, {"gen_ai.agent.name": "doer"}),),
    links=(SpanLink("0198f0bb" * 4, "00000000000000b2", {"esper.link": "forked"}),),
)
CHAT = TraceSpan(
    trace=ROOT.trace,
    id="00000000000000a2",
    parent=ROOT.id,
    name="chat m",
    start_ns=ROOT.start_ns,
    end_ns=ROOT.end_ns,
    attributes={"gen_ai.usage.input_tokens": 2**40, "gen_ai.response.finish_reasons": ("end_turn",)},
    error="failed",
    is_remote=True,
)
