"""ESP136: an attribute is what an operation makes of a new parameter, and no parameter."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables

_PARAMETER = "torch.nn.Parameter"
# Methods that return the parameter itself.
_ITSELF = frozenset({"requires_grad_", "detach_", "share_memory_"})


class ParameterLostInExpression(Rule):
    """`self.scale = nn.Parameter(...) * 0.1`, or with `.to(device)` behind it: the attribute is a plain tensor.

    ## Why it costs
    An operation on a parameter returns a new tensor, which the module does not register. The parameter itself is
    dropped: no optimizer gets it, `state_dict()` does not hold it, and `.to(device)` does not move the tensor.
    Nothing raises where the module stays on one device.

    ## When it is right
    The operation is done on the values inside: `nn.Parameter(0.1 * torch.ones(3))`. The module is moved as a whole.
    Methods with an underscore return the parameter itself and are not reported.

    ## Sources
    PyTorch documentation of `torch.nn.Parameter`: parameters are registered when they are assigned as attributes.
    """

    code, name = "ESP136", "parameter-lost-in-expression"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Scale(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.scale = nn.Parameter(torch.ones(3)) * 0.1\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.scale * x\n"
    )
    good = bad.replace("nn.Parameter(torch.ones(3)) * 0.1", "nn.Parameter(0.1 * torch.ones(3))")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the attributes that are made by an operation on a new parameter."""
        for owner in file.classes:
            if not index.is_module(owner):
                continue
            for path, assignments in owner.attributes.items():
                if path.startswith("self.") and path.count(".") == 1:
                    yield from (self._lost(path, each) for each in assignments if _is_lost(each))

    def _lost(self, path: str, found: Assignment) -> RuleMatch:
        return self.hit(
            found.statement,
            f"{path!r} is a tensor that an operation makes of a parameter: the module does not register it, and "
            "nothing trains or saves it",
            remedy="compute the values inside of `nn.Parameter(...)`, and move the whole module",
            basis=SEEN,
        )


def _is_lost(found: Assignment) -> bool:
    if found.is_unpacked or found.is_augmented:
        return False
    match found.value:
        case ast.BinOp(left=left, right=right):
            return any(_is_parameter(each, found) for each in (left, right))
        case ast.UnaryOp(operand=operand):
            return _is_parameter(operand, found)
        case ast.Call(func=ast.Attribute(value=inner, attr=tail)):
            return tail not in _ITSELF and not tail.endswith("_") and _is_parameter(inner, found)
        case _:
            return False


def _is_parameter(value: ast.expr, found: Assignment) -> bool:
    if not isinstance(value, ast.Call):
        return False
    name = resolve(dotted(value.func), found.block.function)
    return name in {_PARAMETER, "torch.nn.parameter.Parameter"}
