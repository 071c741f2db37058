"""Diagnose `torch.compile` on a target: graph breaks, recompilations and their remedies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esper_agents.torchlab import graph_break_remedies, recompile_remedies

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell

STATUSES = ("clean", "breaks", "breaks-by-default", "fails-fullgraph", "skipped", "fails")


def explain(lab: Lab, target: TargetSpec, *, train: bool = False, tell: Tell | None = None) -> MeasurementReport:
    """Diagnose `torch.compile` on a target, without inductor.

    Args:
        lab: Lab that runs the target in a measurement process; never in this one.
        target: A function, an nn.Module or a training step.
        train: Also run backward, and trace it ahead of time.
        tell: Progress callback.

    Returns:
        A report whose `result` has `status`, one of `STATUSES`, `headline` in words, and for every break, recompilation
        and failure its remedy under `change`.

    Raises:
        UsageError: The target cannot be used.
        WorkerError: The target itself raised, hung or crashed.
    """
    report = lab.job("explain", target, {"train": train}, tell=tell)
    return replace(report, body={**report.body, "result": explained(report.result)})


def explained(result: JsonObject) -> JsonObject:
    """Return a job's result with remedies in words; a pure function of the result."""
    settles = result.get("settles", {}).get("sizes", True)
    told: dict[str, Any] = {
        **result,
        "breaks": [{**each, "change": graph_break_remedies.change_for(each)} for each in result.get("breaks", [])],
        "recompiles": [_recompile(each, settles=settles) for each in result.get("recompiles", [])],
    }
    for stage in ("fullgraph", "autograd", "failure"):
        if "kind" in told.get(stage, {}):
            told[stage] = {**told[stage], "change": graph_break_remedies.change_for(told[stage])}
    return {**told, "headline": headline(told)}


def _recompile(told: JsonObject, *, settles: bool) -> JsonObject:
    cause = recompile_remedies.cause_of(told["guard"])
    # Dynamo needs one compilation for the first other size to learn that the size is dynamic.
    is_routine = cause == "size" and told["count"] == 1 and settles
    return {**told, "cause": cause, "is_routine": is_routine, "change": recompile_remedies.change_for(told["guard"])}


def headline(result: JsonObject) -> str:
    """Return the status in one sentence."""
    match result.get("status"):
        case None:
            said = "nothing was found out: torch.compile does not work here"
        case "clean":
            said = "one graph, and nothing breaks it" if _graphs(result) == 1 else f"{_graphs(result)} graphs, no break"
        case "breaks":
            said = f"{_counted(result)} cut it into {_graphs(result)} graphs that run in a call"
        case "breaks-by-default":
            said = f"{_counted(result)} by default, and yet one graph with fullgraph=True"
        case "fails-fullgraph":
            said = "explain counts no break, and yet it fails with fullgraph=True"
        case "skipped":
            said = "nothing is compiled: it runs eagerly, as if torch.compile were not there"
        case _:
            said = "compiling it raises"
    return said + (", and dynamo gave up compiling it anew" if result.get("limits") else "")


def _graphs(result: JsonObject) -> int:
    return max((int(call["graphs_run"]) for call in result["calls"]), default=0)


def _counted(result: JsonObject) -> str:
    places = len(result["breaks"])
    return "1 break" if places == 1 else f"{places} breaks"
