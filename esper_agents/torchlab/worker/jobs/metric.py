"""Job: apply a user's metric to the outputs of both arms; its file is the only user code here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..compare.observations import ObservedRun
from ..compare.tensor_bundle import Bundle
from ..target.input_spec import TargetError
from ..target.target import seed_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> dict[str, Any]:
    """Return what a metric says of the baseline's and the candidate's outputs.

    Args:
        target: The metric; called as `metric(output, *args, **kwargs)` with the inputs of the call.
        request: `files`: descriptors of the plan, the baseline's and the candidate's observation.
        tell: Told which step is looked at.

    Returns:
        `readings`: for each variant the two numbers. Outputs that only their own class can hold are left out.

    Raises:
        TargetError: It returns no number.
    """
    plan, *arms = (Bundle(each) for each in request["files"])
    seen = [ObservedRun(each, {int(number): step for number, step in each.about["steps"].items()}) for each in arms]
    steps, readings = plan.about["steps"], {}
    for number, step in enumerate(steps):
        tell(f"the metric on {step['name']}", number / len(steps))
        pieces = [each.piece(number, "output") for each in seen]
        inputs = plan.pieces[step["input"]]
        try:
            args, kwargs = inputs.restore()
            outputs = [each.restore() for each in pieces if each is not None]
        except ValueError:
            continue
        if len(outputs) == len(arms):
            readings[step["name"]] = [_reading(target, output, args, kwargs, step["seed"]) for output in outputs]
    return {"readings": readings}


def _reading(target: LoadedTarget, output: Any, args: Any, kwargs: dict[str, Any], seed: int) -> float:
    seed_all(seed)
    found = target.call(output, *args, **kwargs)
    try:
        reading = float(found)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TargetError(
            f"the metric {target.name!r} returns a {type(found).__name__}", "return one number, such as a float"
        ) from error
    # What is no number cannot be written as JSON, and is not near anything.
    return reading if math.isfinite(reading) else 1e308
