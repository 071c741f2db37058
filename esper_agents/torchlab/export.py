"""Check whether a target exports: export modes, numeric equality and remedies."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.torchlab import graph_break_remedies

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell

_CHANGES = {
    r"froze a value|second call": (
        "Something outside the inputs changes from call to call, and the program holds the value it had while it was "
        "traced. Hand it in as an input, or keep it in a registered buffer."
    ),
    r"[Dd]ata-dependent|data dependent error": (
        "The line decides by a tensor's values. Choose with torch.where or torch.cond, or state what always holds with "
        "torch._check before it."
    ),
    r"specialized it to be a constant|Not all values of|Constraints violated": (
        "The code works only for some sizes of that dimension. Take the condition or the number out of the code "
        "(x.view(-1, 8) rather than x.view(4, 8)), or declare the dimension with the range that it supports."
    ),
    r"Guard failed|Runtime assertion failed": (
        "The program took on a condition of the inputs that it was traced with. Express the choice with torch.cond, or "
        "export once for each case."
    ),
    r"not a known type|unrecognized type|pytree": (
        "Return tensors, numbers, tuples, lists or dictionaries; a data class of your own needs "
        "torch.export.register_dataclass."
    ),
    r"fake impl|fake kernel": "Give the custom operator a fake implementation with register_fake.",
    r"RandomValueSource|random_call": "Draw random numbers with torch, or hand them in: Python's would be frozen.",
    r"[Uu]nbacked symbol": (
        "A size depends on the values. Keep the shape, with torch.where or a mask, or state the size's range with "
        "torch._check."
    ),
    r"assigned .*attribute|attribute.* assigned|leaked|mutat": (
        "forward changes the module or an input. Register the state as a buffer, or return it."
    ),
    r"ScriptModule|torch\.jit": "Export the original eager module: what torch.jit made cannot be exported.",
    r"Dim\b|dynamic_shapes": "Say for each input which dimensions may change.",
}
_INFERENCE = "ONNX programs are for inference, and the module is in training mode: export it after .eval()."
_GENERIC = "Read the draft export's issues: they list everything that stands in the way, not only the first."


def export(lab: Lab, target: TargetSpec, *, tell: Tell | None = None) -> MeasurementReport:
    """Check whether a target exports: strict, non-strict, draft, with a dynamic batch, and to ONNX.

    Each exported program is run on new inputs and compared with the eager code.

    Args:
        lab: Lab that runs the target in a measurement process; never in this one.
        target: A function or an nn.Module.
        tell: Progress callback.

    Returns:
        A report whose `result` has `status` (`exports`, `partly`, `fails`), `headline` in words, and for each failed
        attempt its remedy under `change`.

    Raises:
        UsageError: The target cannot be used.
        WorkerError: The target itself raised, hung or crashed.
    """
    report = lab.job("export", target, {}, tell=tell)
    return replace(report, body={**report.body, "result": explained(report.result)})


def explained(result: JsonObject) -> JsonObject:
    """Return a job's result with remedies in words; a pure function of the result."""
    attempts = {
        name: each if each["outcome"] == "exports" else {**each, "change": change_for(each)}
        for name, each in result["attempts"].items()
    }
    good = [name for name, each in attempts.items() if each["outcome"] == "exports"]
    bad = [name for name in attempts if name not in good]
    status = "exports" if not bad else "partly" if good else "fails"
    said = [f"exports: {', '.join(good)}" if good else "does not export"]
    said += [f"does not: {', '.join(bad)}"] if good and bad else []
    return {**result, "attempts": attempts, "status": status, "headline": "; ".join(said)}


def change_for(attempt: JsonObject) -> str:
    """Return the remedy for a failed attempt.

    Args:
        attempt: An attempt of a report, with an `outcome` other than `exports`.
    """
    if "page" in attempt:
        return graph_break_remedies.change_for(attempt)
    if attempt.get("is_training"):
        return _INFERENCE
    issues = " ".join(str(each.get("kind", "")) for each in attempt.get("issues", ()))
    said = " ".join(str(attempt.get(name, "")) for name in ("difference", "message", "explanation")) + issues
    return next((change for words, change in _CHANGES.items() if re.search(words, said)), _GENERIC)
