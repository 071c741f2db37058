"""Functions worth running: those from which calls may lead to a name that a query needs."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Function

# Without one of these names in sight no query has anything to say.
TRAINING = frozenset({"backward", "manual_backward"})
EVALUATION = frozenset({"eval", "no_grad", "inference_mode", "set_grad_enabled"})
_REPEATING = frozenset({"map", "load_state_dict"})
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# What more functions call is a helper, such as an initialiser or a factory: its callers are not worth running for it.
MOST_CALLERS = 12


def reaching(index: ProjectIndex) -> frozenset[int]:
    """Return the identities of the syntax nodes of functions whose calls may lead to a seed, by names alone."""
    return index.once("functions that reach seeds", lambda: frozenset(_reaching(index)))


def _reaching(index: ProjectIndex) -> set[int]:
    by_name: dict[str, list[Function]] = {}
    by_reference: dict[str, list[Function]] = {}
    # Frameworks call these: nothing in the project does.
    hooks: set[int] = set()
    for file in index.files.values():
        for function in file.functions:
            is_hook = function.name.endswith("_step") or (function.name == "forward" and _writes_in_place(function))
            if is_hook and function.owner is not None and function.owner.bases:
                hooks.add(id(function.node))
            for name in _names(function):
                by_name.setdefault(name, []).append(function)
            for name in _references(function):
                by_reference.setdefault(name, []).append(function)
    return _closure(by_name, by_reference, _Registries(index)) | hooks


def _closure(
    by_name: dict[str, list[Function]], by_reference: dict[str, list[Function]], registries: _Registries
) -> set[int]:
    """Return the functions from which calls, or functions held as values, may lead to a seed."""
    found: set[int] = set()
    edge = [*sorted(TRAINING), *sorted(EVALUATION)]
    seen = set(edge)
    while edge:
        sought = edge.pop()
        is_seed = sought in TRAINING | EVALUATION
        calling, referring = by_name.get(sought, []), by_reference.get(sought, [])
        mentioning = calling if is_seed or len(calling) <= MOST_CALLERS else []
        if not is_seed and len(referring) <= MOST_CALLERS:
            mentioning = [*mentioning, *referring]
        for function in mentioning:
            if id(function.node) in found or (sought in EVALUATION and not _repeats(function)):
                continue
            found.add(id(function.node))
            names = {name for name in (_called_as(function), *registries.of(function)) if name}
            edge += sorted(names - seen)
            seen |= names
    return found


class _Registries:
    """Names of the containers through which functions are reached: `STEPS = {"plain": plain_step}`."""

    def __init__(self, index: ProjectIndex) -> None:
        self._by_function: dict[str, set[str]] = {}
        self._by_decorator: dict[str, set[str]] = {}
        for file in index.files.values():
            for function in file.functions:
                for target, assignments in function.assignments.items():
                    name = target.removesuffix("[]").rpartition(".")[2]
                    for assignment in assignments:
                        for held in _values(assignment.value):
                            if held != name:
                                self._by_function.setdefault(held, set()).add(name)
                    if target.endswith("[]"):
                        # What a decorator fills.
                        around = function.outer.function if function.outer is not None else function
                        self._by_decorator.setdefault(function.name, set()).add(name)
                        self._by_decorator.setdefault(around.name, set()).add(name)

    def of(self, function: Function) -> Iterator[str]:
        """Yield the names of the containers and variables that hold a function."""
        owner = function.owner
        for name in (function.name, *((owner.name,) if owner is not None else ())):
            yield from sorted(self._by_function.get(name, ()))
        for decorator in function.decorators:
            called = decorator.rstrip("()").rpartition(".")[2]
            yield from sorted(self._by_decorator.get(called, ()))


def _values(value: ast.expr) -> Iterator[str]:
    """Yield the last names of what a value holds or passes on: `{"a": f}`, `[f, g]`, `partial(f, x)`."""
    if isinstance(value, ast.Name | ast.Attribute):
        yield dotted(value).rpartition(".")[2]
    elif isinstance(value, ast.Call):
        for each in (*value.args, *(keyword.value for keyword in value.keywords)):
            if isinstance(each, ast.Name | ast.Attribute):
                yield from _values(each)
    else:
        for each in _members(value):
            yield from _values(each)


def _members(value: ast.expr) -> list[ast.expr]:
    if isinstance(value, ast.Dict):
        return value.values
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return value.elts
    if isinstance(value, ast.IfExp):
        return [value.body, value.orelse]
    return [value.value] if isinstance(value, ast.Subscript) else []


def _references(function: Function) -> set[str]:
    """Return the last names that a function reads without calling them, where they may be functions."""
    names: set[str] = set()
    for call in function.calls:
        names.update(_values(call.node))
        if "[" in call.path or ")" in call.path:
            names.update(_IDENTIFIER.findall(call.path))
        if call.path == "getattr" and function.owner is not None:
            # Any method of its class: `getattr(self, f"{phase}_epoch")()`.
            names.update(function.owner.methods)
    for assignments in function.assignments.values():
        for assignment in assignments:
            names.update(_values(assignment.value))
    return names - {""}


def _repeats(function: Function) -> bool:
    """Return whether a function, or its class, has a loop, or loads weights to answer one request after the other."""
    owner = function.owner
    around = (function, *owner.methods.values()) if owner is not None else (function,)
    calls = (call for each in around for call in each.calls)
    return function.is_module or any(call.block.loop is not None or call.tail in _REPEATING for call in calls)


def _writes_in_place(function: Function) -> bool:
    """Return whether a function may write tensors in place that a backward needs."""
    written = (each for assignments in function.assignments.values() for each in assignments)
    if any(each.is_augmented or each.target.endswith("[]") for each in written):
        return True
    return any(call.tail.endswith("_") and not call.tail.startswith("_") for call in function.calls)


def _names(function: Function) -> set[str]:
    """Return the last names of what a function calls or is decorated with, and of the functions in it."""
    names = {call.tail for call in function.calls}
    names |= {decorator.rstrip("()").rpartition(".")[2] for decorator in function.decorators}
    for inner in function.inner:
        if inner.owner is None:
            names |= {inner.name}
    return names


def _called_as(function: Function) -> str:
    """Return the name by which calls reach a function; none for what instances run by themselves."""
    if function.is_module:
        return ""
    is_special = function.name.startswith("__") and function.name.endswith("__")
    if function.name == "forward" or is_special:
        # Who makes an instance may call it.
        return function.owner.name if function.owner is not None else ""
    return function.name
