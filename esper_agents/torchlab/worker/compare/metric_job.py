"""Job: apply a user's metric to the outputs of both arms; its file is the only user code here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..target.input_spec import TargetError
from ..target.target import seed_all
from .observations import observed_run, planned_steps
from .result import MetricReadings
from .tensor_bundle import Bundle

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> MetricReadings:
    """Return a metric's values for the outputs of the baseline and the candidate.

    Args:
        target: The metric; called as `metric(output, *args, **kwargs)` with the inputs of the call.
        request: `files`: descriptors of the plan and of both observations.
        tell: Called for each step.

    Returns:
        For each variant the two numbers. Outputs that only their own class can represent are omitted.

    Raises:
        TargetError: The metric does not return a number.
    """
    plan, *arms = (Bundle(each) for each in request["files"])
    seen = [observed_run(arm) for arm in arms]
    steps = planned_steps(plan)
    readings: dict[str, tuple[float, ...]] = {}
    for number, step in enumerate(steps):
        tell(f"computing the metric of {step.name}", number / len(steps))
        pieces = [each.piece(number, "output") for each in seen]
        inputs = plan.pieces[step.input]
        try:
            args, kwargs = inputs.restore()
            outputs = [piece.restore() for piece in pieces if piece is not None]
        except ValueError:
            continue
        if len(outputs) == len(arms):
            values = (_reading(target, output, args, kwargs, step.seed) for output in outputs)
            readings[step.name] = tuple(values)
    return MetricReadings(readings)


def _reading(target: LoadedTarget, output: Any, args: Any, kwargs: dict[str, Any], seed: int) -> float:
    seed_all(seed)
    found = target.call(output, *args, **kwargs)
    try:
        reading = float(found)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TargetError(
            f"the metric {target.name!r} returns a {type(found).__name__}", "return one number, such as a float"
        ) from error
    # NaN cannot be written as JSON, and is not close to anything.
    return reading if math.isfinite(reading) else 1e308
