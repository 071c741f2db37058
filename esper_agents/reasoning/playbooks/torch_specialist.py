"""The offline kernel specialist: what binds an operation, how far from the bound it is, and what could be won there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import RiskAssessment, RiskRow, ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.finding import Category
from esper_agents.reasoning.finding_ownership import COMPILER, DOMAINS, MEMORY
from esper_agents.reasoning.hypotheses import Hypothesis, settled
from esper_agents.reasoning.investigation import (
    InvestigationState,
    build_handoff,
    completed,
    conclude,
    measured,
    part_for,
    run,
    unmeasured,
)
from esper_agents.reasoning.measurement_start import MeasurementStart, start_measurement
from esper_agents.reasoning.static_specialist import SpecialistProfile, failed_gaps
from esper_agents.reasoning.target_choice import GRAPH_FIRST

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from esper_agents.domain.agent_action import Conclude, Move, ToolReport
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.handoff import OpenPart
    from esper_agents.reasoning.target_choice import ChosenTarget

_SPECIALISM = SpecialistProfile(
    categories=(Category.PERFORMANCE,),
    searches=(".contiguous()", "channels_last", "torch.compile"),
    meanings={
        "concatenation-in-loop": "Concatenating in a loop copies all that came before, again each time.",
        "model-moved-in-loop": "Moving a model in a loop copies every parameter, again each time.",
    },
    measured=(
        ("which operation binds the run, and at which share of the machine's best", "esper torch profile {path}:NAME"),
    ),
    why_measure="an operation that takes two percent of a run is not worth any work",
    is_whole=True,
    topics=("speed", "idle device", "torch.compile", "mixed precision", "data loading", "memory", "memory growth"),
)
_BROKEN, _GROWS = "graph-broken-here", "memory-grows-here"
_MOST_OPERATIONS = 3
_AGREEING = 0.15
# What the bound of an operation says could be done about it, the safe thing first.
_MECHANISMS = {
    "compute": "larger or merged products, or lower precision where the error budget allows it",
    "bandwidth": "fuse the chain it stands in (torch.compile), work in place, or use a smaller dtype",
    "dispatch": "batch the small operations, use foreach variants, or compile the region that launches them",
    "allocation": "keep the buffer from call to call and write into it (out=, in place)",
}


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Find what binds the run, try to refute it by other tools, and propose what could be won, as estimates."""
    start = yield from start_measurement(brief, _SPECIALISM, GRAPH_FIRST)
    if not isinstance(start, MeasurementStart):
        return start
    asked, seen, target = start.asked, start.seen, start.target
    given = {**target.arguments, "train": asked.train and target.kind != "step"}
    reports = yield from run(brief, ToolCall("torch-profile", given))
    first = completed(reports, "torch-profile")
    if first is None:
        return (yield from unmeasured(brief, seen, failed_gaps(reports)))
    again = ToolCall("torch-profile", {**given, "effort": "quick"})
    reports += yield from run(brief, again, ToolCall("torch-explain", given), ToolCall("torch-memory", given))
    hypotheses = tuple(_hypotheses(target, first, reports))
    done = InvestigationState(seen, reports, hypotheses, _summary(brief, target, first, reports), (_proof_gap(target),))
    if parts := _parts(brief, done):
        yield build_handoff(brief, done, parts, f"what was measured is {parts[0].agent}'s: {parts[0].question}")
    return (
        yield from conclude(
            brief,
            done,
            caveats=("What a change would save is an estimate by arithmetic; no speed-up was measured here.",),
            next_steps=tuple(_proposals(first)),
            risks=_risks(),
        )
    )


def _analysis(report: ToolReport) -> JsonObject:
    analysis: JsonObject = report.evidence.output["result"]["analysis"]
    return analysis


def _hypotheses(target: ChosenTarget, first: ToolReport, reports: Sequence[ToolReport]) -> Iterator[Hypothesis]:
    analysis, evidence = _analysis(first), first.evidence
    profiles = [
        report for report in reports if report.evidence.tool == "torch-profile" and "share" in report.evidence.output
    ]
    ids = tuple(profile.evidence.id for profile in profiles)
    for kind, share in analysis["shares"].items():
        if share >= _AGREEING and kind != "unexplained":
            again = [_analysis(profile)["shares"].get(kind, 0.0) for profile in profiles[1:]]
            is_so = abs(again[0] - share) <= _AGREEING if again else None
            text = f"{kind} binds {share:.0%} of a call of {target.shown}, profiled twice"
            yield Hypothesis(text, share, settled(is_so=is_so), ids, evidence.rerun)
    if explained := completed(reports, "torch-explain"):
        is_clean = explained.evidence.output["status"] == "clean"
        text = f"{target.shown} can be compiled as one graph, so that what is elementwise can be fused"
        weight = analysis["shares"].get("memory-bandwidth", 0.0) + analysis["shares"].get("dispatch-and-python", 0.0)
        yield Hypothesis(text, weight, settled(is_so=is_clean), (explained.evidence.id,), explained.evidence.rerun)
    if remembered := completed(reports, "torch-memory"):
        grows = any(finding.claim.name == _GROWS for finding in remembered.findings)
        text = f"{target.shown} holds no more memory from step to step"
        yield Hypothesis(text, 0.1, settled(is_so=not grows), (remembered.evidence.id,), remembered.evidence.rerun)


def _summary(brief: Brief, target: ChosenTarget, first: ToolReport, reports: Sequence[ToolReport]) -> str:
    said = " ".join(f"{each.evidence.summary}." for each in (first, *reports[2:]))
    rows = "; ".join(_row(each) for each in _analysis(first)["operations"][:_MOST_OPERATIONS] if isinstance(each, dict))
    return f"{brief.agent.name} measured {target.ran}. {said} Costliest: {rows or 'no operation'}."


def _row(row: JsonObject) -> str:
    ceiling = max(row.get("product_ceiling_share", 0.0), row.get("stream_ceiling_share", 0.0))
    of_bound = f", at {ceiling:.0%} of that bound" if ceiling else ""
    where = f" at {row['file']}:{row['line']}" if row.get("file") else ""
    return f"{row['name']}{where} {row['share']:.0%} of a call, bound by {row['bound']}{of_bound}"


def _proposals(first: ToolReport) -> Iterator[str]:
    """Yield what could be done about the costliest operations, each with the most that it could give and why."""
    for row in _analysis(first)["operations"][:_MOST_OPERATIONS]:
        if isinstance(row, dict) and row["share"] < 1:
            most = 1 / max(1 - row["share"], 0.01)
            estimate = f"at most {most:.3g}x, as it takes {row['share']:.0%} (1 / (1 - {row['share']:.2f}))"
            yield f"{row['name']}: {_MECHANISMS[row['bound']]}; {estimate}; check against eager in float64"


def _parts(brief: Brief, done: InvestigationState) -> tuple[OpenPart, ...]:
    found = measured(done.reports)
    for name, agent in ((_BROKEN, COMPILER), (_GROWS, MEMORY)):
        mine = [each for each in found if each.claim.name == name]
        if mine and (parts := part_for(brief, agent, DOMAINS[agent], mine)):
            return parts
    return ()


def _proof_gap(target: ChosenTarget) -> InformationGap:
    return InformationGap(
        "what a change gives when it is measured",
        "an estimate bounds it; pytorch-ultimate-performance-engineer certifies it",
        f"esper torch compare {target.name} FILE.py:NEW",
    )


def _risks() -> RiskAssessment:
    rows = (
        RiskRow(
            "a change alters the numbers", "Medium", "Medium", "compare with eager and with float64 before it stays"
        ),
        RiskRow(
            "own kernels or lower precision are needed", "High", "Low", "a person agrees first; a switch turns it off"
        ),
    )
    return RiskAssessment("Low", "Easy", rows)
