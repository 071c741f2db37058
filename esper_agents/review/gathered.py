"""What is put into a list or a dict, and whether it carries a graph with it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, root_of, tail_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from esper_agents.review.blocks import Block
    from esper_agents.review.tables import Function

_STEPS = 8
# What gives back a tensor on the same graph.
_KEEPING = frozenset(
    {
        "abs",
        "add",
        "chunk",
        "clone",
        "contiguous",
        "cpu",
        "cuda",
        "div",
        "double",
        "exp",
        "flatten",
        "float",
        "half",
        "log",
    }
    | {"log_softmax", "max", "mean", "min", "mul", "norm", "normalize", "permute", "pow", "relu", "reshape", "sigmoid"}
    | {"softmax", "split", "square", "squeeze", "sub", "sum", "tanh", "to", "transpose", "unsqueeze", "view"}
    | {"masked_fill", "leaky_relu", "gelu", "silu", "elu", "dropout", "clamp", "sqrt", "matmul", "bmm", "cumsum"}
)
# What lets go of the graph.
_LETTING_GO = frozenset(
    {"detach", "detach_", "item", "numpy", "tolist", "argmax", "long", "int", "bool", "size", "float16"}
)
_OUTPUTS = frozenset({"logits", "last_hidden_state", "hidden_states", "pooler_output", "attentions"})
_NO_TENSORS = frozenset({"data", "shape", "dtype", "device", "ndim"})


@dataclass(frozen=True, slots=True)
class Put:
    """Something that is put into a store.

    Attributes:
        node: What does it.
        store: The store, as written.
        value: What is put in.
        block: Where.
        line: The line; names mean what they mean above it.
    """

    node: ast.AST
    store: str
    value: ast.expr
    block: Block
    line: int

    @property
    def function(self) -> Function:
        """The function in which it happens."""
        return self.block.function

    @property
    def is_own(self) -> bool:
        """Whether the store is an attribute of the object whose method it is."""
        return self.store.startswith("self.") and self.store.count(".") == 1

    def is_made_by(self, calls: Collection[ast.AST]) -> bool:
        """Return whether what is put in is the result of one of these calls, brought into another shape at most."""
        value = self.value
        while value not in calls and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if value.func.attr not in _KEEPING:
                return False
            value = _shaped(value, value.func.value, self.function)
        return value in calls

    def keeps(self, names: frozenset[str]) -> bool:
        """Return whether what is put in surely carries the graph of one of these names."""
        return _keeps(self.value, self.function, self.line, names)


def _keeps(value: ast.expr, function: Function, line: int, names: frozenset[str], steps: int = _STEPS) -> bool:
    """Return whether a value surely carries the graph of one of these names."""
    match value:
        case ast.Name():
            return _named(value, function, line, names, steps)
        case ast.Attribute():
            is_output = value.attr in _OUTPUTS and dotted(value.value) in names
            return value.attr not in _NO_TENSORS and (is_output or _named(value, function, line, names, steps))
        case ast.Call(func=ast.Attribute(value=receiver, attr=name)) if name in _KEEPING:
            return _keeps(_shaped(value, receiver, function), function, line, names, steps)
        case _:
            return any(_keeps(part, function, line, names, steps) for part in _parts(value))


def _shaped(call: ast.Call, receiver: ast.expr, function: Function) -> ast.expr:
    """Return the tensor that a call changes: `x` of `x.float()` and of `F.normalize(x)`."""
    of_torch = root_of(dotted(receiver)) in {*function.file.imports, "F", "torch"}
    return call.args[0] if of_torch and call.args else receiver


def _parts(value: ast.expr) -> list[ast.expr]:
    """Return the parts of an expression whose graphs it takes over."""
    parts: list[ast.expr] = []
    match value:
        case ast.Subscript():
            parts = [value.value]
        case ast.Tuple() | ast.List():
            parts = value.elts
        case ast.Dict():
            parts = value.values
        case ast.BinOp():
            parts = [value.left, value.right]
        case _:
            pass
    return parts


def _named(value: ast.Name | ast.Attribute, function: Function, line: int, names: frozenset[str], steps: int) -> bool:
    path = dotted(value)
    last = function.last_assignment(path, line)
    if last is None or last.is_unpacked or last.is_augmented or not steps:
        return path in names
    made = last.value
    if isinstance(made, ast.Call) and path in names:
        return tail_of(dotted(made.func)) not in _LETTING_GO
    return _keeps(made, function, last.line, names, steps - 1)
