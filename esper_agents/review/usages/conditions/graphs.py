"""Conditions about autograd graphs, decided by the semantic model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.conditions import are_alternatives
from esper_agents.review.model.query import EventKind, runs
from esper_agents.review.usages.registry import Decision, condition

if TYPE_CHECKING:
    from esper_agents.review.model.query import ModelEvent, Run
    from esper_agents.review.usages.registry import UsageContext

_BACKWARD = (EventKind.BACKWARD, EventKind.GRADIENT)
# Leaves hold no part of a graph that backward frees.
_LEAVES = frozenset({EventKind.PARAMETER, EventKind.INPUT, EventKind.ELEMENT})


@condition
def graph_used_again(context: UsageContext) -> Decision:
    """Whether a later backward call goes through the graph that this one goes through."""
    is_seen = False
    for run in runs(context.index):
        sent = list(run.of_kind(*_BACKWARD))
        for event in sent:
            if not _is_here(context, event):
                continue
            graph = run.expanded(event.graph)
            if not any(graph & each.bit and each.kind not in _LEAVES for each in run.events):
                return Decision(None)
            is_seen = True
            later = next((other for other in sent if _shares(context, run, event, other)), None)
            if later is not None:
                place = f"{later.path}:{later.at.line}"
                when = "in the next round" if later.at == event.at else "later"
                return Decision(True, {"again": place, "again_when": when})
            if run.entry.is_open and run.expanded(run.entry.returned) & graph:
                # A caller may send it backward as well.
                return Decision(None)
    return Decision(False if is_seen else None)


def _is_here(context: UsageContext, event: ModelEvent) -> bool:
    site = context.site
    return event.path == site.file.path and site.first_line <= event.at.line <= site.last_line


def _shares(context: UsageContext, run: Run, first: ModelEvent, later: ModelEvent) -> bool:
    """Return whether a later backward call, not of the other branch, goes through the graph of the first one."""
    if later.number <= first.number or _are_apart(context, later):
        return False
    common = run.expanded(first.graph) & run.expanded(later.graph)
    return any(common & event.bit and event.kind not in _LEAVES for event in run.events)


def _are_apart(context: UsageContext, later: ModelEvent) -> bool:
    call = context.site.call
    others = [each for each in context.site.function.calls if each.line <= later.at.line <= (each.node.end_lineno or 0)]
    return call is not None and any(are_alternatives(call.block, each.block) for each in others if each is not call)
