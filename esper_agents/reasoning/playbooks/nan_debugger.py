"""The offline NaN specialist: operations that can produce a NaN or Inf, as far as reading can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.finding import Category
from esper_agents.reasoning.specialist import Specialism, work

if TYPE_CHECKING:
    from collections.abc import Generator

    from esper_agents.domain.frame import Brief
    from esper_agents.domain.move import Conclude, Move

_SPECIALISM = Specialism(
    categories=(Category.SILENT_CORRECTNESS,),
    searches=("torch.log(", "torch.sqrt(", "clamp("),
    meanings={
        "log-of-probability": (
            "A probability that underflows to 0 has the logarithm minus infinity: the loss becomes infinite, and its "
            "gradient NaN."
        ),
        "root-at-zero": "The derivative of a square root at 0 is infinite: one exact zero makes every gradient NaN.",
        "division-without-floor": "A divisor that reaches 0 gives Inf, or NaN where the numerator is 0 as well.",
    },
    measured=(
        (
            "which operation makes the first NaN or Inf",
            (
                'python -c "import torch, runpy; torch.autograd.set_detect_anomaly(True); '
                "runpy.run_path('{path}', run_name='__main__')\""
            ),
        ),
    ),
    why_measure="reading finds operations that can make a NaN; only a run tells which one does, and on which batch",
)


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Look for operations that can make a NaN, read around them, and say what feeds them."""
    return (yield from work(brief, _SPECIALISM))
