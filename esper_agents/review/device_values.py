"""Which expressions surely are tensors that a training step made, and so wait for the device when they are read."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, root_of, tail_of
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Function

_STEPS = 6
_LOSS = pattern(
    r"(?:self\.)?(?:\w*(?:criterion|loss_fn|loss_func|loss_function|lossfn|objective)|loss|\w+_loss|\w+Loss)"
)
# Functions of torch and methods of tensors that give back tensors where their arguments are.
_MATH = frozenset(
    {"abs", "absolute", "acos", "add", "addmm", "all", "amax", "amin", "any", "argmax", "argmin", "argsort", "bmm"}
    | {"ceil", "clamp", "clip", "clone", "contiguous", "cos", "count_nonzero", "cumsum", "detach", "diff", "dist"}
    | {"div", "dot", "double", "einsum", "eq", "exp", "expand", "flatten", "float", "floor", "ge", "gt", "half", "int"}
    | {"isfinite", "isinf", "isnan", "le", "log", "log1p", "log_softmax", "long", "lt", "masked_fill", "matmul", "max"}
    | {"maximum", "mean", "median", "min", "minimum", "mm", "mul", "multiply", "ne", "neg", "norm", "permute", "pow"}
    | {"prod", "relu", "reshape", "round", "sigmoid", "sign", "sin", "softmax", "sqrt", "square", "squeeze", "std"}
    | {"sub", "subtract", "sum", "tanh", "topk", "transpose", "unsqueeze", "var", "view", "vector_norm", "where"}
    | {"cuda", "logsumexp", "rsqrt", "sort", "stack", "cat", "concat", "mse_loss", "cross_entropy"}
)
_NORMS = frozenset({"clip_grad_norm_", "clip_grad_norm", "get_total_norm"})
_METADATA = frozenset({"shape", "dtype", "device", "ndim", "requires_grad", "is_cuda", "names", "layout", "grad_fn"})
_IDENTITY = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_FETCHED = frozenset({"item", "tolist", "numpy", "cpu"})


class DeviceValues:
    """What a function's expressions hold, as far as its assignments show it.

    Attributes:
        function: The function.
        losses: Paths that are sent backward, and what else is known to be a tensor on the device.
    """

    def __init__(self, function: Function, losses: frozenset[str], index: ProjectIndex) -> None:
        self.function = function
        self.losses = losses
        self._index = index

    def holds(self, value: ast.expr, line: int, steps: int = _STEPS) -> bool:
        """Return whether an expression on a line surely is a tensor on the device."""
        match value:
            case ast.Name() | ast.Attribute():
                return self._held(value, line, steps)
            case ast.Call():
                return self._made(value, line, steps)
            case ast.IfExp():
                return self.holds(value.body, line, steps) and self.holds(value.orelse, line, steps)
            case _:
                return any(self.holds(operand, line, steps) for operand in _operands(value))

    def _held(self, value: ast.Name | ast.Attribute, line: int, steps: int) -> bool:
        path = dotted(value)
        last = self.function.last_assignment(path, line)
        if isinstance(value, ast.Attribute) and (value.attr in _METADATA or (last is None and path not in self.losses)):
            return (
                value.attr in {"data", "grad", "T", "mT"} and bool(steps) and self.holds(value.value, line, steps - 1)
            )
        if last is None or last.is_augmented or last.is_unpacked or not steps:
            return path in self.losses
        if _is_fetch(last.value):
            return False
        return path in self.losses or self.holds(last.value, last.line, steps - 1)

    def _made(self, value: ast.Call, line: int, steps: int) -> bool:
        path = dotted(value.func)
        name, tail = resolve(path, self.function), tail_of(path)
        if name.startswith("torch.nn.functional.") or tail in _NORMS:
            return True
        if name.startswith("torch."):
            return tail in _MATH and any(self.holds(part, line, steps) for part in _parts(value))
        if tail in _MATH and isinstance(value.func, ast.Attribute):
            return self.holds(value.func.value, line, steps)
        if tail == "to" and isinstance(value.func, ast.Attribute):
            return "cpu" not in ast.unparse(value) and self.holds(value.func.value, line, steps)
        return bool(_LOSS.fullmatch(path)) and not self._is_own(path)

    def _is_own(self, path: str) -> bool:
        """Return whether a function of the file has that name, so that it may return anything."""
        name = tail_of(path)
        return name in self._index.functions or root_of(path) in self.function.file.imports


def _operands(value: ast.expr) -> list[ast.expr]:
    """Return the parts of an expression of which one that is a tensor makes the whole a tensor."""
    operands: list[ast.expr] = []
    match value:
        case ast.Subscript():
            operands = [value.value]
        case ast.BinOp():
            operands = [value.left, value.right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert()):
            operands = [value.operand]
        case ast.Compare() if not any(isinstance(op, _IDENTITY) for op in value.ops):
            operands = [value.left, *value.comparators]
        case _:
            pass
    return operands


def _parts(call: ast.Call) -> list[ast.expr]:
    parts: list[ast.expr] = []
    for arg in call.args:
        parts += arg.elts if isinstance(arg, ast.List | ast.Tuple) else [arg]
    return parts


def _is_fetch(value: ast.expr) -> bool:
    """Return whether a value was brought to the host: `loss.item()`, `float(loss)`, `x.cpu()`."""
    if not isinstance(value, ast.Call):
        return False
    return tail_of(dotted(value.func)) in _FETCHED or dotted(value.func) in {"float", "int", "bool", "round", "str"}
