"""ESP140: the mean of a comparison, whose booleans torch does not average."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.tensor_kinds import Tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_AVERAGING = frozenset({"mean", "std", "var", "softmax", "norm"})
# Methods of tensors alone; arrays have `argmax`, too, but take no `dim` and no axis after a model.
_MAKING = frozenset({"torch.argmax", "torch.max", "torch.round", "torch.sign", "torch.eq", "torch.where"})


class MeanOfBooleans(Rule):
    """`(prediction == target).mean()` of tensors, which raises.

    ## Why it costs
    `mean` of booleans or integers raises "could not infer output dtype": unlike NumPy, torch does not convert them.
    It is met in the first evaluation, often after a whole epoch of training.

    ## When it is right
    `(prediction == target).float().mean()`. Arrays of NumPy average booleans and are not reported.

    ## Sources
    PyTorch documentation of `torch.mean`: the input must be of a floating point or complex type.
    """

    code, name = "ESP140", "mean-of-booleans"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def accuracy(model, x, y):\n"
        "    prediction = torch.argmax(model(x), dim=1)\n"
        "    return (prediction == y).mean().item()\n"
    )
    good = bad.replace(".mean()", ".float().mean()")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the means of comparisons of tensors."""
        for call in file.calls_ending(*sorted(_AVERAGING)):
            compared = _compared(call)
            if compared is not None and any(_is_tensor(each, call, index) for each in compared):
                yield self.hit(
                    call.node,
                    f"this is the {call.tail} of booleans, which torch does not compute: it raises",
                    remedy=f"write `.float().{call.tail}()`",
                    basis=SEEN,
                )


def _compared(call: Call) -> tuple[ast.expr, ast.expr] | None:
    """Return the two sides of a comparison whose mean is taken; None if the type of the result is given."""
    if any(each.arg == "dtype" for each in call.node.keywords) or not isinstance(call.node.func, ast.Attribute):
        return None
    value = call.node.func.value
    if call.name.startswith("torch.") and call.node.args:
        value = call.node.args[0]
    match value:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() | ast.Lt() | ast.Gt()], comparators=[right]):
            return left, right
        case ast.Call(func=ast.Attribute(value=left, attr="eq"), args=[right]):
            return left, right
        case _:
            return None


def _is_tensor(value: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether a value surely is a tensor: made by a function of torch, by `argmax` with `dim`, or by a model."""
    origins = index.origins(value, call.function, call.line)
    names = [resolve(dotted(each.value), each.function) for each in origins]
    if any(each.startswith(("numpy.", "sklearn.")) or each.endswith(".numpy()") for each in names):
        return False
    if Tensors(call.function, call.line, index).holds(value):
        return True
    return bool(origins) and all(
        isinstance(each.value, ast.Call) and _makes_tensor(each.value, resolve(dotted(each.value.func), each.function))
        for each in origins
    )


def _makes_tensor(value: ast.Call, name: str) -> bool:
    if name in _MAKING:
        return True
    is_method = isinstance(value.func, ast.Attribute) and value.func.attr in {"argmax", "argmin", "long"}
    return is_method and not name.startswith(("np.", "numpy.")) and any(each.arg == "dim" for each in value.keywords)
