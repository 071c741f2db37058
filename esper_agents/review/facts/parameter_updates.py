"""Updates of parameters one by one: kernel launches for each parameter at each step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, tail_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables, Function

_ARITHMETIC = frozenset(
    (
        "add",
        "sub",
        "mul",
        "div",
        "addcmul",
        "addcdiv",
        "lerp",
        "sqrt",
        "pow",
        "copy",
        "zero",
        "sign",
        "maximum",
        "clamp",
    )
)
_FEW = 4


class ParameterUpdates(FactQuery):
    """Loops over the parameters of an optimizer or of a moving average that launch kernels for each of them alone."""

    name = "parameter-updates"
    topics = ("speed", "idle device")
    claim = "every parameter is updated by kernels of its own"
    refutes = False
    category = Category.PERFORMANCE
    bad = (
        "import torch\n\n\nclass Momentum(torch.optim.Optimizer):\n    @torch.no_grad()\n    def step(self):\n"
        "        for group in self.param_groups:\n            for p in group['params']:\n"
        "                m = self.state[p]['m']\n                m.mul_(0.9).add_(p.grad)\n"
        "                p.mul_(0.99).add_(m, alpha=-group['lr'])\n"
    )
    good = (
        "import torch\n\n\nclass Momentum(torch.optim.Optimizer):\n    @torch.no_grad()\n    def step(self):\n"
        "        for group in self.param_groups:\n            torch._foreach_mul_(group['params'], 0.99)\n"
    )

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the loops over parameters with several kernels in each round."""
        for file in files:
            # An inner function comes after those around it.
            loops = {each: function for function in file.functions for each in walk(function.node)}
            for loop, function in loops.items():
                # Where a path for all parameters at once exists, the loop is what it falls back to.
                if isinstance(loop, ast.For) and _is_over_parameters(loop) and "foreach" not in _text_of(function):
                    kernels = sum(map(_is_kernel, walk(loop)))
                    if kernels >= _FEW:
                        yield self.fact(file, loop, Assessment.SHOULD_CHECK, _text(function.qualname, kernels), _FIX)


_FIX = (
    "update lists of tensors at once by `torch._foreach_mul_`, `torch._foreach_add_` and the like, or compile the "
    "step by `torch.compile`"
)


def _text(name: str, kernels: int) -> str:
    return (
        f"`{name}` launches at least {kernels} kernels for each parameter here; with many small parameters the "
        "launches take longer than the arithmetic"
    )


def _text_of(function: Function) -> str:
    return ast.unparse(function.node)


def _is_over_parameters(loop: ast.For) -> bool:
    """Return whether a loop draws from `group["params"]`, or from a list of parameters."""
    over = loop.iter
    if isinstance(over, ast.Subscript) and isinstance(over.slice, ast.Constant):
        return over.slice.value == "params"
    if isinstance(over, ast.Call) and dotted(over.func) in {"zip", "enumerate"}:
        return any(_is_over_parameters(ast.For(loop.target, arg, [], [])) for arg in over.args)
    return isinstance(over, ast.Call) and tail_of(dotted(over.func)) in {"parameters", "named_parameters"}


def _is_kernel(node: ast.AST) -> bool:
    """Return whether a node is an arithmetic method of a tensor, or a function of torch for it."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    name = node.func.attr
    return name.removesuffix("_") in _ARITHMETIC and (name.endswith("_") or dotted(node.func).startswith("torch."))
