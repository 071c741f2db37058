"""The offline memory specialist: what holds tensors alive, read, then run to see where the bytes are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Category
from esper_agents.domain.request import Quantity
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
from esper_agents.reasoning.memory_scaling import memory_scaling, stated_batch
from esper_agents.reasoning.static_specialist import SpecialistProfile, failed_gaps
from esper_agents.reasoning.target_choice import WHOLE_FIRST

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from esper_agents.domain.agent_action import Conclude, Move, ToolReport
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.frame import Brief
    from esper_agents.reasoning.static_specialist import ReviewSummary
    from esper_agents.reasoning.target_choice import ChosenTarget

_SPECIALISM = SpecialistProfile(
    categories=(Category.MEMORY,),
    searches=("no_grad", "detach("),
    meanings={
        "loss-kept-with-graph": (
            "A kept loss keeps the activations of its whole step alive: memory grows with every batch, so it fails "
            "after several batches and not at the first (a leak, not a model that is too large)."
        ),
        "evaluation-without-no-grad": "Evaluation that records a graph holds activations that nothing ever uses.",
        "item-in-training-loop": "It costs time and not memory: the host waits for every kernel queued before it.",
    },
    measured=(
        (
            "what the allocator holds on the GPU, and how it grows",
            (
                'python -c "import runpy, torch; torch.cuda.memory._record_memory_history(); '
                "runpy.run_path('{path}', run_name='__main__'); torch.cuda.memory._dump_snapshot('memory.pickle')\""
            ),
        ),
    ),
    why_measure="reading finds what can hold tensors; only a run tells how many bytes, and whether they grow",
    topics=("memory", "memory growth"),
)
_GROWS = "memory-grows-here"
# The second run makes more steps, so that what only fills up levels off, and what leaks grows by as much a step.
_STEPS, _MORE_STEPS = 8, 16
_SAME_RATE = 0.1
_KINDS = {
    "leak": "it holds more memory from step to step",
    "backward accumulation": "what backward saves or adds up is what takes most",
    "model too large": "the model, its batch or one activation is too large",
    "fragmentation": "memory is reserved and cannot be used",
}


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Read what can hold tensors, account for the bytes by running, run longer to refute it."""
    start = yield from start_measurement(brief, _SPECIALISM, WHOLE_FIRST)
    if not isinstance(start, MeasurementStart):
        return start
    asked, seen, target = start.asked, start.seen, start.target
    train = asked.train and target.kind != "step"
    reports = yield from run(brief, _memory(target, steps=_STEPS, train=train))
    first = completed(reports, "torch-memory")
    if first is None:
        return (yield from unmeasured(brief, seen, failed_gaps(reports)))
    reports += yield from run(brief, _memory(target, steps=_MORE_STEPS, train=train))
    hypotheses, gaps = tuple(_hypotheses(target, seen, reports)), tuple(_gaps(target, first))
    done = InvestigationState(seen, reports, hypotheses, _summary(brief, target, reports), gaps)
    prevention = first.evidence.output["result"].get("prevention")
    steps = (f"verify: {first.evidence.rerun}", *((f"prevent: {prevention}",) if prevention else ()))
    scaling = yield from memory_scaling(brief, target)
    conclusion = yield from conclude(
        brief, done, has_suggestions=False, caveats=_caveats(target, first), next_steps=steps
    )
    name = target.shown.rpartition(":")[2]
    growth = scaling.in_words(name, stated_batch(brief)) if scaling is not None else ""
    if not growth:
        return conclusion
    # That reading found nothing is no answer beside what the runs show.
    rest = conclusion.summary if seen.mine else done.summary
    return replace(conclusion, summary=f"{growth} {rest}")


def _memory(target: ChosenTarget, *, steps: int, train: bool) -> ToolCall:
    return ToolCall("torch-memory", {**target.arguments, "steps": steps, "train": train})


def _runs(reports: Sequence[ToolReport]) -> list[ToolReport]:
    return [
        report
        for report in reports
        if report.evidence.tool == "torch-memory" and report.evidence.outcome is CallOutcome.COMPLETED
    ]


def _hypotheses(target: ChosenTarget, seen: ReviewSummary, reports: Sequence[ToolReport]) -> Iterator[Hypothesis]:
    runs = _runs(reports)
    ids, command = tuple(each.evidence.id for each in runs), runs[0].evidence.rerun
    kinds = {str(each.evidence.output["status"]) for each in runs}
    has_allocator = "allocator" in runs[0].evidence.output["result"]
    for kind, words in _KINDS.items():
        # Without an allocator that reserves memory, fragmentation is an information gap.
        if kind != "fragmentation" or has_allocator:
            state = settled(is_so=kind in kinds)
            yield Hypothesis(f"{target.shown}: {words}", 1.0 if kind in kinds else 0.5, state, ids, command)
    rates = [each.evidence.output.get("bytes_per_step") or 0 for each in runs]
    if len(rates) > 1 and rates[0] > 0:
        is_same = abs(rates[1] - rates[0]) <= _SAME_RATE * rates[0]
        text = f"{target.shown} grows by {rates[0]} bytes a step, however many steps are made"
        yield Hypothesis(text, 0.9, settled(is_so=is_same), ids, command)
    held = {str(each.claim.location) for each in measured(reports) if each.claim.name == _GROWS}
    for each in seen.mine:
        place = str(each.claim.location)
        text = f"{each.claim.name} at {place} is what holds memory when {target.shown} runs"
        yield Hypothesis(text, 0.6, settled(is_so=place in held), ids, command)


def _summary(brief: Brief, target: ChosenTarget, reports: Sequence[ToolReport]) -> str:
    runs = _runs(reports)
    first = runs[0].evidence.output
    said = " ".join(f"{each.evidence.summary}." for each in runs)
    # The sizes of inputs made by the program are small, and tell nothing of the user's.
    if target.definition and first["status"] == "none":
        state = "That is so for calls with these inputs; other methods and your sizes were not run."
    else:
        found = "With these inputs, not yours: " if target.definition else "Kind of trouble: "
        state = f"{found}{first['status']}, as {first['because']}."
    ran = f"{brief.agent.name} ran {target.ran}."
    return f"{ran} {said} {state}{_holder(first)}{_observed(brief, first)}"


def _observed(brief: Brief, output: JsonObject) -> str:
    """Return the measured growth in terms of the user's observation, such as `40 MB every epoch`."""
    seen = brief.request.observed(Quantity.BYTES) if brief.request else None
    rate = output.get("bytes_per_step") or 0
    if seen is None or seen.value is None or rate <= 0:
        return ""
    return f' At {rate} bytes a step, "{seen.text}" takes {max(1, round(seen.value / rate))} steps.'


def _holder(output: JsonObject) -> str:
    holders = output["result"].get("leak", {}).get("holders") or []
    if not holders:
        return ""
    first = holders[0]
    where = f" at {first['file']}:{first.get('kept_line') or first.get('line')}" if first.get("file") else ""
    return f" What holds it: {first['name']}{where}."


def _caveats(target: ChosenTarget, first: ToolReport) -> tuple[str, ...]:
    device = first.evidence.output["result"]["device"]
    texts = [f"Measured on {device} under torch {first.evidence.output['torch']}, on the inputs of {target.shown}."]
    if device == "cpu":
        texts.append("The caching allocator of a GPU reserves more than is allocated here.")
    return tuple(texts)


def _gaps(target: ChosenTarget, first: ToolReport) -> Iterator[InformationGap]:
    if "allocator" not in first.evidence.output["result"]:
        yield InformationGap(
            "what a GPU's allocator reserves, and whether it fragments",
            "fragmentation shows only there",
            f"esper torch memory {target.name} --device cuda",
        )
