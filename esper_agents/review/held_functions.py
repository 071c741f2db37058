"""Functions that are values: made by another function and handed back, compiled, or handed to a parameter."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of
from esper_agents.review.objects import Objects, position_of, resolve, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.tables import Assignment, Call, Function


class HeldFunctions(Objects):
    """What names hold functions of these files, parameters aside."""

    def function_held(self, call: Call) -> Function | None:
        """Return the function that a call runs by a name that was given to it: `step` of `step = make_step(net)`."""
        if not call.path.isidentifier() and call.path != f"self.{call.tail}":
            return None
        if call.tail not in self._held_names:
            return None
        found = self.binding(call.path, call.function, call.line)
        return self._assigned(found) if found is not None and not found.is_augmented else None

    def names_given(self, function: Function) -> tuple[str, ...]:
        """Return the last names under which a function may be called, its own aside."""
        return self._given.get(function, ())

    def local_function(self, name: str, function: Function) -> Function | None:
        """Return the function that a plain name means: defined in the function itself, around it, or in its module."""
        current: Function | None = function if name.isidentifier() else None
        while current is not None:
            found = self.defined_in(current).get(name)
            if found is not None:
                return found
            current = current.outer.function if current.outer else None
        return None

    def handed_to(self, function: Function) -> tuple[Call, ...]:
        """Return the calls that hand a function to another: `fit(model, make_step)`."""
        return tuple(
            call
            for call, given in self._handing.get(function.name, ())
            if self.function_meant(given, call.function) is function
        )

    def function_meant(self, value: ast.expr, function: Function) -> Function | None:
        """Return the function that a value names."""
        path = dotted(value)
        return self.local_function(path, function) or self.function(resolve(path, function), function.file)

    def _assigned(self, found: Assignment) -> Function | None:
        """Return the function that an assignment binds."""
        at, count = position_of(found) if found.is_unpacked else (0, 0)
        value = wrapped(found.value) or found.value
        if isinstance(value, ast.Name) and not found.is_unpacked and value is not found.value:
            return self.function_meant(value, found.block.function)
        maker = self.function_named(value, found.block.function) if count or not found.is_unpacked else None
        return self._made_by(maker, at, count) if maker is not None else None

    def _made_by(self, maker: Function, at: int, count: int) -> Function | None:
        """Return the function that another defines and hands back, alone or as a part of a tuple of a count."""
        found: set[Function | None] = set()
        for statement, _ in maker.returns:
            value = statement.value
            if count:
                value = value.elts[at] if isinstance(value, ast.Tuple) and len(value.elts) == count else None
            value = (wrapped(value) or value) if value is not None else None
            found.add(self.defined_in(maker).get(value.id) if isinstance(value, ast.Name) else None)
        return found.pop() if len(found) == 1 else None

    @cached_property
    def _given(self) -> dict[Function, tuple[str, ...]]:
        """The names that assignments give to functions."""
        found: dict[Function, dict[str, None]] = {}
        for name in sorted(self._makers):
            for call in self.calls_ending(name):
                for each in self._bound_by(call):
                    held = self._assigned(each)
                    if held is not None:
                        found.setdefault(held, {})[tail_of(each.target)] = None
        return {function: tuple(names) for function, names in found.items()}

    @cached_property
    def _held_names(self) -> frozenset[str]:
        return frozenset(name for names in self._given.values() for name in names)

    @cached_property
    def _makers(self) -> frozenset[str]:
        """The names of functions that hand back one they define, and of what compiles a function."""
        return frozenset(
            function.name
            for file in self.files.values()
            for function in file.functions
            if function.inner and any(self._made_in(function))
        ) | {"compile"}

    def _made_in(self, maker: Function) -> Iterator[Function]:
        inner = self.defined_in(maker)
        for statement, _ in maker.returns:
            value = statement.value
            parts = value.elts if isinstance(value, ast.Tuple) else [value] if value is not None else []
            held = [wrapped(part) or part for part in parts]
            yield from (inner[each.id] for each in held if isinstance(each, ast.Name) and each.id in inner)

    def _bound_by(self, call: Call) -> Iterator[Assignment]:
        """Yield the assignments of the statement that a call is the value of."""
        if isinstance(call.statement, ast.Assign) and call.statement.value is call.node:
            for each in call.statement.targets:
                for target in each.elts if isinstance(each, ast.Tuple | ast.List) else (each,):
                    known = call.function.assignments.get(dotted(target), ())
                    yield from (one for one in known if one.statement is call.statement)

    @cached_property
    def _handing(self) -> dict[str, list[tuple[Call, ast.expr]]]:
        """The calls that hand over what is named like a function, by that name."""
        found: dict[str, list[tuple[Call, ast.expr]]] = {}
        known = self.functions
        for file in self.files.values():
            for call in file.calls:
                for each in (*call.node.args, *(one.value for one in call.node.keywords)):
                    if each.__class__ is ast.Name and each.id in known:
                        found.setdefault(each.id, []).append((call, each))
        return found
