"""The offline NaN specialist: operations that can make a NaN or Inf, read, then run to see which one does first."""

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
from esper_agents.reasoning.request_answer import steps_asked
from esper_agents.reasoning.static_specialist import SpecialistProfile, failed_gaps
from esper_agents.reasoning.target_choice import WHOLE_FIRST

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from esper_agents.domain.agent_action import Conclude, Move, ToolReport
    from esper_agents.domain.frame import Brief
    from esper_agents.reasoning.static_specialist import ReviewSummary
    from esper_agents.reasoning.target_choice import ChosenTarget

_SPECIALISM = SpecialistProfile(
    categories=(Category.SILENT_CORRECTNESS,),
    searches=("torch.log(", "torch.sqrt(", "clamp("),
    meanings={
        "log-of-probability": (
            "A probability that underflows to 0 has the logarithm minus infinity: the loss becomes infinite, and its "
            "gradient NaN."
        ),
        "root-at-zero": "The derivative of a square root at 0 is infinite: one exact zero makes every gradient NaN.",
        "division-without-floor": "A divisor that reaches 0 gives Inf, or NaN where the numerator is 0 as well.",
    },
    measured=(
        (
            "which operation makes the first NaN or Inf",
            (
                'python -c "import torch, runpy; torch.autograd.set_detect_anomaly(True); '
                "runpy.run_path('{path}', run_name='__main__')\""
            ),
        ),
    ),
    why_measure="reading finds operations that can make a NaN; only a run tells which one does, and on which batch",
    topics=("NaN or Inf", "gradients", "convergence", "mixed precision"),
)
_FIRST = "first-non-finite"
# A rare batch shows late; as many steps again are made to refute that a run is clean.
_STEPS, _MORE_STEPS = 20, 100
# Of the steps after which the user saw it.
_MOST_STEPS = 500


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Read what can make a NaN, run to see the first one, and try to refute that by running otherwise."""
    start = yield from start_measurement(brief, _SPECIALISM, WHOLE_FIRST)
    if not isinstance(start, MeasurementStart):
        return start
    seen, target = start.seen, start.target
    is_step = target.kind == "step"
    steps = steps_asked(brief, _STEPS, _MOST_STEPS)
    reports = yield from run(brief, _nan(target, steps=steps, train=not is_step))
    first = completed(reports, "torch-nan")
    if first is None:
        return (yield from unmeasured(brief, seen, failed_gaps(reports)))
    reports += yield from run(brief, _attempt(target, first, is_step=is_step, steps=steps))
    hypotheses, gaps = tuple(_hypotheses(target, seen, reports)), tuple(_gaps(target, seen, reports))
    done = InvestigationState(seen, reports, hypotheses, _summary(brief, target, reports), gaps)
    return (yield from conclude(brief, done, has_suggestions=False, caveats=_caveats(target, reports)))


def _nan(target: ChosenTarget, *, steps: int, train: bool) -> ToolCall:
    return ToolCall("torch-nan", {**target.arguments, "steps": steps, "train": train})


def _attempt(target: ChosenTarget, first: ToolReport, *, is_step: bool, steps: int) -> ToolCall:
    """Return what could refute the answer: more batches for a clean run, otherwise the same again, without backward."""
    if first.evidence.output["status"] == "clean":
        return _nan(target, steps=max(_MORE_STEPS, 2 * steps), train=not is_step)
    return _nan(target, steps=steps, train=False)


def _hypotheses(target: ChosenTarget, seen: ReviewSummary, reports: Sequence[ToolReport]) -> Iterator[Hypothesis]:
    done = [report for report in reports if report.evidence.outcome is CallOutcome.COMPLETED]
    ids = tuple(each.evidence.id for each in done)
    command = done[0].evidence.rerun
    bad = [each for each in done if each.evidence.output["status"] != "clean"]
    yield Hypothesis(f"a run of {target.shown} leaves a NaN or Inf", 1.0, settled(is_so=bool(bad)), ids, command)
    places = {_place(each) for each in bad} - {""}
    if len(bad) > 1 and len(places) == 1:
        text = f"the first one comes from {min(places)} in every run"
        yield Hypothesis(text, 0.9, settled(is_so=True), tuple(each.evidence.id for each in bad), command)
    for each in seen.mine:
        place = each.claim.location
        is_met = str(place) in places
        text = f"{each.claim.name} at {place} makes the first NaN or Inf when {target.shown} runs on these inputs"
        yield Hypothesis(text, 0.5, settled(is_so=is_met), ids, command)


def _place(report: ToolReport) -> str:
    return next((str(finding.claim.location) for finding in report.findings if finding.claim.name == _FIRST), "")


def _summary(brief: Brief, target: ChosenTarget, reports: Sequence[ToolReport]) -> str:
    said = " ".join(f"{report.evidence.summary}." for report in reports)
    first = next((each.claim for each in measured(reports)), None)
    why = f" {first.message[0].upper()}{first.message[1:]}." if first else ""
    return f"{brief.agent.name} ran {target.ran}. {said}{why}"


def _caveats(target: ChosenTarget, reports: Sequence[ToolReport]) -> tuple[str, ...]:
    if measured(reports):
        return (
            f"One case proves it; fix it, and run {target.shown} again: a later operation may hide behind the first.",
        )
    return (f"No finite run of {target.shown} excludes a batch on which it would not be finite.",)


def _gaps(target: ChosenTarget, seen: ReviewSummary, reports: Sequence[ToolReport]) -> Iterator[InformationGap]:
    if not measured(reports):
        yield InformationGap(
            "a batch, and the parameters of that step, on which a NaN or Inf appears",
            f"{target.shown} stays finite on the inputs of this run, which does not show where yours came from",
            f"esper torch nan {target.name} --inputs FILE:FUNCTION",
            blocks_approval=not seen.mine,
        )
