"""Layers that a line calls: where each is created, and where the size that a message names comes from."""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.domain.finding import Location
from esper_agents.traces.scopes import (
    assigned_values,
    enclosing_class,
    enclosing_function,
    is_self,
    marked_node,
    parameter_default,
    parameters_of,
    statement_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.traces.locate import ProjectSources

# Parameter of a layer that fixes the size of its input; it is the first one.
SIZE_PARAMETERS = {
    "Linear": "in_features",
    "Conv1d": "in_channels",
    "Conv2d": "in_channels",
    "Conv3d": "in_channels",
    "ConvTranspose1d": "in_channels",
    "ConvTranspose2d": "in_channels",
    "ConvTranspose3d": "in_channels",
    "Embedding": "num_embeddings",
    "RNN": "input_size",
    "LSTM": "input_size",
    "GRU": "input_size",
    "BatchNorm1d": "num_features",
    "BatchNorm2d": "num_features",
    "BatchNorm3d": "num_features",
    "MultiheadAttention": "embed_dim",
    "LayerNorm": "normalized_shape",
}
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
# Argument of a layer inside of a container: the layers before it changed it.
_NESTED = "its input"
_MOST_DEPTH = 6
_LARGEST = 10**12


@dataclass(frozen=True, slots=True)
class SizeOrigin:
    """Value of a size expression and the place that decides it.

    Attributes:
        value: The value; None if static analysis does not determine it.
        text: Source text of the expression, or of the argument that a caller passes.
        place: Line that holds `text`.
        parameter: Name of the parameter that passes it on; empty if the value is written at the layer.
        is_default: Whether the value is the default of the parameter, and `place` is a call that does not pass it.
        default_place: Line of the default.
    """

    value: int | None
    text: str
    place: Location
    parameter: str = ""
    is_default: bool = False
    default_place: Location | None = None


@dataclass(frozen=True, slots=True)
class CalledLayer:
    """Layer that a line calls.

    Attributes:
        name: The layer as the line names it, such as `self.fc`.
        argument: First argument of the call; `its input` if the layer is inside of a container.
        creation: Source text of the call that creates the layer.
        place: Line of that call.
        origin: Where its input size comes from.
    """

    name: str
    argument: str
    creation: str
    place: Location
    origin: SizeOrigin


@dataclass(frozen=True, slots=True)
class _CreatedLayer:
    """Call that creates a layer, with the function and class around it."""

    call: ast.Call
    function: ast.AST | None
    owner: ast.ClassDef | None
    is_called_itself: bool


def find_layer(
    sources: ProjectSources,
    place: Location,
    parameter: str,
    size: int | None,
    others: tuple[str, ...] = (),
    *,
    marked: str = "",
) -> CalledLayer | None:
    """Return the layer that a line calls and whose input size is the given one; None if it is not certain.

    Args:
        sources: Files of the project.
        place: The line.
        parameter: Parameter of the layer that holds the size, such as `in_features`.
        size: Value of the parameter in the failed run; None if it is not known.
        others: Other files in which callers are looked up.
        marked: Part of the line that failed; empty if the trace does not mark it.
    """
    tree = sources.tree(place.path)
    if tree is None:
        return None
    search = _LayerSearch(sources, place.path, parameter, others)
    found = [
        layer
        for name, call in _called(tree, place.line, marked)
        for created in _creations(tree, name, place.line)
        if (layer := search.layer(name, call, created)) is not None
    ]
    unique = list({(each.place, each.creation): each for each in found}.values())
    fitting = [each for each in unique if size is not None and each.origin.value == size]
    unknown = [each for each in unique if each.origin.value is None]
    for group in (fitting, unknown if not fitting else [], unique if size is None else []):
        if len(group) == 1:
            return group[0]
    return None


def size_change(layer: CalledLayer, size: str, wanted: str) -> str:
    """Return the change that gives a layer another input size, as a clause that begins in lower case.

    Args:
        layer: The layer.
        size: Its size in the failed run.
        wanted: The size of its input.
    """
    origin = layer.origin
    if origin.value is None:
        by = f"`{origin.parameter}`, which the caller passes" if origin.parameter else f"`{origin.text}`"
        return f"the size at {layer.place} comes from {by}: it is {size} in this run and has to be {wanted}"
    if origin.is_default:
        return (
            f"pass `{origin.parameter}={wanted}` at {origin.place} (`{origin.text}`); "
            f"the default at {origin.default_place} is {size}"
        )
    if origin.parameter:
        return f"pass {wanted} as `{origin.parameter}` at {origin.place} instead of {origin.text}"
    old = size if origin.text == size else f"`{origin.text}`"
    return f"write {wanted} instead of {old} at {origin.place}"


def _called(tree: ast.Module, line: int, marked: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield the names called in the statement at a line that may be layers, with the calls."""
    failed = marked_node(tree, line, marked)
    function = enclosing_function(tree, line)
    # A marked call failed itself; its arguments were computed before.
    for node in [failed] if isinstance(failed, ast.Call) else ast.walk(statement_at(tree, line)):
        if not isinstance(node, ast.Call):
            continue
        target: ast.expr = node.func
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute) and is_self(target.value):
            yield f"self.{target.attr}", node
        elif isinstance(target, ast.Name):
            yield _looped_attribute(function or tree, target.id) or target.id, node


def _looped_attribute(function: ast.AST, name: str) -> str:
    """Return the attribute of self whose elements a loop variable holds; empty if there is none."""
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.comprehension):
            bound = {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
            if name in bound:
                for each in ast.walk(node.iter):
                    if isinstance(each, ast.Attribute) and is_self(each.value):
                        return f"self.{each.attr}"
    return ""


def _creations(tree: ast.Module, name: str, line: int) -> Iterator[_CreatedLayer]:
    """Yield the calls that create layers inside of the values assigned to a name."""
    owner = enclosing_class(tree, line) if name.startswith("self.") else None
    scope: ast.AST = owner or enclosing_function(tree, line) or tree
    values = list(assigned_values(scope, name)) or (list(assigned_values(tree, name)) if owner is None else [])
    for value in values:
        for node in ast.walk(value):
            if isinstance(node, ast.Call):
                yield _CreatedLayer(node, enclosing_function(tree, node.lineno), owner, node is value)


@dataclass(frozen=True, slots=True)
class _LayerSearch:
    """Files that are searched and the parameter that is looked for."""

    sources: ProjectSources
    path: str
    parameter: str
    others: tuple[str, ...]

    def layer(self, name: str, call: ast.Call, created: _CreatedLayer) -> CalledLayer | None:
        """Return the layer if the call creates one with the parameter; None otherwise."""
        kind = ast.unparse(created.call.func).rpartition(".")[2]
        expression = argument_of(created.call, 0, self.parameter)
        if SIZE_PARAMETERS.get(kind) != self.parameter or expression is None:
            return None
        place = Location(self.path, created.call.lineno)
        origin = _OriginFinder(self.sources, self.path, created, (self.path, *self.others)).origin(expression, place)
        if origin.parameter and _is_shared(created.function, origin.parameter):
            # Another value of the parameter would change other layers too.
            origin = SizeOrigin(origin.value, ast.unparse(expression), place)
        argument = ast.unparse(call.args[0]) if call.args and created.is_called_itself else _NESTED
        return CalledLayer(name, argument, ast.unparse(created.call), place, origin)


def argument_of(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """Return the argument of a call by position or name; None if it is not passed or is not certain."""
    if any(isinstance(arg, ast.Starred) for arg in call.args[: position + 1]):
        return None
    if position < len(call.args):
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


class _OriginFinder:
    """Finds the value of a size and the line that decides it."""

    def __init__(self, sources: ProjectSources, path: str, created: _CreatedLayer, paths: tuple[str, ...]) -> None:
        self._sources = sources
        self._path = path
        self._created = created
        self._paths = tuple(dict.fromkeys(paths))

    def origin(self, expression: ast.expr, place: Location, depth: int = 0) -> SizeOrigin:
        """Return the origin of an expression in the function that creates the layer."""
        text = ast.unparse(expression)
        function = self._created.function
        if depth < _MOST_DEPTH:
            if isinstance(expression, ast.Name):
                if function is not None and expression.id in parameters_of(function):
                    return self._from_parameter(expression.id, place)
                return self._from_assignment(text, place, depth)
            if isinstance(expression, ast.Attribute) and is_self(expression.value):
                return self._from_assignment(text, place, depth)
            if isinstance(expression, ast.Attribute):
                return self._from_class_attribute(expression.attr, text, place)
        return SizeOrigin(self._number(expression, depth), text, place)

    def _number(self, expression: ast.expr, depth: int) -> int | None:
        if isinstance(expression, ast.Constant):
            return expression.value if type(expression.value) is int else None
        if isinstance(expression, ast.BinOp) and (apply := _OPERATORS.get(type(expression.op))):
            left, right = self._number(expression.left, depth + 1), self._number(expression.right, depth + 1)
            if left is None or right is None or (right == 0 and isinstance(expression.op, ast.FloorDiv)):
                return None
            result = int(apply(left, right))
            return result if abs(result) < _LARGEST else None
        if isinstance(expression, ast.Name | ast.Attribute) and depth < _MOST_DEPTH:
            return self.origin(expression, Location(self._path, expression.lineno), depth + 1).value
        return None

    def _from_assignment(self, name: str, place: Location, depth: int) -> SizeOrigin:
        """Return the origin of a name or an attribute of self that is assigned once."""
        tree = self._sources.tree(self._path) or ast.Module([], [])
        scopes = [each for each in (self._created.owner, self._created.function, tree) if each is not None]
        for scope in scopes:
            values = list(assigned_values(scope, name))
            if len(values) == 1:
                return self.origin(values[0], Location(self._path, values[0].lineno), depth + 1)
            if values:
                break
        return SizeOrigin(None, name, place)

    def _from_class_attribute(self, attribute: str, text: str, place: Location) -> SizeOrigin:
        """Return the origin of an attribute of a configuration class, if one class of these files defines it."""
        found = [
            (path, statement)
            for path in self._paths
            for node in ast.walk(self._sources.tree(path) or ast.Module([], []))
            if isinstance(node, ast.ClassDef)
            for statement in node.body
            if isinstance(statement, ast.Assign | ast.AnnAssign)
            and any(isinstance(target, ast.Name) and target.id == attribute for target in _targets(statement))
        ]
        if len(found) == 1 and isinstance(value := found[0][1].value, ast.Constant) and isinstance(value.value, int):
            return SizeOrigin(int(value.value), ast.unparse(value), Location(found[0][0], found[0][1].lineno))
        return SizeOrigin(None, text, place)

    def _from_parameter(self, name: str, place: Location) -> SizeOrigin:
        """Return the origin of a parameter: what the only caller passes, else the default."""
        function, owner = self._created.function, self._created.owner
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            return SizeOrigin(None, name, place)
        is_constructor = owner is not None and function.name == "__init__"
        callee = owner.name if owner is not None and is_constructor else function.name
        names = parameters_of(function)
        position = names.index(name) - (1 if owner is not None else 0)
        calls = [
            (path, node)
            for path in self._paths
            for node in ast.walk(self._sources.tree(path) or ast.Module([], []))
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == callee
        ]
        default = parameter_default(function, name)
        if len(calls) == 1 and (is_constructor or owner is None):
            path, call = calls[0]
            passed = argument_of(call, position, name)
            where = Location(path, call.lineno)
            if passed is not None:
                value = passed.value if isinstance(passed, ast.Constant) and type(passed.value) is int else None
                return SizeOrigin(value, ast.unparse(passed), where, parameter=name)
            if isinstance(default, ast.Constant) and type(default.value) is int and not _passes_unknown(call):
                at = Location(self._path, default.lineno)
                return SizeOrigin(
                    default.value, ast.unparse(call), where, parameter=name, is_default=True, default_place=at
                )
        return SizeOrigin(None, name, place, parameter=name)


def _is_shared(function: ast.AST | None, parameter: str) -> bool:
    """Return whether more than one layer of a function gets a parameter."""
    calls = (node for node in ast.walk(function or ast.Module([], [])) if isinstance(node, ast.Call))
    arguments = [each for call in calls for each in (*call.args, *(keyword.value for keyword in call.keywords))]
    uses = [each for argument in arguments for each in ast.walk(argument) if isinstance(each, ast.Name)]
    return len({id(each) for each in uses if each.id == parameter}) > 1


def _passes_unknown(call: ast.Call) -> bool:
    return any(isinstance(arg, ast.Starred) for arg in call.args) or any(
        keyword.arg is None for keyword in call.keywords
    )


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]
