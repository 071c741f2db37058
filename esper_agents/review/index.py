"""What is known across all files of a review: what a path holds, and who calls whom."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from esper_agents.review.definitions import Definitions, owner_of
from esper_agents.review.names import dotted, root_of, tail_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from esper_agents.review.tables import Assignment, Call, Class, FileTables, Function

T = TypeVar("T")

# How many steps from value to value, and from function to function, are followed.
_VALUES = 8
_CALLS = 6
# An unknown receiver's method is followed only where few methods have that name.
_NAMESAKES = 8

# Calls and methods that give back the module they were given.
_WRAPPERS = frozenset({"compile", "DataParallel", "DistributedDataParallel", "DDP", "script", "prepare_model"})
_FLUENT = frozenset(
    {"to", "cuda", "cpu", "eval", "train", "float", "half", "bfloat16", "double", "requires_grad_", "apply"}
)
_ANYWHERE = 1 << 30


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from.

    Attributes:
        value: The expression that makes it.
        function: The function the expression stands in.
        line: The line it is made on; names in the expression mean what they mean above it.
    """

    value: ast.expr
    function: Function
    line: int


class ProjectIndex(Definitions):
    """The files of a review, joined.

    Calls are followed in two strengths: `callees` returns what a call surely reaches; `possible_callees` also every
    method of that name where the receiver is unknown. Claims rest on the first; the second may only silence.
    """

    def __init__(self, files: Sequence[FileTables]) -> None:
        super().__init__(files)
        self._callees: dict[Call, tuple[Function, ...]] = {}
        self._callers: dict[Function, tuple[Call, ...]] = {}
        self._reached: dict[Function, frozenset[str]] = {}
        self._made: dict[object, object] = {}

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Return what `make` returns, made once for this review: for what several files or rules ask."""
        if key not in self._made:
            self._made[key] = make()
        return cast("T", self._made[key])

    def binding(self, path: str, function: Function, before: int) -> Assignment | None:
        """Return the assignment that a path's value comes from at a line.

        Looked for above the line in the function, then in the functions around it and the module, then, for `self.x`,
        in the class. None where a parameter holds it, or nothing in sight does.
        """
        current: Function | None = function
        limit = before
        while current is not None:
            if (found := current.last_assignment(path, limit)) is not None:
                return found
            if root_of(path) in current.parameters and not path.startswith("self."):
                return None
            current, limit = (current.outer.function if current.outer else None), _ANYWHERE
        owner = owner_of(function)
        return self._attribute(owner, path) if owner is not None and path.startswith("self.") else None

    def _attribute(self, owner: Class, path: str) -> Assignment | None:
        for each in self.ancestors(owner)[0]:
            for found in each.attributes.get(path, ()):
                if dotted(found.value) != path and not dotted(found.value).startswith(f"{path}."):
                    return found
        return None

    def class_of(self, path: str, function: Function, before: int) -> Class | None:
        """Return the class of what a path holds at a line, where an assignment in sight shows it."""
        return self._class_of(path, function, before, _VALUES)

    def class_made_by(self, value: ast.expr, function: Function, before: int) -> Class | None:
        """Return the class that an expression makes an object of: `Net(8).to(device)`, `torch.compile(Net())`."""
        return self._class_made(value, function, before, _VALUES)

    def _class_of(self, path: str, function: Function, before: int, steps: int) -> Class | None:
        if path == "self":
            return owner_of(function)
        found = self.binding(path, function, before) if steps else None
        if found is None or found.is_unpacked or found.is_augmented:
            return None
        return self._class_made(found.value, found.block.function, found.line, steps - 1)

    def _class_made(self, value: ast.expr, function: Function, before: int, steps: int) -> Class | None:
        if isinstance(value, ast.Name | ast.Attribute):
            return self._class_of(dotted(value), function, before, steps)
        if not isinstance(value, ast.Call):
            return None
        called = value.func
        if isinstance(called, ast.Attribute) and called.attr in _FLUENT:
            return self._class_made(called.value, function, before, steps)
        path = dotted(called)
        if tail_of(path) in _WRAPPERS and value.args:
            return self._class_made(value.args[0], function, before, steps)
        return self.class_named(resolve(path, function), function.file)

    def origins(self, value: ast.expr, function: Function, before: int, steps: int = _VALUES) -> tuple[Origin, ...]:
        """Return the expressions that a value comes from, through names, and through parameters to the callers.

        A name that nothing in sight explains is its own origin.
        """
        here = (Origin(value, function, before),)
        if not steps or not isinstance(value, ast.Name | ast.Attribute):
            return here
        path = dotted(value)
        found = self.binding(path, function, before)
        if found is not None:
            if found.is_unpacked or found.is_augmented:
                return here
            return self.origins(found.value, found.block.function, found.line, steps - 1)
        handed = [(call, argument_for(call, function, path)) for call in self._callers_of_parameter(path, function)]
        return (
            tuple(
                origin
                for call, argument in handed
                if argument is not None
                for origin in self.origins(argument, call.function, call.line, steps - 1)
            )
            or here
        )

    def _callers_of_parameter(self, path: str, function: Function) -> tuple[Call, ...]:
        return self.callers(function) if path in function.parameters else ()

    def callees(self, call: Call) -> tuple[Function, ...]:
        """Return the functions that a call surely reaches: a function, a method, a module's `forward`."""
        if call not in self._callees:
            self._callees[call] = tuple(self._surely_called(call))
        return self._callees[call]

    def _surely_called(self, call: Call) -> Iterator[Function]:
        local = None if call.receiver else self.local_function(call.path, call.function)
        found = local or (self.function(call.name, call.function.file) if "(" not in call.name else None)
        if found is not None:
            yield found
            return
        if call.receiver:
            owner = self._receiver_class(call)
            if owner is not None:
                found = self.method(owner, call.tail)
                if found is not None:
                    yield found
                    return
        called = self.class_made_by(call.node.func, call.function, call.line)
        if called is not None and call.path != "self":
            found = self.method(called, "forward") or self.method(called, "__call__")
            if found is not None:
                yield found

    def _receiver_class(self, call: Call) -> Class | None:
        if call.receiver == "super()":
            owner = owner_of(call.function)
            return (
                next((each for each in self.ancestors(owner)[0][1:] if call.tail in each.methods), None)
                if owner
                else None
            )
        assert isinstance(call.node.func, ast.Attribute)  # noqa: S101 - a call has a receiver only through an attribute
        return self.class_made_by(call.node.func.value, call.function, call.line)

    def local_function(self, name: str, function: Function) -> Function | None:
        """Return the function that a plain name means: defined in the function itself, around it, or in its module."""
        current: Function | None = function if name.isidentifier() else None
        while current is not None:
            found = next((each for each in current.inner if each.name == name and each.owner is None), None)
            if found is not None:
                return found
            current = current.outer.function if current.outer else None
        return None

    def possible_callees(self, call: Call) -> tuple[Function, ...]:
        """Return what a call may reach: what it surely reaches, else the methods of that name where they are few."""
        sure = self.callees(call)
        if sure or not call.receiver:
            return sure
        named = [each for each in self.functions.get(call.tail, ()) if each.owner is not None]
        return tuple(named) if len(named) <= _NAMESAKES else ()

    def callers(self, function: Function) -> tuple[Call, ...]:
        """Return the calls in these files that may reach a function, in order of file and line."""
        if function not in self._callers:
            calls = self.calls_ending(function.name)
            self._callers[function] = tuple(each for each in calls if function in self.possible_callees(each))
        return self._callers[function]

    def reached(self, function: Function) -> frozenset[str]:
        """Return the last names of all that a function may call, directly or through functions of these files.

        A method that no file here defines counts a second time with a dot in front: `.eval` is no `eval(...)`.
        """
        if function not in self._reached:
            self._reached[function] = frozenset(self._reach(function))
        return self._reached[function]

    def _reach(self, start: Function) -> set[str]:
        tails = set[str]()
        seen, edge = {start}, [start]
        for _ in range(_CALLS):
            following: list[Function] = []
            for function in edge:
                for call in function.calls:
                    tails.add(call.tail)
                    called = self.possible_callees(call)
                    following += called
                    if call.receiver and not called:
                        tails.add(f".{call.tail}")
                following += function.inner
            edge = [each for each in dict.fromkeys(following) if each not in seen]
            seen.update(edge)
        return tails


def resolve(path: str, function: Function) -> str:
    """Return a path through the imports of a function's file."""
    root = root_of(path)
    imported = function.file.imports.get(root)
    return path if imported is None or root in function.parameters else imported + path[len(root) :]


def argument_for(call: Call, function: Function, parameter: str) -> ast.expr | None:
    """Return what a call hands to a parameter of a function; None where that cannot be said."""
    names = [name for name in function.parameters if not (function.owner is not None and name in {"self", "cls"})]
    return call.argument(names.index(parameter), parameter) if parameter in names else None
