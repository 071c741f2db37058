"""Facts about tensors that code creates without the device or the dtype that the others have."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.dataflow import assignments, loaded_names, names_behind, tensor_names
from esper_agents.traces.facts import TraceFact, fact
from esper_agents.traces.scopes import bound_names, enclosing_class, enclosing_function, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.locate import LocatedFrame

_FLOATS = frozenset({"zeros", "ones", "full", "empty", "linspace", "eye", "rand", "randn"})
_FACTORIES = _FLOATS | {"arange", "randint", "tensor", "from_numpy"}
# Methods by which a tensor gets another device or dtype.
_CONVERTING = {
    "device": frozenset({"to", "cuda", "type_as"}),
    "dtype": frozenset({"to", "type", "type_as", "half", "bfloat16", "double", "long", "int", "bool"}),
}
_POSITION_OF_VALUE = 1


@fact
def tensor_without_device(context: FactContext) -> TraceFact | None:
    """Return a tensor that is created on the default device and used in the line of a frame."""
    return next((found for frame in context.frames if (found := _created(context, frame, "device"))), None)


@fact
def tensor_without_dtype(context: FactContext) -> TraceFact | None:
    """Return a tensor that is created in the default dtype and used in the line of a frame, if there is only one."""
    return next((found for frame in context.frames if (found := _created(context, frame, "dtype"))), None)


def _created(context: FactContext, frame: LocatedFrame, option: str) -> TraceFact | None:
    tree = context.sources.tree(frame.location.path) if context.sources else None
    if tree is None:
        return None
    line = frame.location.line
    found = list(_creations(tree, line, option))
    # What goes into a line by way of other names need not be what the message is about.
    direct = [call for call, is_direct in found if is_direct]
    calls = direct or [call for call, _ in found]
    if not calls or (not direct and len(calls) > 1):
        return None
    call = calls[0]
    place = Location(frame.location.path, call.lineno)
    change = _change(tree, call, line, option)
    return TraceFact({"created": ast.unparse(call), "created_at": str(place), "change": change}, place)


def _creations(tree: ast.Module, line: int, option: str) -> Iterator[tuple[ast.Call, bool]]:
    """Yield the creations that go into a line without an option, and whether they do so by at most one name."""
    function, statement = enclosing_function(tree, line) or tree, statement_at(tree, line)
    used = loaded_names(statement)
    behind = names_behind(function, statement)
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or node.lineno > line:
            continue
        own = statement_at(tree, node.lineno)
        stored = {name for names, _, _ in assignments(own) for name in names}
        is_direct = own is statement or bool(stored & used)
        if not is_direct and not stored & behind:
            continue
        if _lacks(node, function, option):
            yield node, is_direct
        elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "self":
            yield from ((each, is_direct) for each in _returned(tree, line, node.func.attr, option))


def _returned(tree: ast.Module, line: int, method: str, option: str) -> Iterator[ast.Call]:
    """Yield the creations that a method of the class around a line returns."""
    owner = enclosing_class(tree, line)
    for each in owner.body if owner is not None else ():
        if isinstance(each, ast.FunctionDef) and each.name == method:
            for statement in ast.walk(each):
                value = statement.value if isinstance(statement, ast.Return) else None
                parts = value.elts if isinstance(value, ast.Tuple) else [value]
                yield from (part for part in parts if isinstance(part, ast.Call) and _lacks(part, each, option))


def _lacks(call: ast.Call, function: ast.AST, option: str) -> bool:
    """Return whether a call creates a tensor without an option, which is not converted at once."""
    if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) != "torch":
        return False
    if call.func.attr not in (_FACTORIES if option == "device" else _FLOATS):
        return False
    if option == "dtype" and call.func.attr == "full" and not _is_float(call):
        return False
    is_converted = any(
        isinstance(node, ast.Attribute) and node.attr in _CONVERTING[option] and node.value is call
        for node in ast.walk(function)
    )
    return not is_converted and not any(keyword.arg == option for keyword in call.keywords)


def _is_float(call: ast.Call) -> bool:
    value = call.args[_POSITION_OF_VALUE] if len(call.args) > _POSITION_OF_VALUE else None
    return isinstance(value, ast.Constant) and isinstance(value.value, float)


def _change(tree: ast.Module, call: ast.Call, line: int, option: str) -> str:
    """Return the change that creates a tensor like another one that its function knows, if there is one."""
    function = enclosing_function(tree, call.lineno) or tree
    is_here = function is (enclosing_function(tree, line) or tree)
    stored = {name for names, _, _ in assignments(statement_at(tree, call.lineno)) for name in names}
    known = bound_names(tree, line if is_here else call.lineno)
    names = [
        tensor_name for tensor_name in tensor_names(function, known) if tensor_name not in stored | loaded_names(call)
    ]
    in_line = [each for each in names if each in loaded_names(statement_at(tree, line))]
    other = next(iter([*in_line, *names]), "")
    owner = enclosing_class(tree, call.lineno)
    if not other and owner is not None and any(ast.unparse(base).endswith("Module") for base in owner.bases):
        other = "next(self.parameters())"
    if not other:
        return f"create it with the `{option}=` of the tensors that it is combined with"
    if isinstance(call.func, ast.Attribute) and call.func.attr == "from_numpy":
        return f"write `{ast.unparse(call)}.to({other}.{option})`"
    arguments = [*map(ast.unparse, call.args), *(ast.unparse(keyword) for keyword in call.keywords)]
    return f"write `{ast.unparse(call.func)}({', '.join([*arguments, f'{option}={other}.{option}'])})`"
