"""Effects of methods: modes, backward, steps, fetches, containers, evidence about unknown objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.model.events import EventKind, GradMode, LoopKind
from esper_agents.review.model.heap import ELEMENTS, MODE, UNKNOWN_MODE, HeapObject, Mode, ModeSetting
from esper_agents.review.model.knowledge import CallFacts, Effect, GraphEffect, InitialMode, ResultKind
from esper_agents.review.model.library_calls import effect_events, library_result
from esper_agents.review.model.modules import FROZEN, parts_of, set_mode
from esper_agents.review.model.values import NONE, BoundMethod, Constant, Data, Ref, Value, alternatives, constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.model.call_site import CallSite
    from esper_agents.review.model.events import Frame, ModelEvent
    from esper_agents.review.model.interpreter import Interpreter
    from esper_agents.review.model.ir import SetAttr

_STORING_ONE = frozenset({"append", "add", "appendleft", "insert"})
_STORING = _STORING_ONE | {"extend", "update"}
_EMPTYING = frozenset({"clear", "pop", "popleft"})
_CONTAINER_KINDS = frozenset({"list", "set", "dict"})


def inputs_of(run: Interpreter, site: CallSite) -> Data:
    """Return the sources and graphs of all arguments."""
    sources = graph = surely = 0
    for each in site.values:
        data = run.data_of(each)
        sources |= data.sources
        graph |= data.graph
        surely |= data.surely
    return Data(ResultKind.UNKNOWN, sources, graph, maybe=graph & ~surely)


def hold_children(run: Interpreter, made: Ref, args: Sequence[Value]) -> None:
    """Make modules among the arguments children of a module, as `Sequential` does."""
    held = run.heap[made]
    place = 0
    for each in args:
        parts = [each]
        if isinstance(each, Ref) and run.heap[each].container:
            fields = run.heap[each].fields
            parts = [*(fields.get("#items") or ())] + ([fields[ELEMENTS]] if ELEMENTS in fields else [])
        for part in parts:
            run.heap.write(held.fields, str(place), part)
            place += 1
    run.heap.write(held.fields, "#holds", value=True)


def log_module(run: Interpreter, frame: Frame, target: Ref, ins: SetAttr, value: Value) -> None:
    """Log that a method other than a constructor, or a function, puts a module into an object."""
    if frame.code.name == "__init__" or not isinstance(value, Ref) or run.heap[value].kind is not ResultKind.MODULE:
        return
    names = dict.fromkeys(run.heap[part].library for part in parts_of(run.heap, value, with_unknown=False))
    shown = " ".join(name for name in names if name)
    kind = EventKind.SET_MODULE
    run.event(kind, ins.at, frame, target=target.ident, value=value.ident, name=shown, text=ins.text)


def mark_as_layers(run: Interpreter, held: HeapObject) -> None:
    """Mark the loop over whose elements an element runs as a module: it unrolls a network."""
    loop = run.loops[held.loop_depth - 1]
    if loop.kind is LoopKind.DATA and held.birth >= loop.birth and held.kind is ResultKind.UNKNOWN:
        loop.kind = LoopKind.LAYERS


def result_of_forward(run: Interpreter, result: Value, event: ModelEvent, own: int, site: CallSite) -> Value:
    """Return the result of a project module's `forward` with the event among its sources."""
    data = run.data_of(result)
    return run.attributes.marked(result, event.bit, site, own if data.graph else 0)


def call_method(run: Interpreter, method: BoundMethod, site: CallSite) -> Value:
    """Return the result of a method that no project code defines."""
    receiver, name = method.receiver, method.name
    if isinstance(receiver, Ref):
        return _method_of_object(run, receiver, name, site)
    data = run.data_of(receiver)
    kind = ResultKind.TENSOR if data.kind is ResultKind.UNKNOWN else data.kind
    facts = run.knowledge.method(kind, name)
    if facts is None:
        inputs = inputs_of(run, site)
        recorded = (data.graph | inputs.graph) if run.grad is not GradMode.OFF else 0
        kept = recorded if data.kind is not ResultKind.NUMBER else 0
        surely = data.surely | inputs.surely
        return Data(data.kind, data.sources | inputs.sources, kept, maybe=kept & ~surely)
    result = library_result(run, name, facts, site.given([receiver, *site.args], site.keywords), is_method=True)
    if -1 in facts.writes:
        run.written(site, receiver, result)
        if ".grad" in site.text:
            run.event(EventKind.CLEAR_GRADIENTS, site.at, site.frame, text=site.text)
    return result


def _method_of_object(run: Interpreter, receiver: Ref, name: str, site: CallSite) -> Value:
    held = run.heap[receiver]
    if held.container in _CONTAINER_KINDS:
        result = _method_of_container(run, receiver, name, site)
        if result is not None:
            return result
    facts = _facts_of(run, held, name)
    if facts is None:
        return _method_of_nothing(run, receiver, name, site)
    if {Effect.SET_MODE, Effect.TO_TRAINING, Effect.TO_EVALUATION} & facts.effects:
        return _switch(run, receiver, facts, site)
    if {Effect.STORE, Effect.STORE_ALL} & facts.effects and site.args:
        put = run.attributes.extend if Effect.STORE_ALL in facts.effects else run.attributes.store
        put(receiver, site.args[-1], site)
        return NONE
    return _effect_on_object(run, receiver, name, facts, site)


def _method_of_nothing(run: Interpreter, receiver: Ref, name: str, site: CallSite) -> Value:
    """Return the result of a method of which nothing is known."""
    held = run.heap[receiver]
    if name not in held.fields and (held.cls is not None or held.is_open) and not held.sources:
        # An inherited or injected attribute that is called: it may be a module.
        child = run.opaque(site.frame, site.at, f"{held.path}.{name}", is_open=True)
        run.heap.write(held.fields, name, child)
        return run.calls.forward(child, site)
    return run.calls.unknown(receiver, site.given([receiver, *site.args], site.keywords))


def _effect_on_object(run: Interpreter, receiver: Ref, name: str, facts: CallFacts, site: CallSite) -> Value:
    held, args = run.heap[receiver], site.args
    if name == "__init__" and args and held.kind is ResultKind.MODULE:
        # `super().__init__(*layers)` of a class that inherits from `Sequential`.
        hold_children(run, receiver, args)
        return NONE
    if {Effect.FREEZE, Effect.UNFREEZE} & facts.effects:
        is_on = bool(args[0].value) if args and isinstance(args[0], Constant) else Effect.UNFREEZE in facts.effects
        run.heap.write(held.fields, FROZEN, not is_on)
        return receiver
    return library_result(run, name, facts, site.given([receiver, *site.args], site.keywords), is_method=True)


def _facts_of(run: Interpreter, held: HeapObject, name: str) -> CallFacts | None:
    """Return what a method does; a method of an unknown object is evidence of its kind."""
    knowledge = run.knowledge
    if held.kind is not ResultKind.UNKNOWN:
        return knowledge.method(held.kind, name, held.library) or knowledge.method(ResultKind.UNKNOWN, name)
    if held.cls is not None and not held.sources:
        return knowledge.method(ResultKind.UNKNOWN, name) if not held.is_open else None
    facts = knowledge.method(ResultKind.UNKNOWN, name, held.library)
    if facts is not None:
        if knowledge.method(ResultKind.MODULE, name) == facts:
            held.evidence.add(ResultKind.MODULE)
        return facts
    if ResultKind.MODULE in held.evidence:
        return knowledge.method(ResultKind.MODULE, name)
    return knowledge.method(ResultKind.TENSOR, name) if held.sources else None


def _switch(run: Interpreter, receiver: Ref, facts: CallFacts, site: CallSite) -> Value:
    """Switch the mode of a module."""
    mode = Mode.EVALUATION if Effect.TO_EVALUATION in facts.effects else Mode.TRAINING
    if Effect.SET_MODE in facts.effects:
        given = site.argument(0, "mode")
        if given is not None:
            is_known = isinstance(given, Constant)
            mode = Mode.UNKNOWN if not is_known else Mode.TRAINING if given.value else Mode.EVALUATION  # type: ignore[union-attr]
    held = run.heap[receiver]
    before = held.fields.get(MODE, UNKNOWN_MODE)
    event = run.event(
        EventKind.MODE, site.at, site.frame, target=receiver.ident, name=mode.value, text=site.text, modes=before
    )
    set_mode(run.heap, receiver, ModeSetting(mode, event.number))
    if held.kind is ResultKind.UNKNOWN:
        held.evidence.add(ResultKind.MODULE)
    return receiver


def forget_mode(run: Interpreter, module: Value) -> None:
    """Forget the mode of a module whose `training` is written; of all modules if it is unknown which one it is."""
    refs = [each for each in alternatives(module) if isinstance(each, Ref) and MODE in run.heap[each].fields]
    for held in [run.heap[each] for each in refs] or [each for each in run.heap.objects if MODE in each.fields]:
        run.heap.write(held.fields, MODE, UNKNOWN_MODE)


def _method_of_container(run: Interpreter, receiver: Ref, name: str, site: CallSite) -> Value | None:
    attributes, held = run.attributes, run.heap[receiver]
    if name in _STORING and site.args:
        put = attributes.store if name in _STORING_ONE else attributes.extend
        put(receiver, site.args[-1], site)
        return NONE
    if name in _EMPTYING:
        element = NONE if name == "clear" else attributes.any_element(site.frame, receiver, site.at)
        if name == "clear":
            attributes.empty(receiver)
        run.event(EventKind.EMPTY, site.at, site.frame, target=receiver.ident, text=site.text)
        return element
    if held.container == "dict":
        return _method_of_dict(run, receiver, name, site)
    if name == "copy":
        return receiver
    return constant(0) if name in {"index", "count"} else None


def _is_absent(held: HeapObject, key: Value) -> bool:
    """Return whether a dictionary whose keys are all known has no such key."""
    return isinstance(key, Constant) and f"[{key.value!r}]" not in held.fields and ELEMENTS not in held.fields


def _set_default(run: Interpreter, held: HeapObject, key: Value, default: Value) -> None:
    """Store a default where a dictionary has no element yet."""
    place = f"[{key.value!r}]" if isinstance(key, Constant) else ELEMENTS
    if place not in held.fields and ELEMENTS not in held.fields:
        run.heap.write(held.fields, place, default)


def _method_of_dict(run: Interpreter, receiver: Ref, name: str, site: CallSite) -> Value | None:
    frame, args, at = site.frame, site.args, site.at
    held = run.heap[receiver]
    values = tuple(each for key, each in held.fields.items() if key[0] == "[")
    if name in {"get", "setdefault"} and args:
        from esper_agents.review.model.operations import subscripted

        if name == "setdefault" and len(args) > 1:
            _set_default(run, held, args[0], args[1])
        elif _is_absent(held, args[0]):
            return args[1] if len(args) > 1 else NONE
        return subscripted(run, frame, receiver, args[0], at)
    if name in {"values", "items", "keys"}:
        made = run.attributes.container(frame, "list", at)
        fields = run.heap[made].fields
        rest = [held.fields[ELEMENTS]] if ELEMENTS in held.fields else []
        names: list[Value] = [constant(key[2:-2]) for key in held.fields if key[:2] == "['"]
        if name == "values":
            items: list[Value] = [*values]
        elif name == "keys":
            items = names
        else:
            pairs = zip(names, values, strict=False)
            items = [run.attributes.tuple_of(frame, [key, each], at) for key, each in pairs]
            rest = [run.attributes.tuple_of(frame, [Data(ResultKind.TEXT), each], at) for each in rest]
        if rest:
            fields[ELEMENTS] = rest[0]
            items = []
        fields["#items"] = tuple(items) if not rest else None
        return made
    return None


__all__ = [
    "GraphEffect",
    "InitialMode",
    "call_method",
    "effect_events",
    "hold_children",
    "inputs_of",
    "mark_as_layers",
    "result_of_forward",
]
