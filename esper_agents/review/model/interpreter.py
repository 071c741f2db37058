"""Abstract interpreter: runs instructions on abstract values and logs events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esper_agents.review.model import ir
from esper_agents.review.model.budget import Budget, BudgetSpentError
from esper_agents.review.model.call_site import CallSite
from esper_agents.review.model.events import EventKind, Frame, GradMode, LoopKind, LoopRun, ModelEvent
from esper_agents.review.model.heap import ELEMENTS, ITEMS, RECORD, ClassObject, Heap, HeapObject, NameScope
from esper_agents.review.model.knowledge import ResultKind
from esper_agents.review.model.operations import decided, operate, subscripted, unpacked
from esper_agents.review.model.values import (
    NONE,
    UNKNOWN,
    BoundMethod,
    ClassValue,
    Constant,
    Data,
    FunctionValue,
    Library,
    Ref,
    Value,
    alternatives,
    constant,
    join,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.model.explanation import LineWatch
    from esper_agents.review.model.knowledge import Knowledge
    from esper_agents.review.model.world import World


class Interpreter:
    """State of one run from an entry point.

    Attributes:
        heap: Its objects.
        events: What happened, in order.
        loops: Loops that are running, outermost first.
        grad: Present grad mode.
        depth: Number of modules whose `forward` is running.
    """

    def __init__(self, world: World, knowledge: Knowledge, budget: Budget) -> None:
        from esper_agents.review.model.attributes import Attributes
        from esper_agents.review.model.calls import Calls

        self.world = world
        self.knowledge = knowledge
        self.budget = budget
        self.heap = Heap()
        self.events: list[ModelEvent] = []
        self.loops: list[LoopRun] = []
        self.grad = GradMode.ON
        self.depth = 0
        self.used = 0
        self.limit = budget.instructions
        self.stack: list[Frame] = []
        self.visited: set[ir.Code] = set()
        self.closures: dict[int, NameScope] = {}
        self.watch: LineWatch | None = None
        # What operators keep for the next backward, by storage; numbers of storages and backwards so far.
        self.saved: dict[str, Any] = {}
        self.storages = self.backwards = 0
        # Events of log-probabilities, as a bit set.
        self.log_probabilities = 0
        self.attributes = Attributes(self)
        self.calls = Calls(self)
        self._dispatch = {
            ir.Const: self._const,
            ir.Load: self._load,
            ir.StoreName: self._store,
            ir.Attr: self._attr,
            ir.SetAttr: self._set_attr,
            ir.Item: self._item,
            ir.SetItem: self._set_item,
            ir.Call: self._call,
            ir.Op: self._op,
            ir.Build: self._build,
            ir.Unpack: self._unpack,
            ir.Branch: self._branch,
            ir.Loop: self._loop,
            ir.With: self._with,
            ir.Try: self._try,
            ir.Return: self._return,
            ir.Yield: self._yield,
            ir.Leave: self._leave,
            ir.MakeFunction: self._make_function,
            ir.MakeClass: self._make_class,
        }

    def close(self) -> None:
        """Drop everything that refers to itself in a circle, so that it goes at once."""
        for scope in self.closures.values():
            scope.names.clear()
        self.heap.close()
        self.world.close()
        vars(self.attributes).clear()
        vars(self.calls).clear()
        vars(self).clear()

    # Events and objects

    def new_storage(self) -> int:
        """Return the number of a storage that nothing has yet."""
        self.storages += 1
        return self.storages

    def event(self, kind: EventKind, at: ir.SourcePosition, frame: Frame, **facts: Any) -> ModelEvent:
        """Log an event at a position of the running function."""
        loops = tuple((loop, loop.round) for loop in self.loops)
        made = ModelEvent(
            len(self.events),
            kind,
            at,
            frame,
            loops,
            self.grad,
            self.depth,
            is_conditional=frame.arms > len(self.loops) - frame.loop_base,
            **facts,
        )
        self.events.append(made)
        return made

    def opaque(
        self, frame: Frame, at: ir.SourcePosition, path: str, *, sources: int = 0, graph: int = 0, is_open: bool = False
    ) -> Ref:
        """Return a new object of which nothing is known but what it was computed from."""
        made = self.heap.new(
            ResultKind.UNKNOWN,
            sources=sources,
            graph=graph,
            birth=len(self.events),
            at=at,
            code=frame.code,
            path=path,
            is_open=is_open,
        )
        return Ref(made.ident)

    def part(self, frame: Frame, at: ir.SourcePosition, held: HeapObject, path: str) -> Ref:
        """Return a new object that is a part of one of unknown kind; its graph is another than that of other parts."""
        sources, graph = held.sources, held.graph
        if graph:
            event = self.event(EventKind.PART, at, frame, target=held.ident, sources=sources, graph=graph, text=path)
            sources, graph = sources | event.bit, event.bit
        return self.opaque(frame, at, path, sources=sources, graph=graph, is_open=held.is_open or held.cls is not None)

    def data_of(self, value: Value) -> Data:
        """Return a value as data: its sources and its graph."""
        if isinstance(value, Data):
            return value
        if isinstance(value, Ref):
            held = self.heap[value]
            if self.is_container(held):
                return self._data_of_container(value)
            kind = held.kind if held.kind in {ResultKind.TENSOR, ResultKind.NUMBER} else ResultKind.UNKNOWN
            return Data(kind, held.sources, held.graph)
        if isinstance(value, (FunctionValue, Library, ClassValue)):
            return UNKNOWN
        if isinstance(value, BoundMethod) and not isinstance(value.receiver, Ref | Constant):
            # A field rather than a method, since it is used as a value: `model(x).loss`.
            whole = self.data_of(value.receiver)
            return replace(whole, kind=ResultKind.UNKNOWN, graph_certain=not whole.graph)
        members = alternatives(value)
        return self._data_of_any(members) if len(members) > 1 else Data(ResultKind.NUMBER)

    def _data_of_any(self, members: Sequence[Value]) -> Data:
        parts = [self.data_of(each) for each in members]
        sources = graph = 0
        for each in parts:
            sources, graph = sources | each.sources, graph | each.graph
        certain = all(each.graph and each.graph_certain for each in parts)
        surely = graph
        for each in parts:
            surely &= each.surely
        return Data(ResultKind.UNKNOWN, sources, graph, certain or not graph, graph & ~surely)

    @staticmethod
    def is_container(held: HeapObject) -> bool:
        """Return whether an object is made of what it holds: a container, or a record such as a data class."""
        return bool(held.container) or RECORD in held.fields

    def _data_of_container(self, value: Ref, seen: frozenset[int] = frozenset()) -> Data:
        held = self.heap[value]
        if value.ident in seen:
            return UNKNOWN
        parts = [held.fields[ELEMENTS]] if ELEMENTS in held.fields else []
        parts += [*held.fields.get(ITEMS, ())] if held.fields.get(ITEMS) else []
        parts += [
            each for key, each in held.fields.items() if key[0] == "[" or (held.cls is not None and key[0] != "#")
        ]
        sources, graph, surely = held.sources, held.graph, held.graph
        for part in (each for one in parts for each in alternatives(one)):
            is_container = isinstance(part, Ref) and self.is_container(self.heap[part])
            data = (
                self._data_of_container(part, seen | {value.ident})
                if is_container and isinstance(part, Ref)
                else self.data_of(part)
            )
            sources, graph = sources | data.sources, graph | data.graph
            surely |= data.surely
        return Data(ResultKind.UNKNOWN, sources, graph, maybe=graph & ~surely)

    # Blocks

    def run(self, frame: Frame, block: ir.Block) -> bool:
        """Run a block; return whether all paths through it ended."""
        dispatch = self._dispatch
        for instruction in block:
            self.used += 1
            if self.used > self.limit:
                raise BudgetSpentError
            if dispatch[type(instruction)](frame, instruction):  # type: ignore[operator]
                return True
        return False

    def _const(self, frame: Frame, ins: ir.Const) -> None:
        frame.temps[ins.dst] = constant(ins.value)

    def _load(self, frame: Frame, ins: ir.Load) -> None:
        frame.temps[ins.dst] = self.world.lookup(self, frame.scope, ins.name)

    def _store(self, frame: Frame, ins: ir.StoreName) -> None:
        value = frame.temps[ins.src]
        if ins.reads_itself and self.loops and ins.name[0] != "#":
            value = self._accumulated(frame, value, ins.at, ins.name, -1)
        names = frame.scope.names
        if ins.name in frame.code.outer_names:
            names = self.world.scope_of(frame.scope, ins.name).names
        self.heap.write(names, ins.name, value)
        self._watch(frame, ins.at, ins.name, value)

    def _watch(self, frame: Frame, at: ir.SourcePosition, name: str, value: Value) -> None:
        watch = self.watch
        if watch is not None and at.line == watch.line and frame.code.file.path == watch.path:
            watch.see(self, frame, name, value)

    def _accumulated(self, frame: Frame, value: Value, at: ir.SourcePosition, text: str, target: int) -> Value:
        """Log that a value computed from its former self is stored; later uses carry the event as a source."""
        data = self.data_of(value)
        if not data.graph or not any(isinstance(each, Data) and each.graph for each in alternatives(value)):
            return value
        former = self.data_of(self.world.lookup(self, frame.scope, text))
        stored = self.event(
            EventKind.STORE,
            at,
            frame,
            target=target,
            sources=data.sources,
            graph=data.graph,
            graph_certain=data.graph_certain,
            may_be_reset=bool(former.graph) and not former.graph_certain,
            name="accumulate",
            text=text,
        )
        return self.attributes.marked(value, stored.bit, CallSite(frame, at))

    def written(self, site: CallSite, value: Value, result: Value) -> None:
        """Bind the result of a method that writes its receiver, `total.add_(loss)`, to the name of the receiver."""
        name = site.text.rpartition(".")[0]
        names = site.frame.scope.names
        if names.get(name) == value and self.loops:
            self.heap.write(names, name, self._accumulated(site.frame, result, site.at, name, -1))

    def _attr(self, frame: Frame, ins: ir.Attr) -> None:
        frame.temps[ins.dst] = self.attributes.get(frame, frame.temps[ins.obj], ins.name, ins.at)

    def _set_attr(self, frame: Frame, ins: ir.SetAttr) -> None:
        self.attributes.set(frame, frame.temps[ins.obj], ins, frame.temps[ins.src])
        self._watch(frame, ins.at, ins.text, frame.temps[ins.src])

    def _item(self, frame: Frame, ins: ir.Item) -> None:
        frame.temps[ins.dst] = subscripted(self, frame, frame.temps[ins.obj], frame.temps[ins.index], ins.at)

    def _set_item(self, frame: Frame, ins: ir.SetItem) -> None:
        self.attributes.set_item(frame, frame.temps[ins.obj], ins, frame.temps[ins.index], frame.temps[ins.src])

    def _call(self, frame: Frame, ins: ir.Call) -> None:
        frame.temps[ins.dst] = self.calls.call(frame, ins)

    def _op(self, frame: Frame, ins: ir.Op) -> None:
        frame.temps[ins.dst] = operate(self, frame, ins, [frame.temps[each] for each in ins.operands])

    def _build(self, frame: Frame, ins: ir.Build) -> None:
        items = tuple(frame.temps[each] for each in ins.items)
        keys = tuple(frame.temps[each] if each >= 0 else None for each in ins.keys)
        frame.temps[ins.dst] = self.attributes.build(frame, ins, items, keys)

    def _unpack(self, frame: Frame, ins: ir.Unpack) -> None:
        parts = unpacked(self, frame, frame.temps[ins.src], len(ins.dsts), ins.star)
        for dst, part in zip(ins.dsts, parts, strict=True):
            frame.temps[dst] = part

    # Control flow

    def _branch(self, frame: Frame, ins: ir.Branch) -> bool:
        truth = decided(self, frame.temps[ins.test])
        if truth is not None:
            return self.run(frame, ins.then if truth else ins.other)
        return self.alternatives(frame, [self._arm(frame, ins, taken=taken) for taken in (True, False)])

    def _arm(self, frame: Frame, ins: ir.Branch, *, taken: bool) -> Any:
        def run() -> bool:
            if ins.none_name and (value := frame.scope.names.get(ins.none_name)) is not None:
                self._narrow(frame, ins.none_name, value, is_none=taken is ins.is_none_then)
            return self.run(frame, ins.then if taken else ins.other)

        return run

    def _narrow(self, frame: Frame, name: str, value: Value, *, is_none: bool) -> None:
        if is_none:
            self.heap.write(frame.scope.names, name, NONE)
            return
        rest = [each for each in alternatives(value) if each != NONE]
        if rest and len(rest) < len(alternatives(value)):
            narrowed = rest[0]
            for each in rest[1:]:
                narrowed = join(narrowed, each)
            self.heap.write(frame.scope.names, name, narrowed)

    def alternatives(self, frame: Frame, arms: Sequence[Any]) -> bool:
        """Run each arm from the present state and join the ends; return whether all of them ended."""
        ends = []
        frame.arms += 1
        mark = self.heap.mark()
        for arm in arms:
            has_ended = arm()
            if not has_ended:
                ends.append(self.heap.changes(mark))
            self.heap.undo(mark)
        frame.arms -= 1
        if not ends:
            return True
        self.heap.merge(ends)
        return False

    def _loop(self, frame: Frame, ins: ir.Loop) -> bool:
        iterable = frame.temps[ins.iterable] if ins.iterable >= 0 else None
        kind, source, items = self.attributes.iteration(frame, iterable)
        loop = LoopRun(ins, frame.code, kind, len(self.events), len(self.heap.objects), source=source)
        nested = sum(each.code.is_comprehension is False for each in self.loops)
        is_single = ins.is_comprehension or kind is LoopKind.LAYERS or nested >= self.budget.repeated_loops
        rounds = len(items) if items else 1 if is_single else 2
        loop.entry = self.heap.mark()
        self.loops.append(loop)
        frame.arms += 1
        is_alive = True
        try:
            for number in range(1, rounds + 1):
                loop.round = number
                is_alive = self._round(frame, loop, iterable, items[number - 1] if items else None)
                if not is_alive:
                    break
        finally:
            self.loops.pop()
            frame.arms -= 1
        ends = [self.heap.changes(loop.entry)] if is_alive else []
        ends += loop.breaks
        if not ends:
            self.heap.undo(loop.entry)
            return True
        if len(ends) > 1 or not is_alive:
            self.heap.undo(loop.entry)
            self.heap.merge(ends)
        return self.run(frame, ins.orelse) if ins.orelse and is_alive else False

    def _round(self, frame: Frame, loop: LoopRun, iterable: Value | None, item: Value | None) -> bool:
        """Run one round of a loop; return whether another may follow."""
        ins = loop.code
        loop.start, loop.continues = self.heap.mark(), []
        loop.round_births.append(len(self.heap.objects))
        if iterable is None:
            self.run(frame, ins.head)
        else:
            frame.temps[ins.element] = self.attributes.element(frame, loop, iterable, item)
        has_ended = self.run(frame, ins.body)
        ends = [] if has_ended else [self.heap.changes(loop.start)]
        ends += loop.continues
        if loop.continues or has_ended:
            self.heap.undo(loop.start)
            if ends:
                self.heap.merge(ends)
        return bool(ends)

    def _leave(self, frame: Frame, ins: ir.Leave) -> bool:
        if ins.kind != "raise" and len(self.loops) > frame.loop_base:
            loop = self.loops[-1]
            if ins.kind == "break":
                loop.breaks.append(self.heap.changes(loop.entry))
            else:
                loop.continues.append(self.heap.changes(loop.start))
        return True

    def _with(self, frame: Frame, ins: ir.With) -> bool:
        return self.calls.enter(frame, ins)

    def _try(self, frame: Frame, ins: ir.Try) -> bool:
        mark = self.heap.mark()
        frame.arms += 1
        for handler in ins.handlers:
            self.run(frame, handler)
            self.heap.undo(mark)
        frame.arms -= 1
        has_ended = self.run(frame, ins.body) or self.run(frame, ins.orelse)
        if has_ended and ins.handlers:
            self.heap.undo(mark)
            has_ended = self.alternatives(frame, [lambda block=block: self.run(frame, block) for block in ins.handlers])
        return self.run(frame, ins.final) or has_ended

    def _return(self, frame: Frame, ins: ir.Return) -> bool:
        value = frame.temps[ins.src] if ins.src >= 0 else NONE
        frame.returned.append(value)
        if frame.arms:
            frame.exits.append(self.heap.changes(frame.mark))
        else:
            frame.is_direct = True
        return True

    def _yield(self, frame: Frame, ins: ir.Yield) -> None:
        value = frame.temps[ins.src]
        frame.temps[ins.dst] = UNKNOWN
        if frame.on_yield is not None:
            run, frame.on_yield = frame.on_yield, None
            run(value)
            return
        if ins.is_many:
            value = self.attributes.any_element(frame, value, ins.at)
        frame.yielded.append(value)

    # Definitions

    def _make_function(self, frame: Frame, ins: ir.MakeFunction) -> None:
        self.closures[id(frame.scope)] = frame.scope
        defaults = tuple((name, frame.temps[temp]) for name, temp in ins.defaults)
        made: Value = FunctionValue(ins.code, frame.scope, defaults)
        for temp in reversed(ins.decorators):
            made = self.calls.decorate(frame, frame.temps[temp], made, ins.at)
        frame.temps[ins.dst] = made

    def _make_class(self, frame: Frame, ins: ir.MakeClass) -> None:
        scope = NameScope(ins.code, frame.scope)
        body = Frame(ins.code, scope, [UNKNOWN] * ins.code.temporaries, frame, ins.at, self.heap.mark())
        body.loop_base = len(self.loops)
        self.run(body, ins.code.body)
        bases = tuple(frame.temps[base] for base in ins.bases)
        self.closures[id(frame.scope)] = frame.scope
        frame.temps[ins.dst] = ClassValue(ClassObject(ins.name, frame.code.file, bases, scope, ins.code))
