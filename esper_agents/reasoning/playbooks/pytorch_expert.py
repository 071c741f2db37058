"""The offline torch.compile specialist: where compiled code leaves the graph, read, then compiled to see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Category
from esper_agents.reasoning.hypotheses import Hypothesis, settled
from esper_agents.reasoning.investigation import (
    InvestigationState,
    completed,
    conclude,
    measured,
    run,
    unmeasured,
)
from esper_agents.reasoning.measurement_start import MeasurementStart, start_measurement
from esper_agents.reasoning.static_specialist import SpecialistProfile, failed_gaps
from esper_agents.reasoning.target_choice import GRAPH_FIRST

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from esper_agents.domain.agent_action import Conclude, Move, ToolReport
    from esper_agents.domain.frame import Brief
    from esper_agents.reasoning.static_specialist import ReviewSummary
    from esper_agents.reasoning.target_choice import ChosenTarget
    from esper_agents.requests.measurement_options import MeasurementRequest

_SPECIALISM = SpecialistProfile(
    categories=(Category.COMPILE,),
    searches=("torch.compile", "fullgraph"),
    meanings={
        "graph-break": (
            "A graph break splits the compiled region: each piece is compiled and launched by itself, and nothing is "
            "fused across the break."
        ),
        "compile-in-loop": "Compiling inside a loop pays for tracing again and again.",
        "legacy-amp": "The old names of mixed precision still work today and will not for ever.",
    },
    measured=(("which graph breaks happen when it runs", 'TORCH_LOGS="graph_breaks,recompiles" python {path}'),),
    why_measure="reading finds sources of breaks; only a run tells which of them are met, and how often",
    topics=("torch.compile", "export"),
)
_BROKEN, _AGAIN = "graph-broken-here", ("compiled-again-here", "compiler-gave-up")


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Read what can break the graph, compile it to see what does, try to refute that by exporting it."""
    start = yield from start_measurement(brief, _SPECIALISM, GRAPH_FIRST)
    if not isinstance(start, MeasurementStart):
        return start
    asked, seen, target = start.asked, start.seen, start.target
    is_step = target.kind == "step"
    reports = yield from run(brief, _explain(target, train=asked.train and not is_step))
    first = completed(reports, "torch-explain")
    if first is None:
        return (yield from unmeasured(brief, seen, failed_gaps(reports)))
    reports += yield from run(brief, *_attempts(target, first, asked))
    hypotheses, summary = tuple(_hypotheses(target, seen, reports)), _summary(brief, target, first, reports)
    done = InvestigationState(seen, reports, hypotheses, summary, (_speed_gap(target),))
    return (yield from conclude(brief, done, has_suggestions=False, caveats=_caveats(target, first)))


def _explain(target: ChosenTarget, *, train: bool) -> ToolCall:
    return ToolCall("torch-explain", {**target.arguments, "train": train})


def _attempts(target: ChosenTarget, first: ToolReport, asked: MeasurementRequest) -> Iterator[ToolCall]:
    """Yield what could refute the first answer: export traces the same code by another way; training is another run."""
    if target.kind == "step":
        yield _explain(target, train=True)
        return
    is_clean = first.evidence.output["status"] == "clean"
    if asked.export or not is_clean:
        yield ToolCall("torch-export", target.arguments)
    if is_clean:
        yield _explain(target, train=not asked.train)


def _hypotheses(target: ChosenTarget, seen: ReviewSummary, reports: Sequence[ToolReport]) -> Iterator[Hypothesis]:
    compiled = _done(reports, "torch-explain")
    ids = tuple(each.evidence.id for each in compiled)
    command = compiled[0].evidence.rerun
    found = measured(reports)
    is_clean = all(each.evidence.output["status"] == "clean" for each in compiled)
    yield Hypothesis(f"torch.compile makes one graph of {target.shown}", 1.0, settled(is_so=is_clean), ids, command)
    recompiles = any(each.claim.name in _AGAIN for each in found)
    text = f"{target.shown} is compiled again from call to call"
    yield Hypothesis(text, 0.8, settled(is_so=recompiles), ids, command)
    broken = {(each.claim.location.path, each.claim.location.line) for each in found if each.claim.name == _BROKEN}
    for each in seen.mine:
        if each.claim.name == "graph-break":
            place = each.claim.location
            is_met = (place.path, place.line) in broken
            text = f"{place} breaks the graph when {target.shown} runs on these inputs"
            yield Hypothesis(text, 0.5, settled(is_so=is_met), ids, command)
    if exported := _done(reports, "torch-export"):
        evidence = exported[0].evidence
        text = f"torch.export takes {target.shown} as it is"
        yield Hypothesis(
            text, 0.4, settled(is_so=evidence.output["status"] == "exports"), (evidence.id,), evidence.rerun
        )


def _done(reports: Sequence[ToolReport], tool: str) -> list[ToolReport]:
    return [
        report
        for report in reports
        if report.evidence.tool == tool and report.evidence.outcome is CallOutcome.COMPLETED
    ]


def _summary(brief: Brief, target: ChosenTarget, first: ToolReport, reports: Sequence[ToolReport]) -> str:
    answers = " ".join(f"{report.evidence.summary}." for report in reports)
    version = first.evidence.output["torch"]
    return f"{brief.agent.name}, under torch {version}, ran {target.ran}. {answers}"


def _caveats(target: ChosenTarget, first: ToolReport) -> tuple[str, ...]:
    version = first.evidence.output["torch"]
    return (
        f"It holds for torch {version} and the inputs that {target.shown} was given; others can break elsewhere.",
        "Compiled without inductor: what only code generation would refuse was not tried.",
    )


def _speed_gap(target: ChosenTarget) -> InformationGap:
    return InformationGap(
        "what the breaks cost in time",
        "a break that is rarely met may cost nothing",
        f"esper torch profile {target.name}",
    )
