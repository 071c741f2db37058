"""Job: find the first relevant operation that produced NaN or Inf, forward or backward, and its cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..nan.search import NonfiniteSearch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget

_STEPS = 10


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> dict[str, Any]:
    """Run steps until one leaves a NaN or Inf in something that matters.

    What matters: outputs, the loss, gradients, parameters, buffers, optimizer state, and an exception that came of it.
    An Inf that was put in on purpose, such as a mask, counts once it reaches the loss or turns into NaN. A step whose
    gradients overflow and whose update is then skipped, as a gradient scaler does, does not count unless it never ends.

    Args:
        target: Run on fresh inputs of seed 0, 1 and so on; one made by a factory is called again and again.
        request: `steps`: how many at most. `train`: whether to run backward too, for what is not a step of its own.
            `lr`: learning rate of plain gradient descent between the steps; left out, nothing is updated.
        tell: Told after each step.

    Returns:
        `status` (`nan`, `inf` or `clean`), `steps_asked`, `steps_run`, `operations` (how many were checked), `first`
        (the first operation at fault), `became_nan` (where its Inf turned to NaN, or uninitialised memory was read),
        `cause`, `reached`, `batch`, `skipped_steps`, `noticed` (what was not finite and came to nothing), `history` and
        `missing`.
    """
    steps = int(request.get("steps") or _STEPS)
    search = NonfiniteSearch(target, train=bool(request.get("train")), lr=request.get("lr"))
    with search.watched():
        for step in range(steps):
            if search.step(step):
                break
            tell("looking for NaN and Inf", (step + 1) / steps)
    return {"steps_asked": steps, **search.result()}
