"""Conditions about autograd graphs, decided by the semantic model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.conditions import are_alternatives
from esper_agents.review.model.query import EventKind, runs
from esper_agents.review.usages.registry import ConditionResult, condition

if TYPE_CHECKING:
    from esper_agents.review.model.events import Frame
    from esper_agents.review.model.ir import SourcePosition
    from esper_agents.review.model.query import ModelEvent, Run
    from esper_agents.review.usages.registry import UsageContext

_BACKWARD = (EventKind.BACKWARD, EventKind.GRADIENT)
# Leaves hold no part of a graph that backward frees.
_LEAVES = frozenset({EventKind.PARAMETER, EventKind.INPUT, EventKind.ELEMENT})


@condition
def graph_used_again(context: UsageContext) -> ConditionResult:
    """Whether a later backward call goes through the graph that this one goes through."""
    is_seen = False
    for run in runs(context.index):
        sent = list(run.of_kind(*_BACKWARD))
        for event in sent:
            if not _is_here(context, event):
                continue
            graph = run.expanded(event.graph)
            if not any(graph & each.bit and each.kind not in _LEAVES for each in run.events):
                return ConditionResult(None)
            if event.kind is not EventKind.BACKWARD:
                # `autograd.grad` goes through the part between outputs and inputs only.
                return ConditionResult(None)
            is_seen = True
            later = next((other for other in sent if _shares(context, run, event, other)), None)
            if later is not None and later.kind is not EventKind.BACKWARD:
                return ConditionResult(None)
            if later is not None:
                place = f"{later.path}:{later.at.line}"
                when = "in the next round" if _is_here(context, later) else "later"
                return ConditionResult(True, {"again": place, "again_when": when})
            if run.entry.is_open and run.expanded(run.entry.returned) & graph:
                # A caller may send it backward as well.
                return ConditionResult(None)
    return ConditionResult(False if is_seen else None)


def _is_here(context: UsageContext, event: ModelEvent) -> bool:
    return _activation(context, event) is not None


def _activation(context: UsageContext, event: ModelEvent) -> Frame | ModelEvent | None:
    """Return the call at the place that leads to an event, or the event itself; None if it is elsewhere."""
    site = context.site
    inner: Frame | ModelEvent = event
    frame: Frame | None = event.frame
    at: SourcePosition | None = event.at
    while frame is not None and at is not None:
        if frame.code.file.path == site.file.path and site.first_line <= at.line <= site.last_line:
            return inner
        inner, at, frame = frame, frame.call_at, frame.parent
    return None


def _shares(context: UsageContext, run: Run, first: ModelEvent, later: ModelEvent) -> bool:
    """Return whether a later backward call, not of the other branch, goes through the graph of the first one."""
    is_same_call = _activation(context, first) is _activation(context, later)
    if later.number <= first.number or is_same_call or _are_apart(context, later):
        return False
    common = run.expanded(first.graph) & run.expanded(later.graph)
    return any(common & event.bit and event.kind not in _LEAVES for event in run.events)


def _are_apart(context: UsageContext, later: ModelEvent) -> bool:
    call = context.site.call
    others = [each for each in context.site.function.calls if each.line <= later.at.line <= (each.node.end_lineno or 0)]
    return call is not None and any(are_alternatives(call.block, each.block) for each in others if each is not call)


@condition
def in_autograd_function(context: UsageContext) -> ConditionResult:
    """Whether the place is in a method of a `torch.autograd.Function`, which runs without recording a graph."""
    owner = context.site.function.owner
    is_one = owner is not None and any(base.endswith("autograd.Function") for base in owner.bases)
    method = context.site.function.name
    return ConditionResult(is_one and method in {"forward", "setup_context"}, {"owner": owner.name if owner else ""})
