"""Whether the code under review runs on a GPU, and what of it is moved there."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.index import argument_for, resolve
from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, Class, Function

_GPU = pattern(r"""["']cuda(?::\d+)?["']|\.cuda\(|\btorch\.cuda\.is_available\(|\baccelerator\s*=\s*["']gpu["']""")

# Layers that hold parameters, so that what goes in must be where they are.
_WITH_PARAMETERS = pattern(
    r"torch\.nn\.((?:Lazy)?(?:Linear|Bilinear|Conv\w+|BatchNorm\w+)|LayerNorm|GroupNorm|Embedding(?:Bag)?|LSTM|GRU|RNN"
    r"|(?:LSTM|GRU|RNN)Cell|MultiheadAttention|Transformer\w*|PReLU|RMSNorm)"
)
_NAMES_DEVICE = pattern(r"\.to\(|cuda|device|gpu|accelerat|Trainer", re.IGNORECASE)
_NAMED = pattern(r"(?:model|net|_net)$|^net[A-Z]$", re.IGNORECASE)


def uses_gpu(index: ProjectIndex) -> bool:
    """Return whether some file that is no test or benchmark puts something on a CUDA device, or asks for one."""
    return index.once(
        "uses a gpu",
        lambda: any(
            file.purpose in {Purpose.CODE, Purpose.EXAMPLE} and _GPU.search(file.text) is not None
            for file in index.files.values()
        ),
    )


def moves(function: Function, index: ProjectIndex) -> tuple[Call, ...]:
    """Return the calls of a function that move something to a device."""
    return index.once(("moves", function), lambda: tuple(_find_moves(function)))


def _find_moves(function: Function) -> Iterator[Call]:
    for call in function.calls:
        told = [*call.node.args, *(keyword.value for keyword in call.node.keywords)] if call.tail == "to" else []
        text = " ".join(map(ast.unparse, told))
        if call.receiver and (call.tail == "cuda" or re.search(r"device|cuda|rank|gpu", text.lower())):
            yield call


def is_moved(model: ast.expr, function: Function, index: ProjectIndex, line: int, hops: int = 2) -> bool:
    """Return whether a module that a name holds was moved to a device: where it was made, or by a call of its own."""
    path = dotted(model)
    if hops and path in function.parameters and not function.assignments.get(path):
        handed = [(call, argument_for(call, function, path)) for call in index.callers(function)]
        if handed and all(
            value is not None and is_moved(value, call.function, index, call.line, hops - 1) for call, value in handed
        ):
            return True
    if any(call.receiver == path and isinstance(call.parent, ast.Expr) for call in moves(function, index)):
        return _is_module_like(model, function, index, line)
    origins = index.origins(model, function, line) if "(" not in path else ()
    is_named = _NAMED.search(path) is not None
    return bool(origins) and all(
        _moves_what_it_makes(origin.value, origin.function, index, origin.line, is_named=is_named) for origin in origins
    )


def _moves_what_it_makes(
    value: ast.expr, function: Function, index: ProjectIndex, line: int, *, is_named: bool
) -> bool:
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    if value.func.attr not in {"to", "cuda"}:
        return False
    if not any(call.node is value for call in moves(function, index)):
        return False
    if is_named and isinstance(value.func.value, ast.Call | ast.Name):
        return True
    inner = index.class_of(value.func.value, function, line)
    name = resolve(dotted(value.func.value), function)
    return (inner is not None and index.is_module(inner)) or (name.startswith("torch.nn.") and name.endswith("()"))


def _is_module_like(model: ast.expr, function: Function, index: ProjectIndex, line: int) -> bool:
    found = index.class_of(model, function, line)
    return (found is not None and index.is_module(found)) or _NAMED.search(dotted(model)) is not None


def made_by(value: ast.expr, function: Function) -> str:
    """Return the resolved path of what a value is made by calling; empty where it is no call."""
    return resolve(dotted(value.func), function) if isinstance(value, ast.Call) else ""


def holds_parameters(node: ast.Call, function: Function, index: ProjectIndex) -> bool:
    """Return whether a call runs a layer of torch that holds parameters: `self.embedding(...)`."""
    found = _made_as(dotted(node.func), function, index)
    return bool(found) and all(
        isinstance(each.value, ast.Call) and _is_made_with_parameters(each.value, each.block.function) for each in found
    )


def _made_as(path: str, function: Function, index: ProjectIndex) -> list[Assignment]:
    """Return what binds an attribute of the class that a function belongs to."""
    owner = owner_of(function)
    if owner is None or not path.startswith("self.") or path.count(".") != 1:
        return []
    return [each for one in index.lineage(owner).classes for each in one.attributes.get(path, ())]


def _is_made_with_parameters(value: ast.Call, function: Function) -> bool:
    if made_by(value, function) == "torch.nn.Sequential":
        return any(
            isinstance(arg, ast.Call) and _WITH_PARAMETERS.fullmatch(made_by(arg, function)) for arg in value.args[:1]
        )
    return _WITH_PARAMETERS.fullmatch(made_by(value, function)) is not None


def is_part(node: ast.Call, function: Function, index: ProjectIndex) -> bool:
    """Return whether a call runs a part of the module whose method it stands in: `self.encoder(x)`."""
    owner = owner_of(function)
    if owner is None or not index.is_module(owner) or index.method(owner, dotted(node.func).removeprefix("self.")):
        return False
    found = _made_as(dotted(node.func), function, index)
    return bool(found) and all(isinstance(each.value, ast.Call) and not each.is_augmented for each in found)


def stays_on_host(owner: Class, index: ProjectIndex) -> bool:
    """Return whether all code in sight that makes a model of a class never names a device; unknown makers may."""
    return index.once(("stays on the host", owner), lambda: _stays_on_host(owner, index))


def _stays_on_host(owner: Class, index: ProjectIndex) -> bool:
    owners = [owner]
    makers: list[Call] = []
    for each in owners:
        for call in index.calls_ending(each.name):
            holder = owner_of(call.function)
            if index.class_called(call.node, call.function) is not each:
                continue
            if holder is None or not index.is_module(holder):
                makers.append(call)
            elif holder not in owners:
                owners.append(holder)
    around = dict.fromkeys(each for maker in makers for each in _handled_by(maker, index))
    return bool(around) and not any(_NAMES_DEVICE.search(text) for text in map(_text_around, around))


def _handled_by(maker: Call, index: ProjectIndex, hops: int = 3) -> Iterator[Function]:
    """Yield the functions that hold what a call makes: its own, and those that it is handed back to."""
    function = maker.function
    yield function
    is_handed_back = any(
        each.value is not None and {dotted(part) for part in walk(each.value) if isinstance(part, ast.expr)} & names
        for names in [_names_of(maker)]
        for each, _ in function.returns
    )
    for call in index.callers(function) if hops and (is_handed_back or function.name == "__init__") else ():
        yield from _handled_by(call, index, hops - 1)


def _names_of(call: Call) -> set[str]:
    targets = call.statement.targets if isinstance(call.statement, ast.Assign) else []
    return {dotted(call.node), *(dotted(target) for target in targets if isinstance(target, ast.Name))}


def _text_around(function: Function) -> str:
    """Return the source of the class that a function belongs to, or else its own."""
    owner = owner_of(function)
    node = owner.node if owner is not None else function.node
    lines = function.file.lines
    return "\n".join(lines if isinstance(node, ast.Module) else lines[node.lineno - 1 : node.end_lineno])


def registered(owner: Class, index: ProjectIndex) -> frozenset[str]:
    """Return the names of the buffers and parameters that a class registers."""
    return index.once(
        ("registered", owner),
        lambda: frozenset(
            str(call.node.args[0].value)
            for cls in index.lineage(owner).classes
            for method in cls.methods.values()
            for call in method.calls
            if call.tail in {"register_buffer", "register_parameter"}
            and call.node.args
            and isinstance(call.node.args[0], ast.Constant)
        ),
    )


def moves_itself(owner: Class, index: ProjectIndex) -> bool:
    """Return whether a class moves its plain tensors along by a method of its own."""
    return any({"to", "_apply", "cuda", "__getattr__"} & cls.methods.keys() for cls in index.lineage(owner).classes)


def moved_attributes(index: ProjectIndex) -> frozenset[str]:
    """Return the names of attributes that some statement binds anew to where it moved them."""
    return index.once(
        "moved attributes",
        lambda: frozenset(
            target.attr
            for call in index.calls_ending("to", "cuda", "type_as")
            if isinstance(call.statement, ast.Assign)
            for target in call.statement.targets
            if isinstance(target, ast.Attribute)
        ),
    )
