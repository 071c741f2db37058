"""Definitions and calls of a project by name, and the scopes of its code."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from esper_agents.domain.finding import Location
from esper_agents.traces.scopes import (
    FunctionNode,
    enclosing_class,
    enclosing_function,
    parameter_default,
    parameters_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.traces.locate import ProjectSources

_MOST_FILES = 300
FROM_VALUES = frozenset(
    ("torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.LongTensor", "torch.FloatTensor")
)
_CONSTRUCTORS = frozenset(("__init__", "__post_init__", "setup"))


@dataclass(frozen=True, slots=True)
class CodeScope:
    """Function, method or module code that an expression is in.

    Attributes:
        path: File.
        function: Function around the expression; None for module code and class bodies.
        owner: Class around the function.
        frame: Number of the frame of the trace that runs the function; -1 if it is not known.
        bound: What the parameters stand for, if the call is known.
        instance: Call that created the object `self`, if it is known.
    """

    path: str
    function: FunctionNode | None = None
    owner: ast.ClassDef | None = None
    frame: int = -1
    bound: Mapping[str, OriginValue] = field(default_factory=dict)
    instance: OriginValue | None = None


@dataclass(frozen=True, slots=True)
class OriginValue:
    """Expression that a value comes from.

    Attributes:
        node: The expression.
        scope: Where it is.
        depth: How many times an element has to be taken from the value before it is the expression.
    """

    node: ast.expr
    scope: CodeScope
    depth: int = 0

    @property
    def line(self) -> int:
        """Line of the expression."""
        return self.node.lineno

    @property
    def text(self) -> str:
        """Source text of the expression."""
        return ast.unparse(self.node)


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """What an attribute of an object is assigned.

    Attributes:
        value: The value of the assignment.
        way: Positions by which a target such as `self.a, self.b = ...` takes a part of it.
    """

    value: OriginValue
    way: tuple[int, ...] = ()


class ProgramIndex:
    """Classes, functions and calls of the files of a project."""

    def __init__(self, sources: ProjectSources) -> None:
        """Belong to the files of a project."""
        self.sources = sources
        self._paths: dict[int, str] = {}
        self._classes: dict[str, tuple[str, ast.ClassDef] | None] = {}
        self._calls: dict[str, list[tuple[str, ast.Call]]] = {}

    @classmethod
    def of(cls, sources: ProjectSources) -> ProgramIndex:
        """Return the index of a project, which is made once."""
        if sources not in _INDEXES:
            _INDEXES[sources] = cls(sources)
        return _INDEXES[sources]

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The files that are searched."""
        return self.sources.paths[:_MOST_FILES]

    def tree(self, path: str) -> ast.Module:
        """Return the syntax tree of a file; empty if it cannot be read."""
        return self.sources.tree(path) or ast.Module([], [])

    def scope_at(self, place: Location, frame: int = -1) -> CodeScope:
        """Return the scope of a line."""
        tree = self.sources.tree(place.path)
        function = enclosing_function(tree, place.line)
        owner = enclosing_class(tree, place.line)
        self._remember(place.path, function, owner)
        return CodeScope(place.path, function, owner, frame)

    def class_named(self, name: str) -> tuple[str, ast.ClassDef] | None:
        """Return the only class of a name and its file."""
        if name not in self._classes:
            found = [
                (path, node)
                for path in self._with(f"class {name}")
                for node in ast.walk(self.tree(path))
                if isinstance(node, ast.ClassDef) and node.name == name
            ]
            self._classes[name] = found[0] if len(found) == 1 else None
            if len(found) == 1:
                self._remember(*found[0])
        return self._classes[name]

    def function_named(self, name: str, *, near: str = "") -> tuple[str, FunctionNode] | None:
        """Return the only function of a name at the level of a module, that of the given file first."""
        found = [
            (path, node)
            for path in self._with(f"def {name}")
            for node in self.tree(path).body
            if isinstance(node, FunctionNode) and node.name == name
        ]
        found = [each for each in found if each[0] == near] or found
        if len(found) != 1:
            return None
        self._remember(*found[0])
        return found[0]

    def method(self, owner: ast.ClassDef, name: str) -> FunctionNode | None:
        """Return the method of a class or of its bases in the project; None if there is none."""
        for each in owner.body:
            if isinstance(each, FunctionNode) and each.name == name:
                return each
        for base in owner.bases:
            found = self.class_named(ast.unparse(base).rpartition(".")[2])
            if found is not None and found[1] is not owner and (method := self.method(found[1], name)):
                return method
        return None

    def calls_of(self, name: str) -> list[tuple[str, ast.Call]]:
        """Return the calls of a function, method or class by its last name."""
        if name not in self._calls:
            self._calls[name] = [
                (path, node)
                for path in self._with(f"{name}(")
                for node in ast.walk(self.tree(path))
                if isinstance(node, ast.Call) and called_name(node) == name
            ]
        return self._calls[name]

    def path_of(self, function: FunctionNode) -> str:
        """Return the file of a function that the index returned before; empty for others."""
        return self._paths.get(id(function), "")

    def _remember(self, path: str, *nodes: ast.AST | None) -> None:
        for node in nodes:
            self._paths |= {
                id(each): path for each in ast.walk(node or ast.Module([], [])) if isinstance(each, FunctionNode)
            }

    def is_module_class(self, owner: ast.ClassDef, depth: int = 0) -> bool:
        """Return whether a class is an `nn.Module`, directly or by a base class of the project."""
        for base in owner.bases:
            name = ast.unparse(base).rpartition(".")[2]
            if name.endswith("Module"):
                return True
            found = self.class_named(name) if depth < 4 else None  # noqa: PLR2004 - levels of inheritance
            if found is not None and found[1] is not owner and self.is_module_class(found[1], depth + 1):
                return True
        return False

    def scope_of(self, node: ast.AST, path: str) -> CodeScope:
        """Return the scope of a node of a file."""
        return self.scope_at(Location(path, getattr(node, "lineno", 0)))

    def arguments(
        self, call: OriginValue, function: FunctionNode, owner: ast.ClassDef | None
    ) -> dict[str, OriginValue] | None:
        """Return what a call passes for each parameter; None if it passes an unknown number of arguments."""
        node = call.node
        if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
            return None
        is_method = owner is not None and "staticmethod" not in map(ast.unparse, function.decorator_list)
        names = parameters_of(function)[1 if is_method else 0 :]
        bound = {name: OriginValue(value, call.scope) for name, value in zip(names, node.args, strict=False)}
        bound |= {each.arg: OriginValue(each.value, call.scope) for each in node.keywords if each.arg}
        path = self.path_of(function)
        for name in names:
            default = parameter_default(function, name)
            if name not in bound and default is not None and path and all(each.arg for each in node.keywords):
                bound[name] = OriginValue(default, CodeScope(path))
        return bound

    def attribute(
        self, owner: ast.ClassDef, path: str, name: str, instance: OriginValue | None
    ) -> AttributeValue | None:
        """Return what an attribute of an object is assigned, if one line does it; the constructor's line first.

        Args:
            owner: Class of the object.
            path: File of the class.
            name: The attribute.
            instance: Call that creates the object; None if it is not known.
        """
        found = [
            each
            for method in owner.body
            if isinstance(method, FunctionNode)
            for each in _stored(method, name)
            if not (isinstance(each[0], ast.Constant) and each[0].value is None)
        ]
        found = [each for each in found if each[1].name in _CONSTRUCTORS] or found
        if len(found) == 1:
            value, method, way = found[0]
            bound: Mapping[str, OriginValue] = {}
            if instance is not None and method.name == "__init__":
                bound = self.arguments(instance, method, owner) or {}
            return AttributeValue(OriginValue(value, CodeScope(path, method, owner, -1, bound, instance)), way)
        inherited = None if found else self.class_attribute(owner, path, name, instance)
        return AttributeValue(inherited) if inherited is not None else None

    def class_attribute(
        self, owner: ast.ClassDef, path: str, name: str, instance: OriginValue | None
    ) -> OriginValue | None:
        """Return the value of a field: what the constructor of a data class gets, else what the class says."""
        fields = [each for each in owner.body if isinstance(each, ast.AnnAssign | ast.Assign)]
        names = [ast.unparse(each.target) for each in fields if isinstance(each, ast.AnnAssign)]
        if instance is not None and isinstance(instance.node, ast.Call) and name in names:
            position = names.index(name)
            passed = {each.arg: each.value for each in instance.node.keywords}
            if position < len(instance.node.args):
                return OriginValue(instance.node.args[position], instance.scope)
            if name in passed:
                return OriginValue(passed[name], instance.scope)
        for each in fields:
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            if each.value is not None and any(way_to(target, name) == () for target in targets):
                return OriginValue(each.value, CodeScope(path))
        for base in owner.bases:
            found = self.class_named(ast.unparse(base).rpartition(".")[2])
            if found is not None and found[1] is not owner:
                inherited = self.attribute(found[1], found[0], name, None)
                return inherited.value if inherited is not None and not inherited.way else None
        return None

    def stored_element(self, chain: list[OriginValue]) -> OriginValue | None:
        """Return what the code puts into a container that is empty at first, if one line does it.

        Args:
            chain: The steps from a value to the empty container.
        """
        named = [each for each in chain if isinstance(each.node, ast.Name | ast.Attribute)]
        if not named:
            return None
        value = named[-1]
        is_own = value.text.startswith("self.")
        body: ast.AST = (value.scope.owner if is_own else value.scope.function) or self.tree(value.scope.path)
        found: list[ast.expr] = []
        for node in ast.walk(body):
            if isinstance(node, ast.Call) and called_name(node) in {"append", "add", "appendleft"} and node.args:
                if ast.unparse(getattr(node.func, "value", node.func)) == value.text:
                    found.append(node.args[0])
            elif isinstance(node, ast.Assign) and _container(node.targets[0]) == value.text:
                found.append(node.value)
        if len(found) != 1:
            return None
        scope = self.scope_of(found[0], value.scope.path)
        return OriginValue(found[0], replace(scope, instance=value.scope.instance))

    def option(self, name: str) -> OriginValue | None:
        """Return the default of an option of the command line, as `add_argument` declares it."""
        if (found := self.option_call(name)) is None:
            return None
        path, call = found
        default = next((each.value for each in call.keywords if each.arg == "default"), None)
        return OriginValue(default, self.scope_of(call, path)) if default is not None else None

    def option_call(self, name: str) -> tuple[str, ast.Call] | None:
        """Return the call of `add_argument` that declares an option of the command line, with its file."""
        for path, call in self.calls_of("add_argument"):
            names = [each.value for each in call.args if isinstance(each, ast.Constant)]
            names += [
                each.value.value
                for each in call.keywords
                if each.arg == "dest" and isinstance(each.value, ast.Constant)
            ]
            if any(str(each).lstrip("-").replace("-", "_") == name for each in names):
                return path, call
        return None

    def _with(self, text: str) -> Iterator[str]:
        word = re.compile(rf"\b{re.escape(text)}")
        for path in self.paths:
            if word.search(self.sources.text(path) or ""):
                yield path


def _stored(method: FunctionNode, name: str) -> Iterator[tuple[ast.expr, FunctionNode, tuple[int, ...]]]:
    """Yield the values that a method stores in an attribute of self, as buffer or parameter too."""
    for node in own_nodes(method):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if (way := way_to(target, f"self.{name}")) is not None:
                    yield node.value, method, way
        elif isinstance(node, ast.Call) and called_name(node) in {"register_buffer", "register_parameter"}:
            first = node.args[0] if len(node.args) > 1 else None
            if isinstance(first, ast.Constant) and first.value == name:
                yield node.args[1], method, ()


def way_to(target: ast.AST, name: str) -> tuple[int, ...] | None:
    """Return the positions by which a target of an assignment reaches a name; None if it does not."""
    if isinstance(target, ast.Name | ast.Attribute) and ast.unparse(target) == name:
        return ()
    if isinstance(target, ast.Tuple | ast.List):
        for position, element in enumerate(target.elts):
            if isinstance(element, ast.Starred):
                return None
            if (way := way_to(element, name)) is not None:
                return (position, *way)
    return None


def _container(target: ast.expr) -> str:
    """Return the container that an assignment to an entry changes; empty for other targets."""
    return ast.unparse(target.value) if isinstance(target, ast.Subscript) else ""


def is_empty_container(node: ast.expr) -> bool:
    """Return whether an expression is an empty list, dictionary, set or queue."""
    if isinstance(node, ast.Call):
        return called_name(node) in {"list", "dict", "set", "deque", "OrderedDict"} and not [*node.args, *node.keywords]
    return (isinstance(node, ast.List) and not node.elts) or (isinstance(node, ast.Dict) and not node.keys)


def called_name(call: ast.Call) -> str:
    """Return the last name of what a call calls."""
    return ast.unparse(call.func).rpartition(".")[2]


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function or module without those of the functions and classes in it."""
    pending = [*ast.iter_child_nodes(scope)]
    while pending:
        node = pending.pop(0)
        yield node
        if not isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda):
            pending = [*ast.iter_child_nodes(node), *pending]


def returned_values(function: FunctionNode) -> list[ast.expr]:
    """Return what the `return` and `yield` statements of a function give, without None."""
    found = [
        node.value
        for node in own_nodes(function)
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None
    ]
    return [each for each in found if not (isinstance(each, ast.Constant) and each.value is None)]


def made_value(chain: list[OriginValue]) -> OriginValue | None:
    """Return the first expression of a chain that computes something; None if all only pass a value on."""
    for number, value in enumerate(chain):
        node = value.node
        is_last = number == len(chain) - 1
        if isinstance(node, ast.Name | ast.Attribute | ast.Starred | ast.Constant):
            continue
        if isinstance(node, ast.Subscript) and (number == 0 or _is_plain_key(value)):
            continue
        if isinstance(node, ast.Call) and not is_last and ast.unparse(node.func) not in FROM_VALUES:
            following = chain[number + 1]
            is_same = isinstance(node.func, ast.Attribute) and following.node is node.func.value
            if number == 0 or not is_same:
                continue
        if number:
            return value
    return None


def _is_plain_key(value: OriginValue) -> bool:
    """Return whether a subscript takes a sample, a slice or a named entry, and selects by no computed index."""
    key = value.node.slice if isinstance(value.node, ast.Subscript) else None
    function = value.scope.function
    if isinstance(key, ast.Name) and function is not None and function.name == "__getitem__":
        return key.id in parameters_of(function)
    return isinstance(key, ast.Constant | ast.Slice)


def place_of(value: OriginValue) -> Location:
    """Return the line of an expression."""
    return Location(value.scope.path, value.line)


_INDEXES: WeakKeyDictionary[ProjectSources, ProgramIndex] = WeakKeyDictionary()
