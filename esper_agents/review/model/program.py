"""Runs of all entry points of a project, with the events that rules query."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from esper_agents.review.model import ir
from esper_agents.review.model.budget import Budget, BudgetSpentError
from esper_agents.review.model.call_site import CallSite
from esper_agents.review.model.events import EventKind, Frame, GradMode, LoopKind, LoopRun, ModelEvent
from esper_agents.review.model.interpreter import Interpreter
from esper_agents.review.model.knowledge import GradEffect
from esper_agents.review.model.libraries import LibraryKnowledge
from esper_agents.review.model.seeds import reaching
from esper_agents.review.model.values import UNKNOWN, ClassValue, FunctionValue, Ref, Value
from esper_agents.review.model.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.explanation import LineWatch
    from esper_agents.review.model.heap import Heap, HeapObject
    from esper_agents.review.model.knowledge import Hook, Knowledge
    from esper_agents.review.tables import FileTables


@dataclass(eq=False)
class EntryRun:
    """The run of one entry point.

    Attributes:
        name: Its name: `train.py`, `Trainer.fit`.
        file: Its file.
        events: What happened, in order; the number of an event is its place.
        heap: The objects.
        is_open: Whether unknown code calls it with unknown arguments.
        is_cut: Whether the budget ended it.
        is_named: Whether code of the project calls something of its name.
        returned: Events through which results that unknown callers receive hold a graph, as a bit set.
    """

    name: str
    file: FileTables
    events: list[ModelEvent]
    heap: Heap
    is_open: bool
    is_cut: bool = False
    returned: int = 0
    is_named: bool = False

    def object(self, event: ModelEvent) -> HeapObject | None:
        """Return the object that an event is about."""
        return self.heap.objects[event.target] if event.target >= 0 else None


@dataclass(eq=False)
class Program:
    """All runs of a project.

    Attributes:
        runs: Runs by entry point, in order.
        cut: Names of the entry points that the budget ended.
        failures: Entry points that the interpreter could not run, each with the error.
        interpreter: The interpreter, for its objects.
    """

    runs: list[EntryRun] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    interpreter: Interpreter | None = None

    def close(self) -> None:
        """Drop the objects of the runs, when all rules have asked."""
        if self.interpreter is not None:
            self.interpreter.close()
        self.runs.clear()
        self.interpreter = None


def close_program(index: ProjectIndex) -> list[tuple[str, str]]:
    """Drop the runs of a project if there are any; return the entry points that could not be run."""
    made = index.once("semantic model", Program)
    failures = made.failures
    made.close()
    return failures


def program_of(index: ProjectIndex, watch: LineWatch | None = None) -> Program:
    """Return the runs of a project, made once; a watch sees the values that one line binds."""
    return index.once("semantic model", lambda: interpret(index, watch=watch))


def interpret(
    index: ProjectIndex,
    knowledge: Knowledge | None = None,
    budget: Budget | None = None,
    watch: LineWatch | None = None,
) -> Program:
    """Run all entry points of a project: module levels first, then functions that nothing called."""
    knowledge = knowledge or LibraryKnowledge(index.library_files())
    return _EntryPoints(index, knowledge, budget or Budget(), watch).program()


def _around(index: ProjectIndex, watch: LineWatch) -> frozenset[int]:
    """Return the syntax nodes of the functions around a line that is watched."""
    file = index.files.get(watch.path)
    nodes = [function.node for function in file.functions] if file is not None else []
    ends = [(node, getattr(node, "lineno", 0), getattr(node, "end_lineno", None) or watch.line) for node in nodes]
    return frozenset(id(node) for node, first, last in ends if first <= watch.line <= last)


class _EntryPoints:
    """Entry points of a project, run one after the other on one heap that is rolled back."""

    def __init__(
        self, index: ProjectIndex, knowledge: Knowledge, budget: Budget, watch: LineWatch | None = None
    ) -> None:
        self.index = index
        self.budget = budget
        self.run = Interpreter(World(index), knowledge, budget)
        lines = sum(file.text.count("\n") for file in index.files.values())
        self.total = max(budget.least, budget.per_line * lines)
        self.run.watch = watch
        self.made = Program()
        self.classes: dict[str, list[ClassValue]] = {}

    def program(self) -> Program:
        files = [self.index.files[path] for path in sorted(self.index.files)]
        self.made.interpreter = self.run
        wanted = reaching(self.index)
        if self.run.watch is not None:
            wanted |= _around(self.index, self.run.watch)
        for file in files:
            if wanted & {id(file.tree)}:
                self._module(file)
        found: list[tuple[FileTables, FunctionValue, ClassValue | None]] = []
        for file in files:
            if any(id(function.node) in wanted for function in file.functions):
                self._guarded(file.path, partial(self.run.world.load, self.run, file))
                found += [(file, *each) for each in self._functions(file) if id(each[0].code.node) in wanted]
        # Callers before the functions they call: what a caller shows needs no guess.
        for file, function, cls in sorted(found, key=lambda each: self._is_named(each[1], each[2])):
            if function.code not in self.run.visited:
                self._function(file, function, cls)
        return self.made

    def _module(self, file: FileTables) -> None:
        run = self.run
        events = self._fresh()
        is_cut = self._guarded(file.path, lambda: run.world.load(run, file))
        code = run.world.code(file)
        scope = run.world.scope(run, file)
        run.grad = run.world.grads.get(file.path, GradMode.ON)
        mark = run.heap.mark()
        for block in code.main:
            frame = Frame(code, scope, [UNKNOWN] * code.temporaries, None, None, run.heap.mark())
            is_cut = self._guarded(file.path, partial(run.run, frame, block)) or is_cut
        run.heap.undo(mark)
        self._add(file.path, file, events, is_open=False, is_cut=is_cut)

    def _fresh(self) -> list[ModelEvent]:
        run = self.run
        run.events, run.log_probabilities = [], 0
        run.loops, run.grad, run.depth = [], GradMode.ON, 0
        run.limit = min(run.used + self.budget.instructions, max(self.total, run.used))
        return run.events

    def _guarded(self, name: str, action: Callable[[], object]) -> bool:
        if self.run.used > self.total:
            return True
        try:
            action()
        except (BudgetSpentError, RecursionError):
            return True
        except Exception as error:  # noqa: BLE001 - one function's surprise must not cost what all others show
            self.made.failures.append((name, f"{type(error).__name__}: {error}"))
            return True
        return False

    def _add(self, name: str, file: FileTables, events: list[ModelEvent], *, is_open: bool, is_cut: bool) -> EntryRun:
        made = EntryRun(name, file, events, self.run.heap, is_open, is_cut)
        if events:
            self.made.runs.append(made)
        if is_cut:
            self.made.cut.append(name)
        return made

    def _functions(self, file: FileTables) -> Iterator[tuple[FunctionValue, ClassValue | None]]:
        """Yield the functions and methods that a file defines, callers before the functions they call."""
        names = self.run.world.scope(self.run, file).names
        found: list[tuple[FunctionValue, ClassValue | None]] = []
        for value in list(names.values()):
            if isinstance(value, FunctionValue) and value.code.file is file and value.code not in self.run.visited:
                found.append((value, None))
            elif isinstance(value, ClassValue) and value.cls.file is file:
                members = value.cls.scope.names.values()
                found += [(each, value) for each in members if isinstance(each, FunctionValue)]
        yield from (each for each in found if each[0].code.name != "__init__")

    def _is_named(self, function: FunctionValue, cls: ClassValue | None) -> bool:
        """Return whether code calls a function or a method of a name."""
        for call in self.index.calls_ending(function.code.name):
            of_module = call.receiver.partition(".")[0] in call.function.file.imports
            of_object = bool(call.receiver) and not of_module
            if of_object == (cls is not None):
                return True
        return False

    def _function(self, file: FileTables, function: FunctionValue, cls: ClassValue | None) -> None:
        run = self.run
        events = self._fresh()
        mark = run.heap.mark()
        returned: list[Value] = []
        is_cut = self._guarded(function.code.qualname, lambda: returned.append(self._open_call(file, function, cls)))
        made = self._add(function.code.qualname, file, events, is_open=True, is_cut=is_cut)
        made.is_named = self._is_named(function, cls)
        if returned:
            made.returned = run.data_of(returned[0]).graph
        run.heap.undo(mark)
        run.visited.add(function.code)

    def _open_call(self, file: FileTables, function: FunctionValue, cls: ClassValue | None) -> Value:
        run = self.run
        code = run.world.code(file)
        outer = Frame(code, run.world.scope(run, file), [UNKNOWN] * code.temporaries, None, None, run.heap.mark())
        at = function.code.start
        run.grad = run.world.grads.get(file.path, GradMode.ON)
        hook = self._hook(function, cls)
        if cls is not None and function.kind != "staticmethod":
            receiver: Value = cls if function.kind == "classmethod" else self._open_instance(outer, cls, at)
            function = FunctionValue(
                function.code, function.scope, function.defaults, receiver, function.grad, function.grad_argument
            )
        if hook is None:
            return run.calls.invoke(function, CallSite(outer, at), is_open=True)
        return self._repeated(outer, function, hook, at)

    def _repeated(self, outer: Frame, function: FunctionValue, hook: Hook, at: ir.SourcePosition) -> Value:
        """Run a hook as its framework does: once per batch, with its grad mode."""
        run = self.run
        loop_code = ir.Loop(-1, -1, [], -1, [], [], at, function.code.last_line)
        loop = LoopRun(loop_code, function.code, LoopKind.DATA, len(run.events), len(run.heap.objects))
        if hook.is_repeated:
            run.loops.append(loop)
            outer.arms += 1
        if hook.grad is GradEffect.OFF:
            run.grad = GradMode.OFF
        result: Value = UNKNOWN
        for number in (1, 2) if hook.is_repeated else (1,):
            loop.round = number
            result = run.calls.invoke(function, CallSite(outer, at), is_open=True)
            if hook.result_goes_backward:
                data = run.data_of(result)
                run.event(EventKind.BACKWARD, at, outer, sources=data.sources, graph=data.graph, name="framework")
        run.loops = []
        return UNKNOWN if hook.result_goes_backward else result

    def _hook(self, function: FunctionValue, cls: ClassValue | None) -> Hook | None:
        if cls is None:
            return None
        for base in self.run.attributes.library_bases(cls):
            for hook in self.run.knowledge.hooks(base):
                if hook.method == function.code.name:
                    return hook
        return None

    def _open_instance(self, outer: Frame, cls: ClassValue, at: ir.SourcePosition) -> Ref:
        """Return an instance of a class whose arguments are unknown."""
        run = self.run
        if cls.cls.open_instance is not None:
            return cls.cls.open_instance
        made = run.attributes.new_instance(outer, cls, at, is_open=True)
        init = run.attributes.method_of(made, "__init__")
        if isinstance(init, FunctionValue):
            run.calls.invoke(init, CallSite(outer, at), is_open=True)
        return made


__all__ = ["Budget", "EntryRun", "ModelEvent", "Program", "interpret", "program_of"]
