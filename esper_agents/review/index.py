"""What is known across all files of a review: who calls whom, and where values come from."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from esper_agents.review.definitions import owner_of
from esper_agents.review.held_functions import HeldFunctions
from esper_agents.review.names import dotted
from esper_agents.review.objects import STEPS, resolve, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from esper_agents.review.tables import Call, Class, FileTables, Function
    from esper_agents.review.versions import TorchRange, TorchSettings

__all__ = ["Origin", "ProjectIndex", "argument_for", "resolve"]

T = TypeVar("T")

# How many steps from function to function are followed.
_CALLS = 6
# An unknown receiver's method is followed only where few methods have that name, a parameter only to few callers.
_NAMESAKES = 8
_CALLERS = 8
# How many assignments that may all be the last are followed.
_BRANCHES = 4
# What a step to the callers costs of the steps there are: their number multiplies with each.
_HOP = 3
_MISSING = object()
_PATHS = (ast.Name, ast.Attribute)


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


class ProjectIndex(HeldFunctions):
    """The files of a review, joined.

    Calls are followed in two strengths: `callees` returns what a call surely reaches; `possible_callees` also every
    method of that name where the receiver is unknown. Claims rest on the first; the second may only silence.
    """

    def __init__(self, files: Sequence[FileTables], settings: TorchSettings | None = None) -> None:
        super().__init__(files)
        self._settings = settings
        self._handed: dict[tuple[str, Function, int], tuple[Origin, ...]] = {}
        self._callees: dict[Call, tuple[Function, ...]] = {}
        self._callers: dict[Function, tuple[Call, ...]] = {}
        self._reached: dict[Function, frozenset[str]] = {}
        self._closures: dict[Function, tuple[Function, ...]] = {}
        self._called_by: dict[Function, tuple[Function, ...]] = {}
        self._names: dict[Function, frozenset[str]] = {}
        self._made: dict[object, Any] = {}
        self._origins: dict[tuple[ast.expr, Function, int, int], tuple[Origin, ...]] = {}
        self._classes: dict[tuple[ast.expr, Function, int, int], Class | None] = {}

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Return what `make` returns, made once for this review: for what several files or rules ask."""
        found: T = self._made.get(key, _MISSING)
        if found is _MISSING:
            found = self._made[key] = make()
        return found

    def library_files(self) -> tuple[Path, ...]:
        """Return the files with facts about libraries that the project names."""
        return self._settings.library_files if self._settings is not None else ()

    def torch_asked_by(self, file: FileTables) -> TorchRange | None:
        """Return which versions of torch the settings near a file ask for; None where none are known to say it."""
        return self._settings.asked_near(file.path) if self._settings is not None else None

    def origins(self, value: ast.expr, function: Function, before: int, steps: int = STEPS) -> tuple[Origin, ...]:
        """Return the expressions that a value may come from, through names, and through parameters to the callers.

        Where several assignments may be the last one before the line, all of them count.
        A name that nothing in sight explains is its own origin.
        """
        key = (value, function, before, steps)
        if key not in self._origins:
            self._origins[key] = self._find_origins(value, function, before, steps)
        return self._origins[key]

    def _find_origins(self, value: ast.expr, function: Function, before: int, steps: int) -> tuple[Origin, ...]:
        here = (Origin(value, function, before),)
        if not steps or not isinstance(value, _PATHS):
            return here
        path = dotted(value)
        found = self.bindings(path, function, before)
        if not found.assignments:
            return self._handed_over(path, function, steps) or here
        if any(assignment.is_unpacked or assignment.is_augmented for assignment in found.assignments):
            return here
        outside = () if found.is_whole else self._handed_over(path, function, steps) or here
        inside = [
            origin
            for assignment in found.assignments[:_BRANCHES]
            for origin in self.origins(assignment.value, assignment.block.function, assignment.line, steps - 1)
        ]
        return tuple(dict.fromkeys((*inside, *outside)))

    def _handed_over(self, parameter: str, function: Function, steps: int) -> tuple[Origin, ...]:
        """Return the origins of what the callers hand to a parameter."""
        if parameter not in function.parameters:
            return ()
        key = (parameter, function, steps)
        if key not in self._handed:
            self._handed[key] = self._find_handed_over(parameter, function, steps)
        return self._handed[key]

    def _find_handed_over(self, parameter: str, function: Function, steps: int) -> tuple[Origin, ...]:
        calls = self.callers(function)
        if len(calls) > _CALLERS:
            return ()
        handed = [(call, argument_for(call, function, parameter)) for call in calls]
        return tuple(
            origin
            for call, argument in handed
            if argument is not None
            for origin in self.origins(argument, call.function, call.line, max(steps - _HOP, 0))
        )

    def class_of(self, value: ast.expr, function: Function, before: int, steps: int = STEPS) -> Class | None:
        """Return the class that a value is an object of, where the reviewed files show it."""
        key = (value, function, before, steps)
        if key not in self._classes:
            self._classes[key] = self._find_class(value, function, before, steps)
        return self._classes[key]

    def _find_class(self, value: ast.expr, function: Function, before: int, steps: int) -> Class | None:
        for origin in self.origins(value, function, before) if steps else ():
            inner = wrapped(origin.value)
            if isinstance(origin.value, ast.Name) and origin.value.id == "self":
                found = owner_of(origin.function)
            elif inner is not None:
                found = self.class_of(inner, origin.function, origin.line, steps - 1)
            else:
                found = self.class_in_sight(origin.value, origin.function, origin.line)
            if found is not None:
                return found
        return None

    def callees(self, call: Call) -> tuple[Function, ...]:
        """Return the functions that a call surely reaches: a function, a method, a module's `forward`."""
        if call not in self._callees:
            self._callees[call] = self._called(call, self.class_of)
        return self._callees[call]

    def _called(self, call: Call, class_of: Callable[[ast.expr, Function, int], Class | None]) -> tuple[Function, ...]:
        if call.receiver and self.is_foreign(call):
            return ()
        local = None if call.receiver else self.local_function(call.path, call.function)
        found = local or (self.function(call.name, call.function.file) if "(" not in call.name else None)
        found = found or self.function_held(call)
        if found is None and isinstance(call.node.func, ast.Attribute):
            owner = self._super(call) or class_of(call.node.func.value, call.function, call.line)
            found = self.method(owner, call.tail) if owner is not None else None
        if found is None and call.path != "self.__class__":
            owner = class_of(call.node.func, call.function, call.line)
            found = (self.method(owner, "forward") or self.method(owner, "__call__")) if owner is not None else None
        return (found,) if found is not None else ()

    def _super(self, call: Call) -> Class | None:
        """Return the class that `super()` means in a call: the nearest base in these files that has the method."""
        owner = owner_of(call.function) if call.receiver == "super()" else None
        bases = self.lineage(owner).classes[1:] if owner is not None else []
        return next((base for base in bases if call.tail in base.methods), None)

    def possible_callees(self, call: Call) -> tuple[Function, ...]:
        """Return what a call may reach: what it surely reaches, else the methods of that name where they are few."""
        return self.callees(call) or self._namesakes(call) or self._handed_functions(call)

    def _handed_functions(self, call: Call) -> tuple[Function, ...]:
        """Return the functions that callers hand to the parameter that a call runs."""
        if call.path not in call.function.parameters:
            return ()
        handed = ((caller, argument_for(caller, call.function, call.path)) for caller in self.callers(call.function))
        found = [self.function_meant(value, each.function) for each, value in handed if value is not None]
        return tuple(dict.fromkeys(each for each in found if each is not None)) if None not in found else ()

    def _namesakes(self, call: Call) -> tuple[Function, ...]:
        return self._rare_methods.get(call.tail, ()) if call.receiver and not self.is_foreign(call) else ()

    @cached_property
    def _rare_methods(self) -> dict[str, tuple[Function, ...]]:
        """Methods by name, of names that few methods have."""
        named = {
            name: tuple(function for function in functions if function.owner is not None)
            for name, functions in self.functions.items()
        }
        return {name: methods for name, methods in named.items() if len(methods) <= _NAMESAKES}

    def callers(self, function: Function) -> tuple[Call, ...]:
        """Return the calls in these files that may reach a function, in order; of an `__init__` those of its class."""
        if function not in self._callers:
            self._callers[function] = ()
            self._callers[function] = self._find_callers(function)
        return self._callers[function]

    def _find_callers(self, function: Function) -> tuple[Call, ...]:
        if function.name == "__init__" and function.owner is not None:
            calls = self.calls_ending(function.owner.name)
            return tuple(call for call in calls if self.class_called(call.node, call.function) is function.owner)
        if function.name == "__call__" and function.owner is not None:
            return tuple(call for call in self.calls_of_objects(function.owner) if function in self.callees(call))
        names = dict.fromkeys((function.name, *self.names_given(function)))
        known = [self.once(("callers", name), partial(self._callers_of_name, name)) for name in names]
        found = (*(call for each in known for call in each.get(function, ())), *self._calls_of_parameters(function))
        if function.name == "forward" and function.owner is not None:
            return (*found, *self.once("calls of modules", self._calls_of_modules).get(function, ()))
        return found

    def _calls_of_modules(self) -> dict[Function, list[Call]]:
        """Return the calls of objects whose class has a `forward`, by that method."""
        found: dict[Function, list[Call]] = {}
        if "forward" not in self.functions:
            return found
        for call in (call for file in self.files.values() for call in file.calls):
            if "(" in call.path or call.tail in self.functions or self.is_foreign(call):
                continue
            owner = self.class_in_sight(call.node.func, call.function, call.line)
            method = self.method(owner, "forward") if owner is not None else None
            if method is not None:
                found.setdefault(method, []).append(call)
        return found

    def _calls_of_parameters(self, function: Function) -> Iterator[Call]:
        """Yield the calls of parameters to which a function is handed."""
        for handing in self.handed_to(function):
            for called in self._called(handing, self.class_in_sight):
                for name in called.parameters:
                    handed = argument_for(handing, called, name)
                    if isinstance(handed, ast.Name) and handed.id == function.name:
                        yield from (call for call in called.calls if call.path == name)

    def _callers_of_name(self, name: str) -> dict[Function, list[Call]]:
        found: dict[Function, list[Call]] = {}
        for call in self.calls_ending(name):
            # Not by `callees`: that follows parameters to callers, and would come back here.
            for function in self._called(call, self.class_in_sight) or self._namesakes(call):
                found.setdefault(function, []).append(call)
        return found

    def closure(self, function: Function) -> tuple[Function, ...]:
        """Return a function with all functions of these files that it may call, nearest first."""
        if function not in self._closures:
            self._closures[function] = tuple(self._close(function))
        return self._closures[function]

    def _close(self, start: Function) -> dict[Function, None]:
        seen = {start: None}
        edge = [start]
        for _ in range(_CALLS):
            following = dict.fromkeys(called for each in edge for called in self._possibly_called(each))
            edge = [each for each in following if each not in seen]
            seen.update(dict.fromkeys(edge))
        return seen

    def _possibly_called(self, function: Function) -> tuple[Function, ...]:
        """Return the functions that one may call itself, and those defined in it."""
        if function not in self._called_by:
            called = (possible_callee for call in function.calls for possible_callee in self.possible_callees(call))
            self._called_by[function] = tuple(dict.fromkeys((*called, *function.inner)))
        return self._called_by[function]

    def reached(self, function: Function) -> frozenset[str]:
        """Return the last names of all that a function may call, directly or through functions of these files.

        A method that no file here defines counts a second time with a dot in front: `.eval` is no `eval(...)`.
        """
        if function not in self._reached:
            parts = (self._named_in(each) for each in self.closure(function))
            self._reached[function] = frozenset().union(*parts)
        return self._reached[function]

    def _named_in(self, function: Function) -> frozenset[str]:
        """Return the last names of what a function calls itself, as `reached` counts them."""
        if function not in self._names:
            calls = function.calls
            unknown = {f".{call.tail}" for call in calls if call.receiver and not self.possible_callees(call)}
            self._names[function] = frozenset(unknown | {call.tail for call in calls})
        return self._names[function]


def argument_for(call: Call, function: Function, parameter: str) -> ast.expr | None:
    """Return what a call hands to a parameter of a function; None where that cannot be said."""
    names = [name for name in function.parameters if not (function.owner is not None and name in {"self", "cls"})]
    return call.argument(names.index(parameter), parameter) if parameter in names else None
