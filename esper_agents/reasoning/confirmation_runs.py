"""Measurements that confirm or refute a reviewer's findings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.evidence import CallOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from esper_agents.domain.agent_action import ToolReport
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.frame import Brief
    from esper_agents.requests.measurement_options import MeasurementRequest

CONFIRMING = "torch-confirm"
_KINDS = ("step", "module", "function")
_MOST_TARGETS = 4
_BORNE_OUT, _REFUTED = "borne out", "refuted"
_STATES = {_BORNE_OUT: AssumptionState.CONFIRMED, _REFUTED: AssumptionState.REFUTED}


@dataclass(frozen=True, slots=True)
class ConfirmedFindings:
    """Findings after the confirmation runs.

    Attributes:
        findings: Findings that were not refuted, with the highest confidence.
        assumptions: One assumption per finding, confirmed or refuted.
        gaps: Findings that no run settled.
        summary: Result as a sentence; empty if nothing was run.
    """

    findings: tuple[Finding, ...]
    assumptions: tuple[Assumption, ...]
    gaps: tuple[InformationGap, ...]
    summary: str


def attempts(
    brief: Brief, asked: MeasurementRequest, reviewed: ToolReport, targets: ToolReport | None
) -> tuple[ToolCall, ...]:
    """Return the runs that may confirm or refute the review's findings; empty if nothing can run without approval.

    A line is checked by running the definition that contains it; if that cannot run, by the outermost runnable
    definition of its file: a step before a module before a function.

    Args:
        brief: Brief of the task.
        asked: Parsed inputs of the request.
        reviewed: Report of `static-review`.
        targets: Report of `torch-targets`; None if it was not called.
    """
    lines: list[str] = list(reviewed.evidence.output.get("shown_by_running", ()))
    if not lines or targets is None or targets.evidence.outcome is not CallOutcome.COMPLETED:
        return ()
    if all(tool.name != CONFIRMING for tool in brief.tools):
        return ()
    arguments = reviewed.evidence.arguments
    paths = [*arguments["paths"], *(arguments.get("related") or ())]
    chosen = _chosen(lines, targets.evidence.output)
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
        for target, found in list(chosen.items())[:_MOST_TARGETS]
    )


def _chosen(lines: Sequence[str], output: JsonObject) -> dict[str, list[str]]:
    """Return the lines to check by target: the definition that contains a line, else the outermost of its file."""
    chosen: dict[str, list[str]] = {}
    for each in lines:
        path, _, line = each.rpartition(":")
        ready = [one for one in output["runnable"] if one["target"].rpartition(":")[0] == path]
        others = [one for one in output.get("missing", ()) if one["target"].rpartition(":")[0] == path]
        above = [one for one in (*ready, *others) if one["line"] <= int(line)]
        around = max(above, key=lambda one: int(one["line"]), default=None)
        for target in [str(around["target"])] if around is not None and around in ready else _outermost(ready):
            chosen.setdefault(target, []).append(each)
    return chosen


def _outermost(ready: Sequence[JsonObject]) -> list[str]:
    """Return all targets of the highest available kind that no other target of the file uses."""
    for kind in _KINDS:
        of_kind = [each for each in ready if each["kind"] == kind]
        used = {name for each in of_kind for name in each["uses"]}
        if of_kind:
            return [each["target"] for each in of_kind if each["target"] not in used] or [
                each["target"] for each in of_kind
            ]
    return []


def confirmed(findings: Sequence[Finding], runs: Iterable[ToolReport]) -> ConfirmedFindings:
    """Return the findings after the runs: confirmed ones have higher confidence, refuted ones are removed."""
    known = {finding.claim.fingerprint: finding for finding in findings}
    done = [each for each in runs if each.evidence.tool == CONFIRMING]
    said = [(run, each) for run in done for each in run.evidence.output.get("settled", ())]
    marks: dict[str, set[str]] = {}
    for _, each in said:
        marks.setdefault(each["found"], set()).add(each["fingerprint"])
    for each in (found for run in done for found in run.findings):
        before = known.get(each.claim.fingerprint, each)
        evidence = tuple(dict.fromkeys((*before.evidence, *each.evidence)))
        known[each.claim.fingerprint] = replace(before, claim=each.claim, evidence=evidence)
    # A run that does not reproduce a confirmed finding does not refute it.
    gone = marks.get(_REFUTED, set()) - marks.get(_BORNE_OUT, set())
    settled = marks.get(_REFUTED, set()) | marks.get(_BORNE_OUT, set())
    return ConfirmedFindings(
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
