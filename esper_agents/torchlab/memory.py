"""Measure the memory of a target: composition, leaks, fit on a device, and remedies."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esper_agents.domain.quantities import bytes_text, percent
from esper_agents.errors import UsageError
from esper_agents.torchlab.memory_issues import issue, limit
from esper_agents.torchlab.memory_remedies import prevention, remedies
from esper_agents.torchlab.plot import memory_plot
from esper_agents.torchlab.report import MeasurementReport, OutputFile, now, rounded
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import TargetSpec, Tell

OPTIMIZERS = ("sgd", "adam", "adamw", "none")
_FEWEST_STEPS = 6
_PLOT = "memory.svg"
_WORDS = {
    "parameters": "parameters",
    "buffers": "buffers",
    "gradients": "gradients",
    "optimizer_state": "optimizer state",
    "activations": "activations",
    "inputs": "inputs",
    "other": "other",
}


def memory(
    lab: Lab,
    target: TargetSpec,
    *,
    train: bool = False,
    optimizer: str = "adamw",
    steps: int = 8,
    limit_bytes: int | None = None,
    estimate_only: bool = False,
    tell: Tell | None = None,
) -> MeasurementReport:
    """Measure the memory of a target and its growth over steps.

    First estimates the memory without running. If that exceeds the limit or the lab's own limit, the target is not run.

    Args:
        lab: Lab that runs the target in a measurement process; never in this one.
        target: A function, an nn.Module or a training step.
        train: Also run backward and an optimizer. A training step runs its own.
        optimizer: One of `OPTIMIZERS`, for a module in training.
        steps: Number of steps in which to look for a leak; doubled while memory still grows. 0 for none.
        limit_bytes: Memory that must suffice, such as that of a GPU.
        estimate_only: Run only single operations.
        tell: Progress callback.

    Returns:
        A report whose `result` has `estimate`, `peak` and `leak` as the jobs return them, `limit`, `issue`, `headline`,
        `remedies`, `prevention` and `verify`.

    Raises:
        UsageError: The target cannot be used, or there is no such optimizer.
        WorkerError: The target itself raised, hung or crashed.
    """
    if optimizer not in OPTIMIZERS:
        raise UsageError(f"no optimizer named {optimizer!r}", remedy=f"name one of {', '.join(OPTIMIZERS)}")
    if steps < 0 or 0 < steps < _FEWEST_STEPS:
        raise UsageError(
            f"{steps} steps are too few to detect growth", remedy=f"use at least {_FEWEST_STEPS}, or 0 to skip it"
        )
    started = now(), time.monotonic_ns()
    request = {"train": train, "optimizer": optimizer, "steps": steps, "seed": target.seed}
    missing: list[JsonObject] = []
    estimate = _estimate(lab, target, request, missing, tell)
    why_not = "only an estimate was asked for" if estimate_only else _too_large(lab, estimate, limit_bytes)
    report: MeasurementReport | None = None
    if not why_not:
        report, why_not = _run(lab, target, request, tell)
    if report is None:
        missing.append({"what": "a run", "why": why_not})
        report = _not_run(lab, target, request, started)
    result: dict[str, Any] = {**report.result, "missing": [*missing, *report.result["missing"]]}
    if estimate is not None:
        result["estimate"] = estimate
    binding = limit_bytes if limit_bytes is not None or estimate_only else _exceeded(lab, estimate)
    if binding is not None:
        result["limit"] = {"limit_bytes": binding}
    result["verify"] = _verify(target, request, limit_bytes)
    body = {**report.body, "result": explained(result), "request": {**request, "limit_bytes": limit_bytes}}
    return _with_plot(lab, replace(report, body=body))


def explained(result: JsonObject) -> JsonObject:
    """Return the measurements with conclusions and remedies; a pure function of the measurements."""
    told: dict[str, Any] = dict(result)
    if "limit" in told:
        told["limit"] = limit(told, told["limit"]["limit_bytes"])
    told["issue"] = issue(told)
    if "peak" in told and "estimate" in told and told["peak"]["allocated_bytes"]:
        off = told["estimate"]["allocated_bytes"] / told["peak"]["allocated_bytes"] - 1
        told["estimate_off"] = rounded(off)
    return {**told, "headline": headline(told), "remedies": remedies(told), "prevention": prevention(told)}


def headline(result: JsonObject) -> str:
    """Return the peak and its largest parts, in one sentence."""
    known = result.get("peak") or result.get("estimate")
    if known is None:
        return "nothing could be measured or worked out"
    split = sorted(known["split_bytes"].items(), key=lambda each: -each[1])[:2]
    mostly = ", ".join(f"{_WORDS[name]} {percent(size / max(known['peak_bytes'], 1))}" for name, size in split if size)
    when = f" in the {known['phase']} of step {known['step']}" if known["phase"] else ""
    said = "peak" if "peak" in result else "estimated peak"
    return f"{said} {bytes_text(known['peak_bytes'])}{when}: {mostly or 'nothing'}; {result['issue']['because']}"


def _estimate(
    lab: Lab, target: TargetSpec, request: JsonObject, missing: list[JsonObject], tell: Tell | None
) -> JsonObject | None:
    # In a separate process: an object built from fake tensors must not be run, and a crash must not end the run.
    asked = {**request, "root": str(lab.project), "target": target.request()}
    lab.warm("memory_estimate")
    try:
        with lab.worker(device=target.device) as worker:
            return worker.ask("memory_estimate", asked, tell=tell or lab.tell).result
    except (UsageError, WorkerError) as error:
        missing.append({"what": "an estimate without running", "why": error.problem})
        return None


def _too_large(lab: Lab, estimate: JsonObject | None, limit_bytes: int | None) -> str:
    """Return the reason not to run the target; empty if it may run."""
    if estimate is None:
        return ""
    peak = estimate["peak_bytes"]
    if limit_bytes is not None and peak > limit_bytes:
        return f"it would take {bytes_text(peak)}, more than the limit of {bytes_text(limit_bytes)}"
    allowed = _exceeded(lab, estimate)
    if allowed is not None:
        return f"it would take {bytes_text(peak)}, more than the {bytes_text(allowed)} that --memory allows"
    return ""


def _exceeded(lab: Lab, estimate: JsonObject | None) -> int | None:
    """Return the lab's limit if it does not suffice; None if it does, or is unknown."""
    allowed = lab.settings.memory_bytes
    return allowed if estimate is not None and estimate["peak_bytes"] > allowed else None


def _run(lab: Lab, target: TargetSpec, request: JsonObject, tell: Tell | None) -> tuple[MeasurementReport | None, str]:
    try:
        return lab.job("memory", target, request, tell=tell), ""
    except WorkerError as error:
        if error.outcome is not WorkerFailureKind.OUT_OF_MEMORY:
            raise
        return None, error.problem


def _not_run(lab: Lab, target: TargetSpec, request: JsonObject, started: tuple[str, int]) -> MeasurementReport:
    """Return the report of a target that was not run."""
    result = {"device": target.device, "categories": list(_WORDS), "missing": []}
    return lab.report("memory", target.described(), request, result, started=started)


def _verify(target: TargetSpec, request: JsonObject, limit_bytes: int | None) -> str:
    """Return the command that shows whether a change helped."""
    words = ["esper", "torch", "memory", target.name]
    for each in target.inputs:
        words += ["--input", each]
    if target.inputs_from:
        words += ["--inputs", target.inputs_from]
    if target.captured_from:
        words += ["--capture", target.captured_from]
    if request["train"]:
        words += ["--train", "--optimizer", request["optimizer"]]
    if target.device != "cpu":
        words += ["--device", target.device]
    words += ["--steps", str(request["steps"])]
    if limit_bytes is not None:
        words += ["--limit", str(limit_bytes)]
    return shlex.join(words)


def _with_plot(lab: Lab, report: MeasurementReport) -> MeasurementReport:
    """Return the report with a plot of the peak's parts, its course, and the memory left after each step."""
    result = report.result
    if "peak" not in result:
        return report
    course = [(float(t_ns), float(sum(sizes))) for t_ns, *sizes in result["peak"]["timeline"]]
    timelines = [("Allocated while it runs", course)]
    if "leak" in result:
        left = [(float(step), float(size)) for step, size in enumerate(result["leak"]["live_bytes"], start=1)]
        timelines.append(("Left after each step", left))
    bars = [(_WORDS[name], size) for name, size in result["peak"]["split_bytes"].items() if size]
    path = lab.keep / _PLOT
    path.write_text(memory_plot(f"Memory of {report.body['target']['name']}", timelines, bars), encoding="utf-8")
    made = OutputFile(path, "image/svg+xml")
    body = {**report.body, "artifacts": [*report.body["artifacts"], made.described()]}
    return replace(report, body=body, made=(*report.made, made))
