"""Job: call a target repeatedly for a while, so that external profilers can observe the process."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from .call_runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget

_BATCH = 64
_LOOK_NS = 20_000_000


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> dict[str, Any]:
    """Call a target until the external profilers finish, or time is up.

    Args:
        target: The target.
        request: `train`, `seed`; `seconds`: maximum time; `until`: name of the file in `scratch` that ends the loop.
        tell: Called once when the calls begin.

    Returns:
        `calls`: number of calls.
    """
    runner = Runner(target, train=bool(request["train"]), seed=int(request["seed"]))
    call_ns = runner.warm().call_ns
    tell("looping", 0.0)
    enough, calls = Path(request["scratch"], request["until"]), 0
    until = monotonic() + float(request["seconds"])
    batch = max(1, min(_BATCH, _LOOK_NS // max(call_ns, 1)))
    while monotonic() < until and not enough.exists():
        for inputs in runner.batch(batch):
            runner(inputs)
        calls += batch
    return {"calls": calls}
