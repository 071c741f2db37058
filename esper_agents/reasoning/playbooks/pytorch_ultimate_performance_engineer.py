"""The offline performance engineer: decides by measurement whether something is faster, under a frozen baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import Ask, RiskAssessment, RiskRow, ToolCall, UserAnswer
from esper_agents.domain.assumption import Assumption, InformationGap, Tier
from esper_agents.domain.finding import Category
from esper_agents.domain.status import Stance
from esper_agents.reasoning.alternatives import compare_alternatives, find_alternatives, inspections
from esper_agents.reasoning.hypotheses import Hypothesis, settled
from esper_agents.reasoning.investigation import InvestigationState, completed, conclude, reads_only, run, unmeasured
from esper_agents.reasoning.static_specialist import SpecialistProfile, failed_gaps, look, work
from esper_agents.reasoning.target_choice import WHOLE_FIRST, ChosenTarget, choose, looking, pair
from esper_agents.requests.measurement_options import measurement_options

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from esper_agents.domain.agent_action import Conclude, Move, ToolReport
    from esper_agents.domain.frame import Brief
    from esper_agents.requests.measurement_options import MeasurementRequest

_SPECIALISM = SpecialistProfile(
    categories=(Category.PERFORMANCE,),
    searches=("torch.compile", "torch.backends"),
    meanings={},
    measured=(("whether one version is faster than another", "esper torch compare {path}:OLD {path}:NEW"),),
    why_measure="a speed-up that was not measured is none",
    is_whole=True,
    topics=("speed", "idle device", "torch.compile", "mixed precision", "data loading", "memory", "memory growth"),
)
_FASTER = "faster as claimed"
_WRONG, _NOT_FASTER = "wrong", "not as fast as claimed"
_METRICS = {"peak_bytes": "peak bytes", "operations": "operations", "graph_breaks": "graph breaks"}
_NO_REVISION = "with nothing: only say where the time goes"
# Of the time that the comparison says is saved, so much must be gone by the clocks of the profiles as well.
_CONFIRMED_SHARE = 0.5


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Freeze a baseline, compare one change with it, cross-check by other tools, decide by the lower bound."""
    if reads_only(brief, _SPECIALISM.topics):
        return (yield from work(brief, _SPECIALISM))
    asked = measurement_options(brief.task.request)
    state = ToolCall("git-state", {})
    if pairs := (yield from find_alternatives(brief, asked)):
        seen = yield from look(brief, _SPECIALISM, *inspections(brief, pairs), inspects=False)
        return (yield from compare_alternatives(brief, asked, seen, pairs))
    seen = yield from look(brief, _SPECIALISM, looking(brief, asked), state)
    arms = pair(brief, asked, seen.others[0])
    base = asked.base
    if isinstance(arms, InformationGap):
        target = yield from choose(brief, asked, seen.others[0], WHOLE_FIRST)
        if isinstance(target, InformationGap):
            return (yield from unmeasured(brief, seen, (target,)))
        base = base or (yield from _revision(brief, asked, seen.others[1]))
        arms = (target, target)
        if not base:
            reports = yield from run(brief, *_profiles(arms, asked))
            done = InvestigationState(
                seen, reports, (), _baseline_only(brief, target, reports), (_candidate_gap(target),)
            )
            return (yield from conclude(brief, done, caveats=("A baseline alone shows no speed-up.",)))
    reports = yield from run(brief, _compare(arms, base, asked))
    first = completed(reports, "torch-compare")
    if first is None:
        return (yield from unmeasured(brief, seen, failed_gaps(reports)))
    if first.evidence.output["outcome"] != _WRONG:
        reports += yield from run(brief, *_cross_checks(arms, base, asked))
    hypotheses = tuple(_hypotheses(arms, first, reports))
    done = InvestigationState(seen, reports, hypotheses, _summary(brief, first, reports), tuple(_gaps(first)))
    return (
        yield from conclude(
            brief,
            done,
            caveats=_caveats(first),
            next_steps=_next_steps(first),
            risks=_risks(first),
            has_suggestions=False,
            assumptions=(_one_variable(first),) if base else (),
            **_stance(arms, first, reports),
        )
    )


def _revision(brief: Brief, asked: MeasurementRequest, state: ToolReport) -> Generator[Move, Any, str]:
    """Return the revision to compare the work tree with; the person is asked where the request names none."""
    known = state.evidence.output
    if not asked.speed_up or not known.get("commit"):
        return ""
    options = (*(("HEAD",) if known.get("dirty") else ()), "HEAD~1", _NO_REVISION)
    answer = yield Ask(f"{brief.agent.name}: with what is the code as it is now to be compared?", options)
    chosen = answer.text if isinstance(answer, UserAnswer) else ""
    return "" if chosen == _NO_REVISION else chosen


def _mode(target: ChosenTarget, asked: MeasurementRequest) -> str:
    if target.kind == "step" or asked.train:
        return "training-step"
    return "throughput" if asked.throughput else "latency"


def _compare(arms: tuple[ChosenTarget, ChosenTarget], base: str, asked: MeasurementRequest) -> ToolCall:
    baseline, candidate = arms
    claim = asked.claim or ("1" if asked.slower else "")
    given = {"inputs": list(candidate.inputs), "inputs_from": candidate.inputs_from}
    mode = _mode(candidate, asked)
    sides = {"baseline": baseline.name, "candidate": candidate.name, "base": base}
    return ToolCall("torch-compare", {**sides, **given, "mode": mode, "claim": claim, "flag": asked.flag})


def _profiles(arms: tuple[ChosenTarget, ChosenTarget], asked: MeasurementRequest) -> Iterator[ToolCall]:
    for name in dict.fromkeys(arm.name for arm in arms):
        target = next(arm for arm in arms if arm.name == name)
        train = asked.train and target.kind != "step"
        yield ToolCall("torch-profile", {**target.arguments, "train": train, "effort": "quick"})


def _cross_checks(arms: tuple[ChosenTarget, ChosenTarget], base: str, asked: MeasurementRequest) -> Iterator[ToolCall]:
    """Yield measurements by other tools that could refute a speed-up: profiles, and what the compiler makes of it."""
    candidate = arms[1]
    yield from _profiles((candidate, candidate) if base else arms, asked)
    if candidate.kind != "step":
        yield ToolCall("torch-explain", {**candidate.arguments, "train": asked.train})


def _hypotheses(
    arms: tuple[ChosenTarget, ChosenTarget], first: ToolReport, reports: Sequence[ToolReport]
) -> Iterator[Hypothesis]:
    output, ids = first.evidence.output, (first.evidence.id,)
    outcome, command = output["outcome"], first.evidence.rerun
    same = None if outcome == "error" else outcome != _WRONG
    yield Hypothesis("the candidate gives what the baseline gives", 1.0, settled(is_so=same), ids, command)
    is_faster = {_FASTER: True, _NOT_FASTER: False}.get(outcome)
    text = f"it is at least {output['threshold']:.4g}x as fast"
    yield Hypothesis(text, 0.9, settled(is_so=is_faster), ids, command)
    ratio = _profiled_ratio(arms, reports)
    if ratio is not None and "speedup" in output["verdict"]:
        profiles = tuple(report.evidence.id for report in reports if report.evidence.tool == "torch-profile")
        text = f"the clocks of torch-profile bear it out ({ratio:.3g}x)"
        is_so = _is_borne_out(ratio, output["verdict"]["speedup"]["estimate"])
        yield Hypothesis(text, 0.8, settled(is_so=is_so), (*ids, *profiles), reports[1].evidence.rerun)
    if explained := completed(reports, "torch-explain"):
        is_clean = explained.evidence.output["status"] == "clean"
        text = "torch.compile makes one graph of the candidate"
        yield Hypothesis(text, 0.3, settled(is_so=is_clean), (explained.evidence.id,), explained.evidence.rerun)


def _profiled_ratio(arms: tuple[ChosenTarget, ChosenTarget], reports: Sequence[ToolReport]) -> float | None:
    """Return how many times the baseline's call takes of the candidate's, by the profiles; None without both."""
    took = {
        str(report.evidence.arguments["target"]): report.evidence.output["result"]["analysis"]["call"]["ns"]
        for report in reports
        if report.evidence.tool == "torch-profile" and "share" in report.evidence.output
    }
    baseline, candidate = (took.get(arm.name) for arm in arms)
    return baseline / candidate if baseline and candidate and arms[0].name != arms[1].name else None


def _is_borne_out(ratio: float, estimate: float) -> bool:
    saved, confirmed = 1 - 1 / estimate, 1 - 1 / ratio
    return confirmed >= _CONFIRMED_SHARE * saved if saved > 0 else confirmed <= _CONFIRMED_SHARE


def _stance(
    arms: tuple[ChosenTarget, ChosenTarget], first: ToolReport, reports: Sequence[ToolReport]
) -> dict[str, Any]:
    """Return where to stand: at the ceiling, but undecided where another tool does not bear a speed-up out."""
    verdict = first.evidence.output["verdict"]
    ratio = _profiled_ratio(arms, reports)
    if verdict["outcome"] != _FASTER or ratio is None or _is_borne_out(ratio, verdict["speedup"]["estimate"]):
        return {}
    reason = f"torch-compare says {verdict['speedup']['estimate']:.3g}x, and the clocks of torch-profile {ratio:.3g}x"
    return {"stance": Stance.UNDECIDED, "below_ceiling": reason}


def _others(first: ToolReport) -> list[str]:
    """Return the files besides the target's that differ from the baseline's revision."""
    base = first.evidence.output["governance"]["base"]
    return [str(each) for each in base["others"]] if base else []


def _said(first: ToolReport, what: str) -> str:
    return next((text for name, text in first.evidence.output["governance"]["said"] if name == what), "")


def _one_variable(first: ToolReport) -> Assumption:
    text = "nothing differs between the two revisions but the file of the target"
    state = settled(is_so=not _others(first))
    return Assumption(text, Tier.PLAN, True, state, (first.evidence.id,), "git diff --stat BASE -- .")


def _summary(brief: Brief, first: ToolReport, reports: Sequence[ToolReport]) -> str:
    others = " ".join(f"{report.evidence.summary}." for report in reports[1:])
    frozen = f"Frozen: {_said(first, 'frozen')}."
    return f"{brief.agent.name}: {first.evidence.summary}. {frozen}{_metrics(first)} {others}".strip()


def _metrics(first: ToolReport) -> str:
    """Return what was measured beside the time, of baseline and candidate."""
    beside = first.evidence.output["result"].get("beside") or {}
    pairs = [
        f"{words} {beside['baseline'][name]} against {beside['candidate'][name]}"
        for name, words in _METRICS.items()
        if all(beside.get(arm, {}).get(name) is not None for arm in ("baseline", "candidate"))
    ]
    return f" Beside it: {', '.join(pairs)}." if pairs else ""


def _baseline_only(brief: Brief, target: ChosenTarget, reports: Sequence[ToolReport]) -> str:
    said = " ".join(f"{report.evidence.summary}." for report in reports)
    return f"{brief.agent.name} was given no candidate, so nothing was compared; the baseline of {target.shown}: {said}"


def _candidate_gap(target: ChosenTarget) -> InformationGap:
    return InformationGap(
        "what it is to be compared with",
        "a speed-up is a ratio of two",
        f"esper torch compare {target.name} FILE.py:NEW",
    )


def _gaps(first: ToolReport) -> Iterator[InformationGap]:
    if first.evidence.output["outcome"] == "not shown":
        yield InformationGap(
            "on which side of the claim the speed-up lies",
            "the interval holds both sides, and that is no acceptance",
            f"{first.evidence.rerun} --effort thorough",
        )


def _caveats(first: ToolReport) -> tuple[str, ...]:
    output = first.evidence.output
    others = _others(first)
    texts = [f"It holds for this machine, these inputs and torch {output['torch']}."]
    if others:
        shown = ", ".join(others[:3])
        texts.append(f"{len(others)} other files differ as well ({shown}): the verdict is on all of it together.")
    return tuple(texts)


def _next_steps(first: ToolReport) -> tuple[str, ...]:
    return (f"keep a way back: {_said(first, 'way back')}", f"measure again: {first.evidence.rerun}")


def _risks(first: ToolReport) -> RiskAssessment:
    rows = (
        RiskRow(
            "it is faster on these inputs and not on others",
            "Medium",
            "Medium",
            "compare again at the shapes of production",
        ),
        RiskRow("it has to be taken back", "Low", "Low", _said(first, "way back")),
    )
    return RiskAssessment("Low", "Easy", rows)
