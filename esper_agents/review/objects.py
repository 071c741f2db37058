"""What paths hold in one function, its surroundings and its class, as far as assignments show it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.definitions import Definitions, owner_of
from esper_agents.review.flow import Flow
from esper_agents.review.names import dotted, root_of, tail_of
from esper_agents.review.tables import Assignment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.tables import Class, FileTables, Function

# How many steps from value to value are followed.
STEPS = 8
_STEPS_BACK = 4
# Calls and methods that give back the module they were given.
_WRAPPERS = frozenset({"compile", "DataParallel", "DistributedDataParallel", "DDP", "script", "prepare_model"})
_FLUENT = frozenset(
    {"to", "cuda", "cpu", "eval", "train", "float", "half", "bfloat16", "double", "requires_grad_", "apply"}
)
# Modules and builtins that hold what they are given, or what their only argument holds.
_CONTAINERS = frozenset({"ModuleList", "Sequential", "list", "tuple", "enumerate", "reversed"})
_ANYWHERE = 1 << 30


@dataclass(frozen=True, slots=True)
class Bindings:
    """Where the value of a path may come from.

    Attributes:
        assignments: The assignments, by line.
        is_whole: Whether there is no way on which none of them happened.
    """

    assignments: tuple[Assignment, ...]
    is_whole: bool


class Objects(Definitions):
    """Assignments and the classes they show, without a look at callers."""

    def __init__(self, files: Sequence[FileTables]) -> None:
        super().__init__(files)
        self._flows: dict[Function, Flow] = {}
        self._handed_back: dict[tuple[Function, int, int], Class | None] = {}

    def flow(self, function: Function) -> Flow:
        """Return the ways through a function, worked out once."""
        if function not in self._flows:
            self._flows[function] = Flow(function)
        return self._flows[function]

    def bindings(self, path: str, function: Function, before: int) -> Bindings:
        """Return the assignments that a path's value may come from at a line, over all ways that lead there.

        Looked for in the function, then as `binding` does. What a function around it binds counts with its last
        binding there.
        """
        known = function.assignments.get(path, ())
        if not known or (len(known) == 1 and known[0].block is function.block and _ends(known[0]) < before):
            found = self.binding(path, function, before)
            return Bindings((found,) if found is not None else (), is_whole=True)
        reach = self.flow(function).last_above(before, known)
        events = tuple(event for event in reach.events if isinstance(event, Assignment))
        if not events:
            outside = self.binding(path, function, 0)
            return Bindings((outside,) if outside is not None else (), is_whole=True)
        return Bindings(tuple(sorted(events, key=lambda each: each.line)), is_whole=not reach.is_open)

    def binding(self, path: str, function: Function, before: int) -> Assignment | None:
        """Return the assignment that a path's value comes from at a line.

        Looked for above the line in the function, then in the functions around it and the module, then, for `self.x`,
        in the class. None where a parameter holds it, or nothing in sight does.
        """
        is_own = path.startswith("self.")
        root = "" if is_own else root_of(path)
        current: Function | None = function
        limit = before
        while current is not None:
            if path in current.assignments and (found := current.last_assignment(path, limit)) is not None:
                return found
            if root in current.parameters:
                return None
            current, limit = (current.outer.function if current.outer else None), _ANYWHERE
        owner = owner_of(function) if is_own else None
        return self._attribute(owner, path) if owner is not None else None

    def _attribute(self, owner: Class, path: str) -> Assignment | None:
        for cls in self.lineage(owner).classes:
            for found in cls.attributes.get(path, ()):
                if dotted(found.value) != path and not dotted(found.value).startswith(f"{path}."):
                    return found
        return None

    def class_in_sight(self, value: ast.expr, function: Function, before: int, steps: int = STEPS) -> Class | None:
        """Return the class that an expression makes an object of, parameters aside: `Net(8).to(device)`."""
        if isinstance(value, ast.Name | ast.Attribute):
            return self._class_held(dotted(value), function, before, steps)
        if isinstance(value, ast.Subscript) and not isinstance(value.slice, ast.Slice):
            return self._class_of_elements(value.value, function, before, steps)
        inner = wrapped(value)
        if inner is not None:
            return self.class_in_sight(inner, function, before, steps)
        return self.class_called(value, function) or self._class_handed_back(value, function)

    def _class_held(self, path: str, function: Function, before: int, steps: int) -> Class | None:
        if path == "self":
            return owner_of(function)
        found = self.binding(path, function, before) if steps else None
        if found is None or found.is_augmented:
            return None
        if isinstance(found.statement, ast.For):
            return self._class_drawn(found, steps - 1)
        if found.is_unpacked:
            return self._class_handed_back(found.value, found.block.function, *position_of(found))
        return self.class_in_sight(found.value, found.block.function, found.line, steps - 1)

    def _class_drawn(self, drawn: Assignment, steps: int) -> Class | None:
        """Return the class of all elements that a loop binds to a name: of the container itself, or beside a number."""
        loop, source = drawn.statement, drawn.value
        target = loop.target if isinstance(loop, ast.For) else None
        if target is not drawn.node:
            places = target.elts if isinstance(target, ast.Tuple) else []
            place = next((number for number, each in enumerate(places) if each is drawn.node), None)
            name = dotted(source.func) if isinstance(source, ast.Call) else ""
            if place is None or not isinstance(source, ast.Call) or name not in {"enumerate", "zip"}:
                return None
            place -= name == "enumerate"
            if not 0 <= place < len(source.args):
                return None
            source = source.args[place]
        return self._class_of_elements(source, drawn.block.function, drawn.line, steps)

    def _class_of_elements(self, value: ast.expr, function: Function, line: int, steps: int) -> Class | None:
        """Return the class of all elements of a container."""
        if isinstance(value, ast.Name | ast.Attribute):
            found = self.binding(dotted(value), function, line) if steps else None
            if found is None or found.is_augmented or found.is_unpacked:
                return None
            function, line, value = found.block.function, found.line, found.value
        parts = [value]
        while len(parts) == 1 and isinstance(parts[0], ast.Call) and _holds_its_arguments(parts[0]):
            parts = [each.value if isinstance(each, ast.Starred) else each for each in parts[0].args]
        match parts:
            case [ast.ListComp(elt=part) | ast.GeneratorExp(elt=part)]:
                parts = [part]
            case [ast.List(elts=parts) | ast.Tuple(elts=parts)]:
                pass
            case [ast.Name() | ast.Attribute() as inner] if inner is not value and steps:
                return self._class_of_elements(inner, function, line, steps - 1)
            case [only] if only is value:
                return None
            case _:
                pass
        classes = {self.class_in_sight(each, function, line, steps) for each in parts}
        return classes.pop() if len(classes) == 1 else None

    def _class_handed_back(self, value: ast.expr, function: Function, at: int = 0, count: int = 0) -> Class | None:
        """Return the class of what a function of these files makes and hands back, in a tuple of a count if not 0."""
        called = self.function_named(value, function)
        if called is None:
            return None
        key = (called, at, count)
        if key not in self._handed_back:
            self._handed_back[key] = None
            self._handed_back[key] = self._find_handed_back(called, at, count)
        return self._handed_back[key]

    def _find_handed_back(self, called: Function, at: int, count: int) -> Class | None:
        found: set[Class | None] = set()
        for statement, _ in called.returns:
            value = statement.value
            if count:
                parts = value.elts if isinstance(value, ast.Tuple) else []
                value = parts[at] if len(parts) == count else None
            found.add(self.class_in_sight(value, called, statement.lineno, _STEPS_BACK) if value is not None else None)
        return found.pop() if len(found) == 1 else None

    def function_named(self, value: ast.expr, function: Function) -> Function | None:
        """Return the function that a call runs by its name, or the method of its own object."""
        path = dotted(value.func) if isinstance(value, ast.Call) else ""
        if not path or "(" in path:
            return None
        owner = owner_of(function) if path.startswith("self.") else None
        if owner is not None:
            return self.method(owner, path.removeprefix("self."))
        return self.function(resolve(path, function), function.file)

    def class_called(self, value: ast.expr, function: Function) -> Class | None:
        """Return the class that a plain call makes an object of: `Net(8)`."""
        if not isinstance(value, ast.Call):
            return None
        return self.class_named(resolve(dotted(value.func), function), function.file)


def _holds_its_arguments(value: ast.Call) -> bool:
    """Return whether a call makes a container of its arguments, or of what its only argument holds."""
    return tail_of(dotted(value.func)) in _CONTAINERS and bool(value.args)


def position_of(found: Assignment) -> tuple[int, int]:
    """Return which of how many names an unpacking binds; 0 of 0 where that cannot be told."""
    target = found.statement.targets[0] if isinstance(found.statement, ast.Assign) else None
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    if any(isinstance(part, ast.Starred) for part in parts):
        return 0, 0
    return next(((place, len(parts)) for place, each in enumerate(parts) if each is found.node), (0, 0))


def _ends(found: Assignment) -> int:
    """Return the line on which what is assigned ends."""
    return found.value.end_lineno or found.line


def wrapped(value: ast.expr) -> ast.expr | None:
    """Return the module that a call gives back: `net` of `net.to(device)` and of `torch.compile(net)`."""
    if not isinstance(value, ast.Call):
        return None
    if isinstance(value.func, ast.Attribute) and value.func.attr in _FLUENT:
        return value.func.value
    return value.args[0] if tail_of(dotted(value.func)) in _WRAPPERS and value.args else None


def resolve(path: str, function: Function) -> str:
    """Return a path through the imports of a function's file."""
    root = root_of(path)
    imported = function.file.imports.get(root)
    return path if imported is None or root in function.parameters else imported + path[len(root) :]
