"""Stores that keep the graphs of values that were already sent backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.model.query import EventKind, Mode, runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import LoopRun, ModelEvent, Run


@dataclass(frozen=True, slots=True)
class KeptGraph:
    """A store that keeps the graph of every round of a loop.

    Attributes:
        run: The run.
        store: The store.
        loop: The loop.
        is_loss: Whether the value is what was sent backward, or computed from it; else an intermediate value.
        is_trained: Whether the loop sends the graph backward; else it is an evaluation with gradients on.
    """

    run: Run
    store: ModelEvent
    loop: LoopRun
    is_loss: bool
    is_trained: bool = True


def kept_graphs(index: ProjectIndex) -> list[KeptGraph]:
    """Return the stores of a project that keep graphs, one for each position."""
    return index.once("kept graphs", lambda: list(_find(index)))


def _find(index: ProjectIndex) -> Iterator[KeptGraph]:
    seen: set[tuple[str, object]] = set()
    for run in runs(index):
        stores = list(run.of_kind(EventKind.STORE))
        # What a later round sends backward is no value that is only kept, in whichever round it is stored.
        used = {(store.path, store.at) for store in stores if run.used_backward & store.bit}
        for store in stores:
            if (store.path, store.at) in seen | used or not store.graph_certain:
                continue
            for loop, number in run.turns(store):
                if store.may_be_reset and _steps_at_times(run, loop):
                    continue
                if _keeps(run, store, loop):
                    sent = _sent_with(run, store, loop, number)
                    if sent is not None:
                        seen.add((store.path, store.at))
                        yield KeptGraph(run, store, loop, _is_loss(run, store, sent))
                        break
                    if _is_evaluated(run, store, loop):
                        seen.add((store.path, store.at))
                        yield KeptGraph(run, store, loop, is_loss=False, is_trained=False)
                        break


def _steps_at_times(run: Run, loop: LoopRun) -> bool:
    """Return whether the optimizer steps in some rounds only: what a branch sets back may be the sum of one step."""
    return any(
        event.is_conditional and any(each is loop for each, _ in event.loops) for event in run.of_kind(EventKind.STEP)
    )


def _is_evaluated(run: Run, store: ModelEvent, loop: LoopRun) -> bool:
    """Return whether a stored value comes from a model in evaluation mode, and nothing is sent backward."""
    if run.trains_in(loop) or run.entry.is_open:
        return False
    forwards = [event for event in run.forwards if store.graph & event.bit]
    return bool(forwards) and all(
        run.mode(event) is Mode.EVALUATION and any(each is loop for each, _ in event.loops) for event in forwards
    )


def _keeps(run: Run, store: ModelEvent, loop: LoopRun) -> bool:
    """Return whether what a round of a loop stores is there in the next one, and grows."""
    if store.name == "accumulate":
        return run.is_carried(store, loop)
    if store.name in {"attribute", "key"}:
        return False
    return run.outlives(store, loop) and not run.is_emptied_in(store, loop)


def _sent_with(run: Run, store: ModelEvent, loop: LoopRun, number: int) -> ModelEvent | None:
    """Return what the same round sends backward with the graph of the stored value."""
    for sent in run.backwards:
        if sent.kind is EventKind.BACKWARD and (loop, number) in sent.loops:
            common = run.expanded(sent.graph) & store.graph
            if common and _are_proven(run, store.graph, sent, loop, number):
                return sent
    return None


def _are_proven(run: Run, graph: int, sent: ModelEvent, loop: LoopRun, number: int) -> bool:
    """Return whether the graph of a round that a value holds is surely there: a part of what was sent backward."""
    proven = run.proven(sent.graph)
    return any(graph & proven & event.bit and (loop, number) in event.loops for event in run.events)


def _is_loss(run: Run, store: ModelEvent, sent: ModelEvent) -> bool:
    if sent.sources & ~store.sources == 0:
        return True
    direct = sent.graph & store.graph
    inside = [event for event in run.of_kind(EventKind.LOSS) if event.bit & sent.sources]
    losses = [event for event in inside if not event.depth] or inside[-1:]
    return any(event.bit & store.sources for event in losses) if losses else bool(direct)
