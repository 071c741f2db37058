"""Generators: loops whose results are kept only if something gathers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.model.call_site import CallSite
from esper_agents.review.model.events import LoopRun
from esper_agents.review.model.heap import ELEMENTS
from esper_agents.review.model.ir import Loop
from esper_agents.review.model.values import Ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.model.events import Frame
    from esper_agents.review.model.interpreter import Interpreter
    from esper_agents.review.model.ir import SourcePosition
    from esper_agents.review.model.values import Value

# Loops that make the elements of a generator.
LOOPS = "#loops"


def gather(run: Interpreter, value: Value, site: CallSite) -> None:
    """Log that all elements of a generator are kept: one for each round of the loops that make them."""
    held = run.heap[value] if isinstance(value, Ref) else None
    if held is None or held.container != "generator" or ELEMENTS not in held.fields or not isinstance(value, Ref):
        return
    data = run.data_of(held.fields[ELEMENTS])
    if data.graph:
        outer = run.loops
        run.loops = [*outer, *(loop for loop in held.fields[LOOPS] if loop not in outer)]
        held.fields[ELEMENTS] = run.attributes.stored(value, held.fields[ELEMENTS], data, site, "append")
        run.loops = outer


def mapped(run: Interpreter, frame: Frame, function: Value, values: Sequence[Value], at: SourcePosition) -> Value:
    """Return a generator of the results of a function on the elements of some values."""
    made = run.attributes.container(frame, "generator", at)
    kind, source, _ = run.attributes.iteration(frame, values[0])
    code = Loop(-1, -1, [], -1, [], [], at, at.end_line, is_comprehension=True)
    loop = LoopRun(code, frame.code, kind, len(run.events), len(run.heap.objects), source=source)
    run.loops.append(loop)
    frame.arms += 1
    try:
        loop.round_births.append(len(run.heap.objects))
        elements = [run.attributes.element(frame, loop, each, None) for each in values]
        result = run.calls.apply(function, CallSite(frame, at, elements, text="map"))
        run.attributes.store(made, result, CallSite(frame, at))
    finally:
        run.loops.pop()
        frame.arms -= 1
    return made
