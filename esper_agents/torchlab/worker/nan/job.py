"""Job: find the first relevant operation that produced NaN or Inf, forward or backward, and its cause."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .search import NonfiniteSearch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget
    from .result import NanRun

_STEPS = 10


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> NanRun:
    """Run steps until a NaN or Inf reaches a relevant tensor.

    Relevant are outputs, the loss, gradients, parameters, buffers, optimizer state, and an exception caused by it.
    An intentional Inf, such as a mask, counts once it reaches the loss or turns into NaN. A step whose
    gradients overflow and whose update is then skipped, as a gradient scaler does, counts only if that never ends.

    Args:
        target: Run on new inputs of seed 0, 1 and so on; the product of a factory is called repeatedly.
        request: `steps`: maximum number. `train`: also run backward, unless the target is a step of its own.
            `lr`: learning rate of plain gradient descent between the steps; if omitted, nothing is updated.
        tell: Called after each step.
    """
    steps = int(request.get("steps") or _STEPS)
    search = NonfiniteSearch(target, train=bool(request.get("train")), lr=request.get("lr"))
    with search.watched():
        for step in range(steps):
            if search.step(step):
                break
            tell("looking for NaN and Inf", (step + 1) / steps)
    return replace(search.result(), steps_asked=steps)
