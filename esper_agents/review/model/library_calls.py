"""Results and events of library calls, from the facts about them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.model import saved_tensors
from esper_agents.review.model.events import EventKind, GradMode
from esper_agents.review.model.generators import mapped
from esper_agents.review.model.heap import INITIAL_EVALUATION, INITIAL_TRAINING, MODE, UNKNOWN_MODE
from esper_agents.review.model.knowledge import CallFacts, Effect, GradEffect, GraphEffect, InitialMode, ResultKind
from esper_agents.review.model.modules import (
    ACTS,
    GIVERS,
    UNKNOWN_PART,
    givers_of,
    has_trainable,
    owners_of,
    parts_of,
)
from esper_agents.review.model.values import (
    NONE,
    NUMBER,
    TEXT,
    UNKNOWN,
    Constant,
    Context,
    Data,
    Ref,
    Union,
    Value,
    constant,
)

if TYPE_CHECKING:
    from esper_agents.review.model.call_site import CallSite
    from esper_agents.review.model.events import Frame
    from esper_agents.review.model.interpreter import Interpreter
    from esper_agents.review.model.ir import SourcePosition

_EVENTS = {
    Effect.FETCH: EventKind.FETCH,
    Effect.BACKWARD: EventKind.BACKWARD,
    Effect.GRADIENT: EventKind.GRADIENT,
    Effect.STEP: EventKind.STEP,
    Effect.CLEAR_GRADIENTS: EventKind.CLEAR_GRADIENTS,
    Effect.LOAD_STATE: EventKind.LOAD_STATE,
    Effect.MOVE: EventKind.MOVE,
    Effect.EMPTY: EventKind.EMPTY,
    Effect.LOSS: EventKind.LOSS,
}
_OWNING = frozenset({Effect.STEP, Effect.CLEAR_GRADIENTS})
# Say how a result is made, and are no part of it.
_SETTINGS = frozenset({"device", "dtype"})
# `backward(loss, gradient, retain_graph)`.
_OPTIONS_OF_BACKWARD = 3
_DATA = frozenset({ResultKind.TENSOR, ResultKind.ARRAY, ResultKind.UNKNOWN})
_MODES = {InitialMode.TRAINING: INITIAL_TRAINING, InitialMode.EVALUATION: INITIAL_EVALUATION}


def library_result(run: Interpreter, name: str, facts: CallFacts, site: CallSite, *, is_method: bool = False) -> Value:
    """Return the result of a library call; for a method, the receiver is the first argument."""
    from esper_agents.review.model.calls import forget, run_closures

    args = site.args
    plain = [each for name, each in site.keywords.items() if name not in _SETTINGS]
    members = [run.data_of(each) for each in (*args, *plain)]
    sources = graph = surely = 0
    certain = False
    for data in members:
        sources, graph, surely = sources | data.sources, graph | data.graph, surely | data.surely
        certain = certain or bool(data.graph and data.graph_certain)
    inputs = Data(ResultKind.UNKNOWN, sources, graph, certain or not graph, graph & ~surely)
    if Effect.APPLY in facts.effects and len(args) > 1:
        return mapped(run, site.frame, args[1], args[2:] or args[:1], site.at)
    run_closures(run, site)
    if not facts.keeps_arguments:
        for each in site.values:
            forget(run, each)
    if Effect.FORWARD in facts.effects and args and isinstance(args[0], Ref):
        return run.calls.forward(args[0], site.given(args[1:], site.keywords))
    if Effect.LOSS in facts.effects and not is_method and len(args) > 1:
        _note_target(run, site)
    effect_events(run, name, facts, site, inputs)
    if {Effect.LOSS, Effect.LOG_PROBABILITY} & facts.effects:
        inputs = replace(inputs, sources=inputs.sources | run.events[-1].bit)
        run.log_probabilities |= run.events[-1].bit if Effect.LOG_PROBABILITY in facts.effects else 0
    result = _result(run, name, facts, inputs, site, is_method=is_method)
    return saved_tensors.called(run, name, facts, site, result, is_method=is_method)


def _note_target(run: Interpreter, site: CallSite) -> None:
    """Log the target of a loss, if it holds a graph as the prediction does."""
    prediction, target = (run.data_of(each) for each in site.args[:2])
    if prediction.graph and target.graph:
        run.event(
            EventKind.TARGET,
            site.at,
            site.frame,
            inputs=prediction.graph,
            sources=target.sources,
            graph=target.graph,
            maybe=target.maybe,
            text=site.text,
        )


def effect_events(run: Interpreter, name: str, facts: CallFacts, site: CallSite, inputs: Data) -> None:
    """Log the events of a call's effects."""
    args = site.args
    for effect in sorted(facts.effects):
        kind = _EVENTS.get(effect, EventKind.EFFECT)
        subject = args[0] if args else UNKNOWN
        if effect is Effect.BACKWARD and len(args) > 1 and run.data_of(args[1]).graph:
            # `scaler.backward(loss)`: the receiver is no loss.
            subject = args[1]
        data = run.data_of(subject) if args else inputs
        run.backwards += effect in {Effect.BACKWARD, Effect.GRADIENT}
        run.event(
            kind,
            site.at,
            site.frame,
            target=subject.ident if isinstance(subject, Ref) else -1,
            inputs=inputs.sources,
            sources=data.sources,
            graph=data.graph,
            graph_certain=data.graph_certain,
            maybe=data.maybe,
            retains=effect is Effect.BACKWARD and retains_graph(site),
            owners=owners_of(run.heap, subject) if effect in _OWNING and isinstance(subject, Ref) else frozenset(),
            name=name if kind is not EventKind.EFFECT else effect.value,
            text=site.text,
        )


def retains_graph(site: CallSite) -> bool:
    """Return whether a backward may keep the graph for another one."""
    is_plain = site.rest is None and len(site.args) < _OPTIONS_OF_BACKWARD
    options = {"retain_graph", "create_graph"}
    return not is_plain or any(site.keywords.get(each) not in {None, constant(False), NONE} for each in options)


def _result(run: Interpreter, name: str, facts: CallFacts, inputs: Data, site: CallSite, *, is_method: bool) -> Value:
    kind, first = facts.result, site.args[0] if site.args else UNKNOWN
    if kind in _DATA:
        return _data(run, facts, inputs, site, "" if is_method else name)
    if kind in {ResultKind.NUMBER, ResultKind.TEXT}:
        return Data(kind, inputs.sources)
    if kind is ResultKind.CONTEXT:
        return _context(run, facts, site.argument(int(is_method), "mode"))
    if kind is ResultKind.ARGUMENTS:
        given = list(site.args[int(is_method) :])
        return given[0] if len(given) == 1 else run.attributes.tuple_of(site.frame, given, site.at)
    simple = {ResultKind.SAME: first, ResultKind.NONE: NONE, ResultKind.FUNCTION: UNKNOWN}
    if kind in simple or kind is ResultKind.ITERATOR:
        return simple[kind] if kind in simple else iterator_over(run, site.frame, first, site.at)
    return _object(run, name, facts, site, is_method=is_method)


def _context(run: Interpreter, facts: CallFacts, argument: Value | None) -> Context:
    before = run.grad
    if facts.grad_mode is GradEffect.ARGUMENT:
        # A plain call is in force at once; a `with` restores what was before.
        run.grad = grad_inside(facts.grad_mode, argument, before)
    return Context(facts, argument, before)


def grad_inside(effect: GradEffect | None, argument: Value | None, before: GradMode) -> GradMode:
    """Return the grad mode inside a context manager."""
    if effect is None:
        return before
    if effect is GradEffect.ARGUMENT:
        if isinstance(argument, Constant):
            return GradMode.ON if argument.value else GradMode.OFF
        return GradMode.UNKNOWN
    if argument is not None and argument != constant(value=True):
        # `inference_mode(False)` leaves gradients as they are.
        return before if argument == constant(value=False) else GradMode.UNKNOWN
    return GradMode.ON if effect is GradEffect.ON else GradMode.OFF


def _data(run: Interpreter, facts: CallFacts, inputs: Data, site: CallSite, name: str) -> Value:
    graph = inputs.graph
    if run.grad is GradMode.OFF or facts.graph is GraphEffect.CUTS:
        graph = 0
    sources = inputs.sources
    if facts.result is ResultKind.UNKNOWN:
        made = run.opaque(site.frame, site.at, f"{site.text}()", sources=sources, graph=graph)
        run.heap[made].library = name
        return made
    if facts.graph is GraphEffect.LEAF or (not graph and _asks_for_gradients(facts, site)):
        event = run.event(EventKind.PARAMETER, site.at, site.frame)
        sources, graph = sources | event.bit, event.bit
    return Data(facts.result, sources, graph, inputs.graph_certain, inputs.maybe & graph)


def _asks_for_gradients(facts: CallFacts, site: CallSite) -> bool:
    """Return whether a call may make its result ask for gradients: `torch.tensor(0.5, requires_grad=True)`."""
    is_switch = Effect.UNFREEZE in facts.effects
    asked = site.keywords.get("requires_grad", site.args[1] if is_switch and len(site.args) > 1 else None)
    return is_switch if asked is None else asked != constant(value=False)


def _object(run: Interpreter, name: str, facts: CallFacts, site: CallSite, *, is_method: bool) -> Value:
    """Return a new object of a library: a module, a loader, an optimizer, the parameters of a module."""
    args, keywords = site.args, site.keywords
    kind = ResultKind.MODULE if facts.result is ResultKind.WRAPPER else facts.result
    made = run.heap.new(
        kind,
        library="" if is_method else name,
        facts=facts,
        birth=len(run.events),
        at=site.at,
        code=site.frame.code,
        path=name.rpartition(".")[2],
        loop_depth=len(run.loops),
    )
    ref = Ref(made.ident)
    if facts.result is ResultKind.WRAPPER and args:
        made.fields["module"] = args[0]
    elif kind in {ResultKind.MODULE, ResultKind.LAYERS}:
        _fill_module(run, ref, facts, site, is_method=is_method)
    elif is_method and args:
        made.fields["#owner"] = args[0]
    for place, key in enumerate(facts.parameters if kind not in {ResultKind.MODULE, ResultKind.LAYERS} else ()):
        if key in facts.holds:
            value = keywords.get(key, args[place] if place < len(args) else None)
            if value is not None:
                made.fields[key] = value
    if kind is ResultKind.OPTIMIZER:
        made.fields[GIVERS] = givers_of(run.heap, args[0] if args else keywords.get("params", UNKNOWN))
    return ref


def _fill_module(run: Interpreter, ref: Ref, facts: CallFacts, site: CallSite, *, is_method: bool) -> None:
    """Write the mode and the parts of a module that a library made."""
    from esper_agents.review.model.effects import hold_children

    made = run.heap[ref]
    made.fields[MODE] = _MODES.get(facts.mode, UNKNOWN_MODE)
    saved_tensors.note_inplace(made, site)
    if "dropout" in site.keywords and facts.acts_by_mode is None:
        made.fields[ACTS] = site.keywords["dropout"] not in {constant(0), constant(0.0)}
    modules = [each for each in site.args if _holds_module(run, each)]
    if len(modules) < len(site.args) and made.kind is ResultKind.MODULE and facts.holds:
        # Some part is not known, and may be any layer.
        made.fields[UNKNOWN_PART] = True
    if made.kind is ResultKind.LAYERS or modules:
        hold_children(run, ref, modules)
    if is_method and site.args and isinstance(site.args[0], Ref):
        _hold_parts(run, site.args[0], made.fields)


def _hold_parts(run: Interpreter, owner: Ref, fields: dict[str, object]) -> None:
    for place, part in enumerate(parts_of(run.heap, owner, with_unknown=False)):
        fields[str(place)] = part


def _holds_module(run: Interpreter, value: Value) -> bool:
    if isinstance(value, Union):
        return all(_holds_module(run, each) for each in value.values)
    if not isinstance(value, Ref):
        return False
    held = run.heap[value]
    if held.container and not held.fields.get("#items") and "#elements" not in held.fields:
        return False
    if held.kind in {ResultKind.MODULE, ResultKind.LAYERS}:
        return True
    return bool(held.container) or (held.kind is ResultKind.UNKNOWN and held.cls is None)


def iterator_over(run: Interpreter, frame: Frame, value: Value, at: SourcePosition, prefix: Value | None = None) -> Ref:
    """Return an iterator with the elements of a value; `prefix` goes before each, as `enumerate` does."""
    made = run.attributes.container(frame, "iterator", at)
    fields = run.heap[made].fields
    fields["#over"] = value
    if prefix is not None:
        fields["#prefix"] = prefix
    return made


__all__ = ["NUMBER", "TEXT", "effect_events", "has_trainable", "iterator_over", "library_result"]
