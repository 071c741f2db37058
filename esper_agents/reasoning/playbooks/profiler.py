"""The offline profiler: where the time of a run goes, by measurement; it names the bottleneck and cures nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import ToolCall
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
from esper_agents.reasoning.target_choice import WHOLE_FIRST

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from esper_agents.domain.agent_action import Conclude, Move, ToolReport
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.handoff import OpenPart
    from esper_agents.reasoning.target_choice import ChosenTarget
    from esper_agents.requests.measurement_options import MeasurementRequest

_SPECIALISM = SpecialistProfile(
    categories=(Category.PERFORMANCE,),
    searches=("torch.compile", "DataLoader("),
    meanings={
        "model-moved-in-loop": "Moving a model in a loop copies every parameter, again each time.",
        "data-loader-without-workers": "A loader without workers prepares each batch while the step waits for it.",
        "concatenation-in-loop": "Concatenating in a loop copies all that came before, again each time.",
    },
    measured=(("where the time of a step goes", "python -m cProfile -s cumulative {path}"),),
    why_measure="reading finds what can cost time; only a run tells which share it has",
    is_whole=True,
    topics=("speed", "idle device", "data loading", "torch.compile"),
)
_BROKEN = "graph-broken-here"
_WEIGHTY_SHARE = 0.05
# Two looks at the same run agree about a share when they are no further apart than this.
_AGREEING = 0.15
# A step that holds so much at its end, above what it began with, is looked at by who knows memory.
_KEPT_BYTES = 65_536


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Read what can cost time, profile, profile again to refute it, and hand on what others own."""
    start = yield from start_measurement(brief, _SPECIALISM, WHOLE_FIRST)
    if not isinstance(start, MeasurementStart):
        return start
    asked, seen, target = start.asked, start.seen, start.target
    train = asked.train and target.kind != "step"
    given = {**target.arguments, "train": train}
    reports = yield from run(brief, ToolCall("torch-profile", given))
    first = completed(reports, "torch-profile")
    if first is None:
        return (yield from unmeasured(brief, seen, failed_gaps(reports)))
    again, explain = ToolCall("torch-profile", {**given, "effort": "quick"}), ToolCall("torch-explain", given)
    reports += yield from run(brief, again, *((explain,) if first.evidence.output["is_compiled"] else ()))
    gaps = tuple(_gaps(target, asked))
    done = InvestigationState(
        seen, reports, tuple(_hypotheses(target, reports)), _summary(brief, target, reports), gaps
    )
    if parts := _parts(brief, target, done):
        yield build_handoff(brief, done, parts, f"the profile shows what {parts[0].agent} owns: {parts[0].question}")
    verify = first.evidence.output["result"]["analysis"]["verify"][0]
    return (yield from conclude(brief, done, caveats=_caveats(first), next_steps=(f"verify: {verify}",)))


def _hypotheses(target: ChosenTarget, reports: Sequence[ToolReport]) -> Iterator[Hypothesis]:
    """Yield one for each kind of bottleneck that the first profile shows; the second one may refute it."""
    profiles = [
        report.evidence
        for report in reports
        if report.evidence.tool == "torch-profile" and "share" in report.evidence.output
    ]
    ids, command = tuple(profile.id for profile in profiles), profiles[0].rerun
    first, *others = (profile.output["result"]["analysis"] for profile in profiles)
    for kind, share in first["shares"].items():
        if share < _WEIGHTY_SHARE or kind == "unexplained":
            continue
        again = [each["shares"].get(kind, 0.0) for each in others]
        is_so = abs(again[0] - share) <= _AGREEING if again else None
        text = f"{kind} takes {share:.0%} of a call of {target.shown}"
        yield Hypothesis(
            f"{text}, and about as much when it is profiled again", share, settled(is_so=is_so), ids, command
        )
    if hot := first.get("hot"):
        agreeing = [each["tool"] for each in hot["witnesses"] if each["agrees"]]
        where = f"{hot['name']} at {hot['file']}:{hot['line']}"
        text = f"{where} takes {hot['total_share']:.0%} of a call, as {', '.join(agreeing)} say"
        yield Hypothesis(text, hot["total_share"], settled(is_so=len(agreeing) > 1), ids[:1], command)


def _summary(brief: Brief, target: ChosenTarget, reports: Sequence[ToolReport]) -> str:
    first = reports[0].evidence
    analysis: JsonObject = first.output["result"]["analysis"]
    advice = analysis["advice"][0]
    bound = f"No cure of that gives more than {analysis['most_speedup']:.3g}x."
    profiled = f"{brief.agent.name} profiled {target.ran}."
    again = reports[1].evidence.output.get("status") if len(reports) > 1 else None
    doubt = (
        f" Profiled again it was {again}, so the kind is not settled."
        if again not in {None, first.output["status"]}
        else ""
    )
    return f"{profiled} {first.summary}. {advice['problem']}. {bound}{doubt}"


def _parts(brief: Brief, target: ChosenTarget, done: InvestigationState) -> tuple[OpenPart, ...]:
    """Return whose the matter is, where it is somebody else's: a broken graph first, then memory that stays."""
    broken = [each for each in measured(done.reports) if each.claim.name == _BROKEN]
    if broken and (parts := part_for(brief, COMPILER, DOMAINS[COMPILER], broken)):
        return parts
    memory = done.reports[0].evidence.output["result"].get("memory") or {}
    if target.kind == "step" and memory.get("kept_bytes", 0) >= _KEPT_BYTES:
        return part_for(brief, MEMORY, DOMAINS[MEMORY], ())
    return ()


def _caveats(first: ToolReport) -> tuple[str, ...]:
    analysis: JsonObject = first.evidence.output["result"]["analysis"]
    result = first.evidence.output["result"]
    threads = "1 thread" if result["threads"] == 1 else f"{result['threads']} threads"
    texts = [f"Measured with {threads} on {result['device']} under torch {first.evidence.output['torch']}."]
    if not analysis["is_clear"]:
        texts.append(f"{analysis['bottleneck']} and {analysis['runner_up']} are too near each other to be told apart.")
    return tuple(texts)


def _gaps(target: ChosenTarget, asked: MeasurementRequest) -> Iterator[InformationGap]:
    yield InformationGap(
        "how much a cure would give",
        "a share bounds it, and only a comparison shows it",
        f"esper torch compare {target.name} FILE.py:NEW",
    )
    if not asked.train and target.kind == "module":
        yield InformationGap("the backward pass", "training has one", f"esper torch profile {target.name} --train")
