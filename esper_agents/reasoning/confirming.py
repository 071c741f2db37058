"""What a reviewer has run to see whether its findings are so: which targets, and what the runs made of the findings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.move import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.move import ToolReport
    from esper_agents.reasoning.asked import Asked

CONFIRMING = "torch-confirm"
_KINDS = ("step", "module", "function")
_MOST_TARGETS = 4
_BORNE_OUT, _REFUTED = "borne out", "refuted"
_STATES = {_BORNE_OUT: AssumptionState.CONFIRMED, _REFUTED: AssumptionState.REFUTED}


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What runs made of findings.

    Attributes:
        findings: Those that stand, as the surest says it.
        assumptions: That each finding is so, borne out or refuted.
        gaps: Findings that no run settled.
        summary: What came of it, in a sentence; empty where nothing was run.
    """

    findings: tuple[Finding, ...]
    assumptions: tuple[Assumption, ...]
    gaps: tuple[InformationGap, ...]
    summary: str


def attempts(brief: Brief, asked: Asked, reviewed: ToolReport, targets: ToolReport | None) -> tuple[ToolCall, ...]:
    """Return the runs that may settle what the review found; none where nothing can be run without asking.

    In each file with such findings the outermost of what can be run is taken: a step before a module before a function.

    Args:
        brief: The task.
        asked: What its words say of inputs.
        reviewed: What `static-review` found.
        targets: What `torch-targets` found; None where it was not asked.
    """
    lines: list[str] = list(reviewed.evidence.output.get("shown_by_running", ()))
    if not lines or targets is None or targets.evidence.outcome is not CallOutcome.COMPLETED:
        return ()
    if all(each.name != CONFIRMING for each in brief.tools):
        return ()
    by_file: dict[str, list[str]] = {}
    for each in lines:
        by_file.setdefault(each.rpartition(":")[0], []).append(each)
    arguments = reviewed.evidence.arguments
    paths = [*arguments["paths"], *(arguments.get("related") or ())]
    chosen = [
        (target, found)
        for path, found in by_file.items()
        for target in _outermost(path, targets.evidence.output["runnable"])
    ]
    return tuple(
        ToolCall(
            CONFIRMING,
            {
                "target": target,
                "paths": paths,
                "lines": found,
                "inputs": list(asked.inputs),
                "inputs_from": asked.inputs_from,
                "train": asked.train,
            },
        )
        for target, found in chosen[:_MOST_TARGETS]
    )


def _outermost(path: str, runnable: Sequence[JsonObject]) -> Iterator[str]:
    """Yield what of a file is run: all of the first kind there is that no other one of the file uses."""
    ready = [each for each in runnable if each["target"].rpartition(":")[0] == path]
    for kind in _KINDS:
        of_kind = [each for each in ready if each["kind"] == kind]
        used = {name for each in of_kind for name in each["uses"]}
        if found := [each["target"] for each in of_kind if each["target"] not in used] or [
            each["target"] for each in of_kind
        ]:
            yield from found
            return


def confirmed(findings: Sequence[Finding], runs: Iterable[ToolReport]) -> Confirmed:
    """Return what runs made of findings: those borne out are surer, those refuted are gone and noted."""
    known = {each.claim.fingerprint: each for each in findings}
    done = [each for each in runs if each.evidence.tool == CONFIRMING]
    said = [(run, each) for run in done for each in run.evidence.output.get("settled", ())]
    marks: dict[str, set[str]] = {}
    for _, each in said:
        marks.setdefault(each["found"], set()).add(each["fingerprint"])
    for each in (found for run in done for found in run.findings):
        before = known.get(each.claim.fingerprint, each)
        evidence = tuple(dict.fromkeys((*before.evidence, *each.evidence)))
        known[each.claim.fingerprint] = replace(before, claim=each.claim, evidence=evidence)
    # What one run shows, another that does not meet it cannot take back.
    gone = marks.get(_REFUTED, set()) - marks.get(_BORNE_OUT, set())
    settled = marks.get(_REFUTED, set()) | marks.get(_BORNE_OUT, set())
    return Confirmed(
        findings=tuple(each for mark, each in known.items() if mark not in gone),
        assumptions=tuple(_assumption(run, each) for run, each in said if each["found"] in _STATES),
        gaps=tuple(_gap(run, each) for run, each in said if each["fingerprint"] not in settled),
        summary=" ".join(f"{each.evidence.summary}." for each in done),
    )


def _assumption(run: ToolReport, said: JsonObject) -> Assumption:
    target = run.evidence.arguments["target"]
    text = f"{said['rule']} at {said['location']} is so when {target} runs: {said['said']}"
    return Assumption(text, Tier.PLAN, False, _STATES[said["found"]], (run.evidence.id,), run.evidence.rerun)


def _gap(run: ToolReport, said: JsonObject) -> InformationGap:
    return InformationGap(
        f"whether {said['rule']} at {said['location']} is so: {said['said']}",
        f"the run of {run.evidence.arguments['target']} did not settle it",
        run.evidence.rerun,
    )
