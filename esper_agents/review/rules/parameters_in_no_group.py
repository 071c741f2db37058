"""ESP296: parameters that match no group of an optimizer are left out of it."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

# Parameters that nearly every model has: their names and numbers of axes, and how people call them.
_USUAL = {
    ("layers.0.linear.weight", 2): "the weights of linear layers",
    ("layers.0.linear.bias", 1): "the biases of linear layers",
    ("layers.0.norm.weight", 1): "the weights of norms, which have one axis",
    ("layers.0.norm.bias", 1): "the biases of norms",
}
_PAIR = 2
_ORDERS = {ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le}


class ParametersInNoGroup(FileRule):
    """A loop that sorts parameters into one group with weight decay and one without, and drops some of them.

    ## Why it costs
    What matches no arm of the `if` is in no group: the optimizer never changes it. It still gets gradients, and it
    counts as trainable in every summary. Typical are the weights of norms, which are neither matrices nor biases.

    ## When it is right
    An `else` takes the rest, or the function asserts that nothing is left over. Groups that choose what to train are
    not reported: only those that differ in weight decay, and only if every test can be worked out for usual parameters.

    ## Sources
    PyTorch documentation of `torch.optim`, "Per-parameter options": only the parameters given are optimised.
    """

    code, name = "ESP296", "parameters-in-no-group"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def make(model):\n"
        "    decay, rest = [], []\n"
        "    for name, p in model.named_parameters():\n"
        "        if p.ndim > 1 and name.endswith('weight'):\n"
        "            decay.append(p)\n"
        "        elif name.endswith('bias'):\n"
        "            rest.append(p)\n"
        "    groups = [{'params': decay, 'weight_decay': 0.1}, {'params': rest, 'weight_decay': 0.0}]\n"
        "    return torch.optim.AdamW(groups)\n"
    )
    good = bad.replace("        elif name.endswith('bias'):\n", "        else:\n")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the loops that drop usual parameters."""
        for function in file.functions:
            loops = [each.node for each in function.blocks if isinstance(each.node, ast.For)]
            loops = [each for each in loops if tail_of(dotted(each.iter).removesuffix("()")) == "named_parameters"]
            if not loops or not _splits_by_decay(function) or _is_checked(function):
                continue
            for loop in dict.fromkeys(loops):
                dropped = [what for usual, what in _USUAL.items() if _Sorting(loop, *usual).drops()]
                if 0 < len(dropped) < len(_USUAL):
                    tests = [each for each in loop.body if isinstance(each, ast.If)]
                    yield self.hit(
                        tests[-1] if tests else loop,
                        f"{' and '.join(dropped)} match no arm here: they are in no group, and are never trained",
                        remedy="let an `else` take all that is left",
                        confidence=Confidence.HIGH,
                        basis=SEEN,
                    )


def _splits_by_decay(function: Function) -> bool:
    """Return whether a function makes groups of parameters, of which one has no weight decay and another has some."""
    groups = [
        {key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)}
        for node in walk(function.node)
        if isinstance(node, ast.Dict)
    ]
    decays = [group.get("weight_decay") for group in groups if "params" in group]
    return len(decays) == _PAIR and any(isinstance(each, ast.Constant) and each.value == 0 for each in decays)


def _is_checked(function: Function) -> bool:
    return any(isinstance(each, ast.Assert | ast.Raise) for each in walk(function.node))


class _UnknownError(Exception):
    """A loop does something that cannot be worked out."""


class _Sorting:
    """What a loop over parameters does with one of them."""

    def __init__(self, loop: ast.For, name: str, axes: int) -> None:
        target = loop.target
        parts = target.elts if isinstance(target, ast.Tuple) and len(target.elts) == _PAIR else []
        self._names = [each.id for each in parts if isinstance(each, ast.Name)]
        self._loop, self._name, self._axes = loop, name, axes

    def drops(self) -> bool:
        """Return whether a parameter is surely put nowhere."""
        if len(self._names) != _PAIR:
            return False
        try:
            return self._run(self._loop.body) is not True
        except _UnknownError:
            return False

    def _run(self, body: list[ast.stmt]) -> bool | None:
        """Return True as soon as a parameter is put somewhere, False where its round ends without."""
        for statement in body:
            match statement:
                case ast.If(test=test, body=arm, orelse=orelse):
                    found = self._run(arm if self._value(test) else orelse)
                    if found is not None:
                        return found
                case ast.Continue():
                    return False
                case ast.Expr(value=ast.Constant()) | ast.Pass():
                    pass
                case ast.Expr(value=ast.Call(args=args)) if self._is_given(args):
                    return True
                case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
                    pass
                case ast.AugAssign() | ast.Assign() if self._is_given([statement.value]):
                    return True
                case _:
                    raise _UnknownError
        return None

    def _is_given(self, values: list[ast.expr]) -> bool:
        read = {each.id for value in values for each in walk(value) if isinstance(each, ast.Name)}
        return bool(read & set(self._names))

    def _value(self, node: ast.expr) -> object:  # noqa: C901, PLR0911 - one case for each kind of test
        """Return what an expression is for this parameter."""
        name, parameter = self._names
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=read) if read == name:
                return self._name
            case ast.Attribute(value=ast.Name(id=read), attr="requires_grad" | "ndim" as attr) if read == parameter:
                return True if attr == "requires_grad" else self._axes
            case ast.Attribute(value=ast.Name(id=read), attr="shape") if read == parameter:
                return (8,) * self._axes
            case ast.Call(func=ast.Attribute(value=ast.Name(id=read), attr="dim"), args=[]) if read == parameter:
                return self._axes
            case ast.Call(func=ast.Name(id="len"), args=[ast.Attribute(attr="shape") as shape]):
                return len(self._value(shape))  # type: ignore[arg-type]
            case ast.Call(func=ast.Attribute(value=part, attr="endswith" | "startswith" as how), args=[end]):
                return _ends(self._value(part), self._value(end), how)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                return tuple(self._value(each) for each in parts)
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return not self._value(part)
            case ast.BoolOp(op=op, values=parts):
                found = [bool(self._value(each)) for each in parts]
                return all(found) if isinstance(op, ast.And) else any(found)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _compared(self._value(left), op, self._value(right))
            case _:
                raise _UnknownError


def _ends(text: object, end: object, how: str) -> bool:
    is_plain = isinstance(end, str) or (isinstance(end, tuple) and all(isinstance(each, str) for each in end))
    if not isinstance(text, str) or not is_plain:
        raise _UnknownError
    return text.endswith(end) if how == "endswith" else text.startswith(end)  # type: ignore[arg-type]


def _compared(left: object, op: ast.cmpop, right: object) -> bool:
    """Return what a comparison of numbers, or of a name with text, gives."""
    if isinstance(op, ast.Eq | ast.NotEq):
        return (left == right) is isinstance(op, ast.Eq)
    if isinstance(op, ast.In | ast.NotIn) and isinstance(left, str) and isinstance(right, str | tuple):
        return (left in right) is isinstance(op, ast.In)
    if type(op) not in _ORDERS or not isinstance(left, int) or not isinstance(right, int):
        raise _UnknownError
    return bool(_ORDERS[type(op)](left, right))
