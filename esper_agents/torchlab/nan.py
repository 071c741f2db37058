"""Find the origin and the cause of the first NaN or Inf of a run, and suggest remedies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esper_agents.errors import UsageError
from esper_agents.torchlab.nan_remedies import CHANGES

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell

STATUSES = ("clean", "inf", "nan")
_WORDS = {"nan": "NaN", "inf": "Inf"}
_ARTICLES = {
    "output": "an output",
    "loss": "the loss",
    "gradient": "a gradient",
    "parameter": "a weight",
    "buffer": "a buffer",
    "optimizer state": "the optimizer's state",
    "exception": "an exception",
}
_UNKNOWN = "unclassified"


def nan(
    lab: Lab,
    target: TargetSpec,
    *,
    steps: int = 10,
    train: bool = False,
    lr: float | None = None,
    tell: Tell | None = None,
) -> MeasurementReport:
    """Find the first operation of a target that produces a NaN or Inf which reaches a relevant tensor.

    Args:
        lab: Lab that runs the target in a measurement process; never in this one.
        target: A function, an nn.Module or a training step.
        steps: Maximum number of calls, each on inputs of the next seed.
        train: Also run backward. A training step runs its own.
        lr: Learning rate of plain gradient descent between the calls of a module, which trains it; without it,
            its weights stay unchanged.
        tell: Progress callback.

    Returns:
        A report whose `result` has `status`, one of `STATUSES`, `headline` in words, and if an origin was found
        `first`, `cause`, `reached` and `change`: the remedy.

    Raises:
        UsageError: The target cannot be used, or there is no step to run.
        WorkerError: The target itself raised, hung or crashed, and not because of NaN or Inf.
    """
    if steps < 1:
        raise UsageError(f"invalid number of steps: {steps}", remedy="use --steps 1 or more")
    is_trained = train or lr is not None
    request: dict[str, Any] = {"steps": steps, "train": is_trained} | ({} if lr is None else {"lr": lr})
    report = lab.job("nan", target, request, tell=tell)
    return replace(report, body={**report.body, "result": explained(report.result)})


def explained(result: JsonObject) -> JsonObject:
    """Return a job's result with a headline and a remedy; a pure function of the result."""
    told: dict[str, Any] = {**result, "headline": headline(result)}
    if "cause" in result:
        told["change"] = change_for(result["cause"])
    return told


def change_for(cause: JsonObject) -> str:
    """Return the remedy for a cause; for a cause class that leaves the mechanism open, also one for the operation."""
    change = CHANGES.get(cause["class"], CHANGES[_UNKNOWN])
    mechanism = cause.get("mechanism", cause["class"])
    if cause["class"] in {"learning-rate-too-high", "bad-initialisation"} and mechanism == "half-overflow":
        return f"{change}; {CHANGES[mechanism]}"
    return change


def headline(result: JsonObject) -> str:
    """Return the status in one sentence."""
    steps = result["steps_run"]
    ran = "1 step" if steps == 1 else f"{steps} steps"
    if result["status"] == "clean":
        skipped = len(result["skipped_steps"])
        but = f"; {skipped} of them skipped their update because gradients overflowed" if skipped else ""
        return f"no NaN and no Inf reached an output, a loss, a gradient or a weight in {ran}{but}"
    what = _WORDS[result["status"]]
    *others, last = dict.fromkeys(_ARTICLES[each["what"]] for each in result["reached"])
    reached = f"{', '.join(others)} and {last}" if others else last
    first = result.get("first")
    if first is None:
        return f"{what} in {reached} of step {steps}, from outside the operations that were watched"
    made = f"{_WORDS[first['holds']]} from {short(first['operation'])} at {place(first)}"
    return f"{made}, {result['cause']['class']}; in step {steps} it reached {reached}"


def place(found: JsonObject) -> str:
    """Return the best known location of a call: `file:line`, the module, or its caller."""
    if found.get("file"):
        return f"{found['file']}:{found['line']}"
    module = module_name(found)
    return module or str(found.get("outside", "an unknown place"))


def module_name(found: JsonObject) -> str:
    """Return the module in which an operation was called, such as `Encoder.blocks.1 (Attention)`; empty if unknown."""
    module = found.get("module")
    if not module:
        return ""
    path = f"{module['root']}.{module['path']}" if module["path"] else module["root"]
    return f"{path} ({module['class']})" if module["path"] else path


def short(operation: str) -> str:
    """Return an operation's name without namespace and overload: `div` for `aten.div.Tensor`."""
    parts = operation.split(".")
    return parts[1] if len(parts) > 1 else operation
