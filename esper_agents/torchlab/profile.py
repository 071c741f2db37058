"""Profile a target: time by line, bottleneck, and agreement of independent profilers."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esper_agents.domain.quantities import percent, time_text
from esper_agents.errors import UsageError
from esper_agents.torchlab import external_profilers
from esper_agents.torchlab.plot import profile_plot
from esper_agents.torchlab.profiling.advice import advice_on, most_speedup
from esper_agents.torchlab.profiling.bottleneck import Bottleneck, analyse
from esper_agents.torchlab.report import OutputFile, rounded
from esper_agents.torchlab.worker_failure import WorkerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell

QUICK_S, NORMAL_S, THOROUGH_S = 0.6, 2.0, 8.0
_LOOK_S = 1.0
_LONGEST_LOOK_S = 60.0
_ENOUGH = "enough"
# Maximum difference between two profilers' shares of a function that counts as agreement.
_AGREEING = 0.15
_MATHEMATICS = ("libtorch_cpu", "libmkl", "libdnnl", "libgomp", "libiomp", "libopenblas", "libtorch_cuda", "libcublas")
_LEAST_SHARE = {Bottleneck.COMPUTE: 0.5, Bottleneck.BANDWIDTH: 0.5, Bottleneck.ALLOCATION: 0.25}


def profile(
    lab: Lab,
    target: TargetSpec,
    *,
    train: bool = False,
    seconds: float = NORMAL_S,
    look: bool = True,
    tell: Tell | None = None,
) -> MeasurementReport:
    """Profile a target and compare it with the machine's ceilings.

    Args:
        lab: Lab that runs the target in measurement processes; never in this one.
        target: A function, an nn.Module or a training step.
        train: Also run backward.
        seconds: Approximate measurement time, if one call is short.
        look: Whether to run the installed external profilers on a second process.
        tell: Progress callback.

    Returns:
        A report whose `result` has all measurements and, under `analysis`, the conclusions: `bottleneck`
        with its share, all `shares`, `operations`, `lines`, `modules`, `functions`, `advice`, `hot` with every
        profiler's result for it, `verify`. Comes with a trace, the memory timeline and a plot.

    Raises:
        UsageError: The target cannot be used.
        WorkerError: The target itself raised, hung or crashed.
    """
    report = lab.job("profile", target, {"train": train, "seconds": seconds, "seed": target.seed}, tell=tell)
    witnesses = _witnesses(lab, target, train=train, tell=tell) if look else []
    measured = {**report.result, "witnesses": [each.described() for each in witnesses]}
    body = {**report.body, "result": measured}
    return _with_plot(lab, replace(report, body={**body, "result": profiled(body)}), target.name)


def profiled(body: JsonObject) -> JsonObject:
    """Return measurements with their conclusions; a pure function of the measurements.

    Args:
        body: Body of a report of kind `profile`.
    """
    result = body["result"]
    analysis = analyse(result)
    analysis["most_speedup"] = most_speedup(analysis)
    analysis["hot"] = _hot(result, analysis)
    analysis["advice"] = advice_on(result, analysis)
    analysis["verify"] = verification(body["target"], body["request"])
    return {**result, "analysis": analysis, "headline": headline(analysis)}


def headline(analysis: JsonObject) -> str:
    """Return the result of a profile in one sentence."""
    sure = "" if analysis["is_clear"] else f", with {analysis['runner_up']} close behind"
    share = percent(analysis["share"])
    return f"bound by {analysis['bottleneck']}, {share} of {time_text(analysis['call']['ns'])} a call{sure}"


def verification(target: JsonObject, request: JsonObject) -> list[str]:
    """Return the commands that repeat the measurement, and that test a claim about a change."""
    options = [part for text in target["texts"] for part in ("--input", text)]
    if target["inputs_from"]:
        options += ["--inputs", target["inputs_from"]]
    if target.get("captured"):
        options += ["--capture", target["captured"]["source"]]
    if request["train"]:
        options.append("--train")
    if target["device"] != "cpu":
        options += ["--device", target["device"]]
    again = ["esper", "torch", "profile", target["name"], *options]
    return [shlex.join(again), shlex.join(["esper", "torch", "compare", target["name"], "NEW", *options])]


def _witnesses(
    lab: Lab, target: TargetSpec, *, train: bool, tell: Tell | None
) -> Sequence[external_profilers.ExternalProfile]:
    """Run the target in a separate process while external profilers sample it."""
    if not external_profilers.installed():
        return external_profilers.absent()
    seen: list[external_profilers.ExternalProfile] = []
    with lab.worker(device=target.device) as worker:
        worker.load(target)

        def looping(_what: str, _fraction: float) -> None:
            if tell is not None:
                tell("others look", 1.0)
            seen.extend(external_profilers.run_external_profilers(worker.pid, _LOOK_S, lab.project))
            (worker.scratch / _ENOUGH).touch()

        request = {"train": train, "seed": target.seed, "seconds": _LONGEST_LOOK_S, "until": _ENOUGH}
        try:
            worker.ask("loop", request, tell=looping)
        except (WorkerError, UsageError) as error:
            if not seen:
                return external_profilers.absent(f"the target did not run on: {error.problem}")
    return seen


def _hot(result: JsonObject, analysis: JsonObject) -> dict[str, Any] | None:
    """Return the user's function with the largest share, and each profiler's result for it; None without one."""
    if not analysis["functions"]:
        return None
    first = analysis["functions"][0]
    share = first["total_share"]
    by_cprofile = first["cprofile_share"]
    said: list[dict[str, Any]] = [{"tool": "cProfile", "share": by_cprofile, "agrees": _agree(share, by_cprofile)}]
    if first["by"] != "cProfile":
        said.insert(0, {"tool": first["by"], "share": share, "agrees": True})
    for each in result["witnesses"]:
        if "top" in each and each["of"] == "function":
            seen = next((row["total_share"] for row in each["top"] if _is_same(row["where"], first)), 0.0)
            said.append({"tool": each["tool"], "share": seen, "agrees": _agree(share, seen)})
        elif "top" in each:
            said += _of_libraries(each, Bottleneck(analysis["bottleneck"]))
    where = {name: first[name] for name in ("file", "line", "name", "own_share", "total_share")}
    return {**where, "witnesses": said}


def _agree(one: float, other: float) -> bool:
    return abs(one - other) <= _AGREEING


def _is_same(where: str, function: JsonObject) -> bool:
    file, _, name = where.rpartition(":")
    return bool(file == function["file"] and name.rpartition(".")[2] == function["name"].rpartition(".")[2])


def _of_libraries(seen: JsonObject, bottleneck: Bottleneck) -> list[dict[str, Any]]:
    """Return what the library samples imply about the kind of bottleneck, if anything."""
    if bottleneck not in _LEAST_SHARE:
        return []
    is_kernel = bottleneck is Bottleneck.ALLOCATION
    names = ("[kernel",) if is_kernel else _MATHEMATICS
    share = sum(row["own_share"] for row in seen["top"] if row["where"].startswith(names))
    about = "the kernel" if is_kernel else "libraries that compute"
    return [{"tool": seen["tool"], "share": rounded(share), "agrees": share >= _LEAST_SHARE[bottleneck], "of": about}]


def _with_plot(lab: Lab, report: MeasurementReport, name: str) -> MeasurementReport:
    points: list[tuple[float, float]] = []
    for made in report.made:
        if made.path.name == "memory.json":
            points = json.loads(made.path.read_text(encoding="utf-8"))["points"]
    path = lab.keep / "profile.svg"
    path.write_text(profile_plot(name, report.result["analysis"], points), encoding="utf-8")
    plot = OutputFile(path, "image/svg+xml")
    artifacts = [*report.body["artifacts"], plot.described()]
    return replace(report, body={**report.body, "artifacts": artifacts}, made=(*report.made, plot))
