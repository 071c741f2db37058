"""The offline torch.compile specialist: where compiled code leaves the graph, as far as reading can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.finding import Category
from esper_agents.reasoning.specialist import Specialism, work

if TYPE_CHECKING:
    from collections.abc import Generator

    from esper_agents.domain.frame import Brief
    from esper_agents.domain.move import Conclude, Move

_SPECIALISM = Specialism(
    categories=(Category.COMPILE,),
    searches=("torch.compile", "fullgraph"),
    meanings={
        "graph-break": (
            "A graph break splits the compiled region: each piece is compiled and launched by itself, and nothing is "
            "fused across the break."
        ),
        "compile-in-loop": "Compiling inside a loop pays for tracing again and again.",
        "legacy-amp": "The old names of mixed precision still work today and will not for ever.",
    },
    measured=(("which graph breaks happen when it runs", 'TORCH_LOGS="graph_breaks,recompiles" python {path}'),),
    why_measure="reading finds sources of breaks; only a run tells which of them are met, and how often",
)


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Look for what breaks the graph, read around it, and say what it means."""
    return (yield from work(brief, _SPECIALISM))
