"""The offline memory specialist: what holds tensors alive, as far as reading can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.finding import Category
from esper_agents.reasoning.specialist import Specialism, work

if TYPE_CHECKING:
    from collections.abc import Generator

    from esper_agents.domain.frame import Brief
    from esper_agents.domain.move import Conclude, Move

_SPECIALISM = Specialism(
    categories=(Category.MEMORY,),
    searches=("no_grad", "detach("),
    meanings={
        "loss-kept-with-graph": (
            "A kept loss keeps the activations of its whole step alive: memory grows with every batch, so it fails "
            "after several batches and not at the first (a leak, not a model that is too large)."
        ),
        "evaluation-without-no-grad": "Evaluation that records a graph holds activations that nothing ever uses.",
        "item-in-training-loop": "It costs time and not memory: the host waits for every kernel queued before it.",
    },
    measured=(
        (
            "what the allocator holds on the GPU, and how it grows",
            (
                'python -c "import runpy, torch; torch.cuda.memory._record_memory_history(); '
                "runpy.run_path('{path}', run_name='__main__'); torch.cuda.memory._dump_snapshot('memory.pickle')\""
            ),
        ),
    ),
    why_measure="reading finds what can hold tensors; only a run tells how many bytes, and whether they grow",
)


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Look for what holds tensors, read around it, and say which kind of trouble it would make."""
    return (yield from work(brief, _SPECIALISM))
