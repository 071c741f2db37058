"""Optimizer steps in loops in which nothing clears the gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.model.knowledge import ResultKind
from esper_agents.review.model.query import EventKind, runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import LoopRun, ModelEvent, Run

_STEPPING = frozenset({ResultKind.OPTIMIZER, ResultKind.SCALER})


@dataclass(frozen=True, slots=True)
class UnclearedStep:
    """A step on the gradients of all rounds of a loop.

    Attributes:
        run: The run.
        backward: What adds to the gradients in each round.
        step: The step that uses them.
    """

    run: Run
    backward: ModelEvent
    step: ModelEvent


def uncleared_steps(index: ProjectIndex) -> Iterator[UnclearedStep]:
    """Yield steps of optimizers of a project in loops that surely never clear, one for each position."""
    seen: set[tuple[str, object]] = set()
    for run in runs(index):
        for step in run.of_kind(EventKind.STEP):
            if (step.path, step.at) in seen or step.is_conditional or not _is_of_optimizer(run, step):
                continue
            found = _repeated_with(run, step)
            if found is None or not run.outlives(step, found[1]) or _may_be_cleared(run, step, found[1]):
                continue
            seen.add((step.path, step.at))
            yield UnclearedStep(run, found[0], step)


def discarded_gradients(index: ProjectIndex) -> Iterator[UnclearedStep]:
    """Yield steps in loops that clear the gradients before the backward of each round.

    The `backward` of what is yielded is the event that clears. Branches around the calls that lead to the step or to
    the clearing are not looked at.
    """
    seen: set[tuple[str, object]] = set()
    for run in runs(index):
        for step in run.of_kind(EventKind.STEP):
            if not _is_of_optimizer(run, step) or (step.path, step.at) in seen:
                continue
            clear = _cleared_each_round(run, step)
            if clear is not None:
                seen.add((step.path, step.at))
                yield UnclearedStep(run, clear, step)


def _cleared_each_round(run: Run, step: ModelEvent) -> ModelEvent | None:
    """Return what clears the gradients in each round before the backward of the round, if nothing else steps."""
    for loop, number in run.turns(step):
        round_ = [event for event in run.events if (loop, number) in event.loops]
        sent = [event for event in round_ if event.kind is EventKind.BACKWARD]
        if not sent:
            continue
        if len({(event.path, event.at) for event in round_ if event.kind is EventKind.STEP and event.owners}) > 1:
            return None
        clears = [
            event
            for event in round_
            if event.kind is EventKind.CLEAR_GRADIENTS and event.loops == step.loops and _is_shared(event, step)
        ]
        is_each = bool(clears) and not any(event.is_conditional for event in (*clears, *sent))
        is_plain = all(event.loops == step.loops for event in sent) and len(sent) == 1
        return clears[0] if is_each and is_plain and clears[0].number < sent[0].number else None
    return None


def cleared_backwards(index: ProjectIndex) -> set[tuple[str, int]]:
    """Return the files and lines of what is sent backward in loops that clear the gradients, in whatever function."""
    return index.once("backwards in loops that clear", lambda: set(_cleared_backwards(index)))


def _cleared_backwards(index: ProjectIndex) -> Iterator[tuple[str, int]]:
    for run in runs(index):
        for step in run.of_kind(EventKind.STEP):
            found = _repeated_with(run, step) if _is_of_optimizer(run, step) else None
            if found is not None and _is_surely_cleared(run, step, found[1]):
                yield found[0].path, found[0].at.line


def _is_of_optimizer(run: Run, step: ModelEvent) -> bool:
    held = run.object(step)
    return held is not None and held.kind in _STEPPING


def _repeated_with(run: Run, step: ModelEvent) -> tuple[ModelEvent, LoopRun] | None:
    """Return the last backward before a step in the same round of a loop, and the loop; the innermost such loop."""
    before = [event for event in run.of_kind(EventKind.BACKWARD) if event.number < step.number]
    for loop, number in run.turns(step):
        for event in reversed(before):
            if (loop, number) in event.loops:
                return None if event.is_conditional else (event, loop)
    return None


def _events_in(run: Run, loop: LoopRun) -> Iterator[ModelEvent]:
    return (event for event in run.events if any(each is loop for each, _ in event.loops))


def _hands_over(event: ModelEvent) -> bool:
    return event.kind in {EventKind.CALL, EventKind.FORWARD} and event.hands_over


def _may_be_cleared(run: Run, step: ModelEvent, loop: LoopRun) -> bool:
    """Return whether something in a loop may clear the gradients of an optimizer, as unknown code that has it may."""
    for event in _events_in(run, loop):
        if _hands_over(event) or (event.kind is EventKind.EFFECT and event.name == "gradient"):
            return True
        if event.kind is EventKind.CLEAR_GRADIENTS and _is_shared(event, step) is not False:
            return True
    return False


def _is_surely_cleared(run: Run, step: ModelEvent, loop: LoopRun) -> bool:
    """Return whether each round of a loop clears the gradients of an optimizer, or unknown code may."""
    for event in _events_in(run, loop):
        if not event.is_conditional and _hands_over(event):
            return True
        is_clear = event.kind is EventKind.CLEAR_GRADIENTS and not event.is_conditional
        if is_clear and _is_shared(event, step):
            return True
    return False


def _is_shared(clear: ModelEvent, step: ModelEvent) -> bool | None:
    """Return whether what is cleared has parameters of the optimizer that steps, None if that is not known."""
    if clear.target == step.target >= 0:
        return True
    return bool(clear.owners & step.owners) if clear.owners and step.owners else None
