"""Attributes, containers and iteration on abstract values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.model.call_site import CallSite
from esper_agents.review.model.effects import forget_mode, log_module
from esper_agents.review.model.events import EventKind, LoopKind
from esper_agents.review.model.generators import LOOPS, gather
from esper_agents.review.model.heap import ELEMENTS, INITIAL_TRAINING, ITEMS, MODE
from esper_agents.review.model.knowledge import GraphEffect, ResultKind
from esper_agents.review.model.modules import owners_of
from esper_agents.review.model.saved_tensors import overwrite
from esper_agents.review.model.values import (
    NUMBER,
    UNKNOWN,
    BoundMethod,
    ClassValue,
    Constant,
    Data,
    FunctionValue,
    Library,
    Namespace,
    Ref,
    Super,
    Union,
    Value,
    alternatives,
    join,
    joined,
)

if TYPE_CHECKING:
    from esper_agents.review.model.events import Frame, LoopRun
    from esper_agents.review.model.heap import HeapObject
    from esper_agents.review.model.interpreter import Interpreter
    from esper_agents.review.model.ir import Build, SetAttr, SetItem, SourcePosition

OVER = "#over"
OWNER = "#owner"
_MODULE_LIKE = frozenset({ResultKind.MODULE, ResultKind.LAYERS})


class Attributes:
    """Reads and writes of attributes and containers."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.run = interpreter

    # Attributes

    def get(self, frame: Frame, value: Value, name: str, at: SourcePosition) -> Value:
        """Return an attribute of a value."""
        if name == "grad" and self.run.loops:
            self.run.event(EventKind.EFFECT, at, frame, name="gradient")
        if isinstance(value, Ref):
            return self._of_object(frame, value, name, at)
        if isinstance(value, Library):
            return Library(f"{value.path}.{name}")
        if isinstance(value, Union):
            return joined([self.get(frame, each, name, at) for each in value.values])
        if isinstance(value, Namespace | ClassValue | Super):
            return self._of_definition(value, name)
        return self._of_data(value, name)

    def _of_definition(self, value: Namespace | ClassValue | Super, name: str) -> Value:
        if isinstance(value, Namespace):
            return self.run.world.member(self.run, value.file, name)
        if isinstance(value, Super):
            return self._of_super(value, name)
        found = self.in_class(value, name)
        if isinstance(found, FunctionValue) and found.kind == "classmethod":
            return _bound(found, value)
        return found if found is not None else UNKNOWN

    def _of_data(self, value: Value, name: str) -> Value:
        if isinstance(value, Constant):
            return BoundMethod(value, name)
        data = self.run.data_of(value)
        facts = self.run.knowledge.attribute(ResultKind.TENSOR if data.kind is ResultKind.UNKNOWN else data.kind, name)
        if facts is not None:
            graph = data.graph if facts.graph is GraphEffect.KEEPS else 0
            kind = facts.result if facts.result is not ResultKind.SAME else data.kind
            return Data(kind, data.sources, graph, data.graph_certain, data.maybe & graph)
        return BoundMethod(value, name)

    def _of_object(self, frame: Frame, value: Ref, name: str, at: SourcePosition) -> Value:
        held = self.run.heap[value]
        if name in held.fields:
            found: Value = held.fields[name]
            return found
        if held.cls is not None:
            method = self.method_of(value, name)
            if method is not None:
                is_property = isinstance(method, FunctionValue) and method.kind == "property"
                return self.run.calls.apply(method, CallSite(frame, at)) if is_property else method
        if held.container:
            return BoundMethod(value, name)
        data = self._data_attribute(held, name)
        if data is not None:
            return data
        is_foreign = held.cls is not None and held.is_open and self.run.knowledge.method(held.kind, name) is None
        if (held.kind is not ResultKind.UNKNOWN and not is_foreign) or self._is_method_name(held, name):
            return BoundMethod(value, name)
        child = self.run.part(frame, at, held, f"{held.path}.{name}")
        self.run.heap.write(held.fields, name, child)
        return child

    def _data_attribute(self, held: HeapObject, name: str) -> Value | None:
        """Return an attribute that is data by what is known about the kind of the object."""
        if name == "__class__" and held.cls is not None:
            return ClassValue(held.cls)
        facts = self.run.knowledge.attribute(held.kind, name, held.library)
        if facts is None and held.kind is ResultKind.UNKNOWN and held.cls is None:
            facts = self.run.knowledge.attribute(ResultKind.TENSOR, name)
        if facts is not None and facts.result is not ResultKind.UNKNOWN:
            graph = held.graph if facts.graph is GraphEffect.KEEPS else 0
            kind = ResultKind.UNKNOWN if facts.result is ResultKind.SAME else facts.result
            if kind in {ResultKind.TENSOR, ResultKind.ARRAY, ResultKind.NUMBER, ResultKind.TEXT, ResultKind.UNKNOWN}:
                return Data(kind, held.sources, graph)
        return None

    def _is_method_name(self, held: HeapObject, name: str) -> bool:
        """Return whether a name is a method without more, of an object of unknown kind."""
        knowledge = self.run.knowledge
        if knowledge.method(ResultKind.UNKNOWN, name, held.library) is not None:
            return True
        if held.cls is not None:
            return self.is_module(held.cls) and knowledge.method(ResultKind.MODULE, name) is not None
        return bool(held.sources) and knowledge.method(ResultKind.TENSOR, name) is not None

    def set(self, frame: Frame, value: Value, ins: SetAttr, src: Value) -> None:
        """Write an attribute."""
        run = self.run
        if ins.name == "grad":
            self._clear(frame, value, ins)
        elif ins.name == "training":
            forget_mode(self.run, value)
        for each in alternatives(value):
            if isinstance(each, Ref):
                held = run.heap[each]
                stored = src
                data = run.data_of(src) if run.loops else None
                if data is not None and data.graph:
                    name = "accumulate" if ins.reads_itself else "attribute"
                    stored = self.stored(each, src, data, CallSite(frame, ins.at, text=ins.text), name)
                if ins.name == "requires_grad" and isinstance(src, Constant):
                    self._freeze(held, is_frozen=not src.value)
                run.heap.write(held.fields, ins.name, stored)
                log_module(run, frame, each, ins, src)
            elif isinstance(each, ClassValue):
                run.heap.write(each.cls.scope.names, ins.name, src)
            elif isinstance(each, Namespace):
                run.heap.write(run.world.scope(run, each.file).names, ins.name, src)

    def _clear(self, frame: Frame, value: Value, ins: SetAttr) -> None:
        """Log that the gradient of a parameter is replaced: `parameter.grad = None`."""
        held = self.run.heap[value] if isinstance(value, Ref) else None
        owner = held.fields.get(OWNER) if held is not None else None
        owners = owners_of(self.run.heap, owner) if isinstance(owner, Ref) else frozenset()
        self.run.event(EventKind.CLEAR_GRADIENTS, ins.at, frame, owners=owners, text=ins.text)

    def _freeze(self, held: HeapObject, *, is_frozen: bool) -> None:
        owner = held.fields.get(OWNER)
        if isinstance(owner, Ref):
            self.run.heap.write(self.run.heap[owner].fields, "#frozen", is_frozen)

    def stored(self, target: Ref, src: Value, data: Data, site: CallSite, name: str) -> Value:
        """Log that a value with a graph is stored in an object; return it with the event as a source."""
        event = self.run.event(
            EventKind.STORE,
            site.at,
            site.frame,
            target=target.ident,
            sources=data.sources,
            graph=data.graph,
            graph_certain=data.graph_certain,
            name=name,
            text=site.text,
        )
        return self.marked(src, event.bit, site)

    def marked(self, value: Value, bit: int, site: CallSite, graph: int = 0) -> Value:
        """Return a value with an event among its sources, and other events in its graph."""
        if isinstance(value, Data):
            certain = value.graph_certain if value.graph else True
            maybe = value.maybe & ~graph
            return Data(value.kind, value.sources | bit, value.graph | graph, certain, maybe, value.storage)
        if isinstance(value, Union):
            return joined([self.marked(each, bit, site, graph) for each in value.values])
        if isinstance(value, Ref):
            held = self.run.heap[value]
            items = held.fields.get(ITEMS)
            if held.is_open and not graph:
                # An object from outside keeps its identity: it may be a model.
                return value
            if held.container == "tuple" and items and held.cls is None:
                parts = [self.marked(each, bit, site, graph) for each in items]
                return self.tuple_of(site.frame, parts, site.at)
            if not held.container and held.cls is None and held.kind is ResultKind.UNKNOWN and (held.graph or graph):
                return Data(ResultKind.UNKNOWN, held.sources | bit, held.graph | graph)
        return value

    # Classes

    def in_class(self, value: Value, name: str, *, after: ClassValue | None = None) -> Value | None:
        """Return what a class or its bases in the project bind to a name."""
        lineage = self.lineage(value)
        if after is not None:
            names = [each.cls for each in lineage]
            lineage = lineage[names.index(after.cls) + 1 :] if after.cls in names else ()
        for each in lineage:
            if name in each.cls.scope.names:
                found: Value = each.cls.scope.names[name]
                return found
        return None

    def lineage(self, value: Value) -> tuple[ClassValue, ...]:
        """Return a class with its bases in the project, nearest first."""
        found: list[ClassValue] = []
        edge = [value]
        while edge:
            first = edge.pop(0)
            for each in alternatives(first):
                if isinstance(each, ClassValue) and all(each.cls is not one.cls for one in found):
                    found.append(each)
                    edge[:0] = each.cls.bases
        return tuple(found)

    def library_bases(self, value: Value) -> tuple[str, ...]:
        """Return the qualified names of the library classes that a class inherits from."""
        return tuple(base.path for each in self.lineage(value) for base in each.cls.bases if isinstance(base, Library))

    def is_module(self, cls: object) -> bool:
        """Return whether a class of the project is a torch module."""
        known = self.run.world.module_classes
        if cls not in known:
            bases = self.library_bases(ClassValue(cls))  # type: ignore[arg-type]
            facts = [self.run.knowledge.call(base) for base in bases]
            known[cls] = any(each is not None and each.result in _MODULE_LIKE for each in facts)
        return known[cls]

    def method_of(self, value: Ref, name: str) -> Value | None:
        """Return a method of an object of a project class, bound to it."""
        held = self.run.heap[value]
        if held.cls is None:
            return None
        found = self.in_class(ClassValue(held.cls), name)
        if isinstance(found, FunctionValue) and found.kind != "staticmethod":
            return _bound(found, ClassValue(held.cls) if found.kind == "classmethod" else value)
        return found

    def _of_super(self, value: Super, name: str) -> Value:
        held = self.run.heap[value.receiver] if isinstance(value.receiver, Ref) else None
        start = ClassValue(held.cls) if held is not None and held.cls is not None else ClassValue(value.cls)
        found = self.in_class(start, name, after=ClassValue(value.cls))
        if isinstance(found, FunctionValue):
            return found if found.kind == "staticmethod" else _bound(found, value.receiver)
        return found if found is not None else BoundMethod(value.receiver, name)

    # Containers

    def container(self, frame: Frame, kind: str, at: SourcePosition, items: tuple[Value, ...] | None = None) -> Ref:
        """Return a new container."""
        made = self.run.heap.new(
            ResultKind.UNKNOWN,
            birth=len(self.run.events),
            at=at,
            code=frame.code,
            container=kind,
            loop_depth=len(self.run.loops),
        )
        if items is not None:
            made.fields[ITEMS] = items
        return Ref(made.ident)

    def tuple_of(self, frame: Frame, items: list[Value], at: SourcePosition) -> Ref:
        """Return a new tuple."""
        return self.container(frame, "tuple", at, tuple(items))

    def build(self, frame: Frame, ins: Build, items: tuple[Value, ...], keys: tuple[Value | None, ...]) -> Value:
        """Return a container display."""
        if ins.kind == "dict":
            made = self.container(frame, "dict", ins.at)
            fields = self.run.heap[made].fields
            for key, item in zip(keys, items, strict=True):
                if isinstance(key, Constant):
                    fields[f"[{key.value!r}]"] = item
                elif key is None and isinstance(item, Ref):
                    fields.update({name: each for name, each in self.run.heap[item].fields.items() if name[0] == "["})
                else:
                    fields[ELEMENTS] = join(fields[ELEMENTS], item) if ELEMENTS in fields else item
            return made
        flat: list[Value] = []
        for place, item in enumerate(items):
            if place not in ins.stars:
                flat.append(item)
                continue
            held = self.run.heap[item] if isinstance(item, Ref) else None
            known = held.fields.get(ITEMS) if held is not None else None
            if known is None:
                made = self.container(frame, ins.kind, ins.at)
                self.run.heap[made].fields[ELEMENTS] = joined([*items, self.any_element(frame, item, ins.at)])
                return made
            flat += known
        return self.container(frame, ins.kind, ins.at, tuple(flat))

    def concatenated(self, frame: Frame, left: Value, right: Value, at: SourcePosition) -> Value:
        """Return the container that holds the elements of two."""
        parts = [self.run.heap[each].fields.get(ITEMS) if isinstance(each, Ref) else None for each in (left, right)]
        if parts[0] is not None and parts[1] is not None:
            return self.container(frame, "list", at, (*parts[0], *parts[1]))
        made = self.container(frame, "list", at)
        elements = [self.any_element(frame, each, at) for each in (left, right)]
        self.run.heap[made].fields[ELEMENTS] = joined(elements)
        return made

    def store(self, target: Ref, value: Value, site: CallSite, name: str = "append") -> None:
        """Store a value as a further element of a container."""
        run, held, frame = self.run, self.run.heap[target], site.frame
        if held.container == "generator":
            held.fields[LOOPS] = tuple(run.loops)
            self._add(held, value)
            return
        data = run.data_of(value)
        stored = self.stored(target, value, data, site, name) if data.graph else value
        items = held.fields.get(ITEMS)
        if items is not None:
            if held.loop_depth == len(run.loops) and not frame.arms - (len(run.loops) - frame.loop_base):
                run.heap.write(held.fields, ITEMS, (*items, stored))
                return
            run.heap.write(held.fields, ITEMS, None)
            for each in items:
                self._add(held, each)
        self._add(held, stored)

    def _add(self, held: HeapObject, value: Value) -> None:
        old = held.fields.get(ELEMENTS)
        self.run.heap.write(held.fields, ELEMENTS, value if old is None else join(old, value))

    def extend(self, target: Ref, values: Value, site: CallSite) -> None:
        """Store the elements of a value in a container."""
        gather(self.run, values, site)
        known = self.run.heap[values].fields.get(ITEMS) if isinstance(values, Ref) else None
        for each in known if known is not None else [self.any_element(site.frame, values, site.at)]:
            self.store(target, each, site, "extend")

    def empty(self, target: Ref) -> None:
        """Remove the elements of a container."""
        fields = self.run.heap[target].fields
        for key in [each for each in fields if each == ELEMENTS or each[0] == "["]:
            self.run.heap.write(fields, key, UNKNOWN)
        if self.run.heap[target].container == "list":
            self.run.heap.write(fields, ITEMS, ())

    def set_item(self, frame: Frame, value: Value, ins: SetItem, index: Value, src: Value) -> None:
        """Write a subscript."""
        for each in alternatives(value):
            overwrite(self.run, frame, ins.at, each, ins.text)
            if not isinstance(each, Ref):
                continue
            held = self.run.heap[each]
            if isinstance(index, Constant) and index.value is not None:
                data = self.run.data_of(src)
                name = "accumulate" if ins.reads_itself else "key"
                has_graph = data.graph and self.run.loops
                stored = (
                    self.stored(each, src, data, CallSite(frame, ins.at, text=ins.text), name) if has_graph else src
                )
                self.run.heap.write(held.fields, f"[{index.value!r}]", stored)
            elif held.container or held.cls is None:
                name = "append" if not ins.text else "accumulate" if ins.reads_itself else "item"
                self.store(each, src, CallSite(frame, ins.at, text=ins.text), name)

    # Iteration

    def iteration(self, frame: Frame, value: Value | None) -> tuple[LoopKind, int, tuple[Value, ...] | None]:
        """Return what a loop over a value is: its kind, the object, and its items if these are known and few."""
        if value is None:
            return LoopKind.WHILE, -1, None
        if isinstance(value, Union):
            kinds = {self.iteration(frame, each)[0] for each in value.values}
            return kinds.pop() if len(kinds) == 1 else LoopKind.DATA, -1, None
        if isinstance(value, Ref):
            return self._iteration_of(frame, value)
        data = self.run.data_of(value)
        is_data = data.kind is ResultKind.UNKNOWN and not isinstance(value, Constant)
        return LoopKind.DATA if is_data else LoopKind.RANGE, -1, None

    def _iteration_of(self, frame: Frame, value: Ref) -> tuple[LoopKind, int, tuple[Value, ...] | None]:
        held = self.run.heap[value]
        if held.container in {"iterator", "zip"}:
            over = held.fields[OVER]
            kind, source, items = self.iteration(frame, over)
            return kind, source, None if items is None else ()
        if held.container and held.container != "range":
            return self._iteration_of_items(value, held)
        is_plain = held.container == "range" or held.kind is ResultKind.TENSOR
        is_layers = held.kind in {*_MODULE_LIKE, ResultKind.TENSORS}
        kind = LoopKind.RANGE if is_plain else LoopKind.LAYERS if is_layers else LoopKind.DATA
        return kind, value.ident, None

    def _iteration_of_items(self, value: Ref, held: HeapObject) -> tuple[LoopKind, int, tuple[Value, ...] | None]:
        items = held.fields.get(ITEMS)
        if items and len(items) <= self.run.budget.items:
            return LoopKind.ITEMS, value.ident, items
        element = items[0] if items else held.fields.get(ELEMENTS)
        members = alternatives(element) if element is not None else ()
        if members and all(isinstance(each, Ref) and self.run.heap[each].kind in _MODULE_LIKE for each in members):
            return LoopKind.LAYERS, value.ident, None
        if isinstance(element, Constant) or (element is None and held.container == "dict"):
            return LoopKind.RANGE, value.ident, None
        return LoopKind.DATA, value.ident, None

    def element(self, frame: Frame, loop: LoopRun, value: Value, item: Value | None) -> Value:
        """Return the element of a round of a loop."""
        if item is not None:
            return item
        if loop.kind is LoopKind.DATA:
            data = self.run.data_of(value)
            event = self.run.event(EventKind.ELEMENT, loop.code.at, frame, target=loop.source, sources=data.sources)
            return self.any_element(frame, value, loop.code.at, event.bit)
        return self.any_element(frame, value, loop.code.at)

    def any_element(self, frame: Frame, value: Value, at: SourcePosition, bit: int = 0) -> Value:
        """Return an element of a value; `bit` is the event of the loop that goes over it."""
        run = self.run
        if isinstance(value, Union):
            return joined([self.any_element(frame, each, at, bit) for each in value.values])
        if not isinstance(value, Ref):
            data = run.data_of(value)
            return Data(data.kind, data.sources | bit, data.graph, data.graph_certain, data.maybe)
        held = run.heap[value]
        if held.container in {"range", "iterator", "zip", "dict"}:
            return self._element_of_iterator(frame, held, at, bit)
        parts = [*(held.fields.get(ITEMS) or ())]
        parts += [held.fields[ELEMENTS]] if ELEMENTS in held.fields else []
        if held.kind in _MODULE_LIKE:
            parts += [each for key, each in held.fields.items() if key[0].isdigit()]
        return joined(parts) if parts else self._new_element(frame, held, at, bit)

    def _element_of_iterator(self, frame: Frame, held: HeapObject, at: SourcePosition, bit: int) -> Value:
        if held.container == "iterator":
            element = self.any_element(frame, held.fields[OVER], at, bit)
            prefix = held.fields.get("#prefix")
            return self.tuple_of(frame, [prefix, element], at) if prefix is not None else element
        if held.container == "zip":
            parts = [self.any_element(frame, each, at, bit) for each in held.fields["#zipped"]]
            return self.tuple_of(frame, parts, at)
        return NUMBER if held.container == "range" else UNKNOWN

    def _new_element(self, frame: Frame, held: HeapObject, at: SourcePosition, bit: int) -> Ref:
        """Return a new object for an element of something that comes from outside."""
        run = self.run
        # What a loader yields holds no graph, whatever is known about the loader.
        graph = 0 if bit or held.kind is ResultKind.TENSORS else held.graph
        child = run.opaque(frame, at, f"{held.path}[]", sources=held.sources | bit, graph=graph, is_open=held.is_open)
        made = run.heap[child]
        if held.kind is ResultKind.TENSORS and OWNER in held.fields:
            made.fields[OWNER] = held.fields[OWNER]
        if held.kind in _MODULE_LIKE:
            made.evidence.add(ResultKind.MODULE)
        if run.loops and bit:
            made.loop_depth = len(run.loops)
        return child

    # Instances

    def new_instance(self, frame: Frame, value: ClassValue, at: SourcePosition, *, is_open: bool) -> Ref:
        """Return a new instance of a project class, before `__init__`."""
        is_module = self.is_module(value.cls)
        made = self.run.heap.new(
            ResultKind.MODULE if is_module else ResultKind.UNKNOWN,
            cls=value.cls,
            birth=len(self.run.events),
            at=at,
            code=frame.code,
            path="self" if is_open else "",
            is_open=is_open,
            loop_depth=len(self.run.loops),
        )
        if is_module and not is_open:
            made.fields[MODE] = INITIAL_TRAINING
        return Ref(made.ident)


def _bound(function: FunctionValue, receiver: Value) -> FunctionValue:
    return FunctionValue(
        function.code,
        function.scope,
        function.defaults,
        receiver,
        function.grad,
        function.grad_argument,
        function.kind,
    )
