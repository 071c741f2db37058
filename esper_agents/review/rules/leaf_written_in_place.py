"""ESP106: a parameter is written in place while autograd watches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import tests_around
from esper_agents.review.leaves import is_leaf
from esper_agents.review.models import gradients_off_around
from esper_agents.review.names import dotted
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN, Rule, RuntimeExpectation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_WRITING = (
    *("add_", "sub_", "mul_", "div_", "zero_", "fill_", "copy_", "clamp_", "normal_", "uniform_", "addcmul_", "pow_"),
    *("addcdiv_", "clip_", "lerp_", "neg_", "sign_", "exponential_", "bernoulli_", "index_fill_", "masked_fill_"),
    *("index_copy_", "scatter_", "abs_", "sqrt_", "exp_", "relu_", "round_", "clamp_min_", "clamp_max_", "renorm_"),
    *("index_add_", "index_put_", "masked_scatter_", "scatter_add_", "put_", "random_", "log_normal_", "cauchy_"),
    *(
        "fill_diagonal_",
        "tril_",
        "triu_",
        "floor_",
        "ceil_",
        "trunc_",
        "nan_to_num_",
        "sigmoid_",
        "tanh_",
        "geometric_",
    ),
    *("addmm_", "addmv_", "addr_", "baddbmm_", "subtract_", "multiply_", "divide_", "square_", "reciprocal_", "log_"),
)
# What a path goes through when it reaches the values beside autograd, or something else than the tensor.
_ASIDE = pattern(r"\.(data|grad|detach\(\)|shape|dtype|numpy\(\))\b|\.(data|grad|detach\(\))$|\bgrad\b")


class LeafWrittenInPlace(Rule):
    """An in-place write to a leaf tensor that requires gradients, outside `no_grad`.

    ## Why it costs
    Autograd refuses it: "a leaf Variable that requires grad is being used in an in-place operation". The run breaks at
    this line. The same goes for a write through a view, such as `weight[0] = 0`.

    ## When it is right
    Under `torch.no_grad()`, in an optimizer's decorated `step`, on `.data`, on buffers, by `torch.nn.init`, and before
    `requires_grad` is set. Tensors that are results of operations may be written in place.

    ## Sources
    PyTorch notes, "Autograd mechanics", on in-place operations; documentation of `torch.nn.init`.
    """

    code, name = "ESP106", "leaf-written-in-place"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    shown = RuntimeExpectation.RAISES
    bad = (
        "import torch\n"
        "\n"
        "w = torch.zeros(3, requires_grad=True)\n"
        "for x, y in data:\n"
        "    loss = ((x @ w - y) ** 2).mean()\n"
        "    loss.backward()\n"
        "    w -= 0.1 * w.grad\n"
        "    w.grad = None\n"
    )
    good = bad.replace("    w -= 0.1 * w.grad\n", "    with torch.no_grad():\n        w -= 0.1 * w.grad\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the writes to leaves that require gradients."""
        if not file.imports_torch:
            return
        for call in file.calls_ending(*_WRITING):
            if call.receiver and isinstance(call.node.func, ast.Attribute):
                is_function = call.name.startswith("torch.") and call.node.args
                target = call.node.args[0] if is_function else call.node.func.value
                path = dotted(target) if is_function else call.receiver
                if not call.name.startswith("torch.nn.init."):
                    yield from self._written(call.node, target, path, call.block, index)
        for function in file.functions:
            for path, assignments in function.assignments.items():
                for assignment in assignments:
                    if path.endswith("[]") or assignment.is_augmented:
                        yield from self._assigned(assignment, path, index)

    def _assigned(self, found: Assignment, path: str, index: ProjectIndex) -> Iterator[RuleMatch]:
        yield from self._written(found.statement, found.node, path, found.block, index)

    def _written(
        self, node: ast.expr | ast.stmt, target: ast.expr, path: str, block: Block, index: ProjectIndex
    ) -> Iterator[RuleMatch]:
        is_part = isinstance(target, ast.Subscript) and isinstance(node, ast.Call)
        while isinstance(target, ast.Subscript):
            target = target.value
        if not isinstance(target, ast.Name | ast.Attribute) or _ASIDE.search(path):
            return
        leaf = is_leaf(target, block, node.lineno, index, is_part=is_part)
        if leaf is None or _is_without_gradients(block, index):
            return
        yield self.hit(
            node,
            f"{path.rstrip('[]')!r} is a leaf that requires gradients: autograd refuses to let it be written in place",
            remedy="write it under `with torch.no_grad():`",
            confidence=Confidence.HIGH if leaf else Confidence.MODERATE,
            basis=SEEN if leaf else FOLLOWED,
        )


def _is_without_gradients(block: Block, index: ProjectIndex) -> bool:
    """Return whether gradients are off in a block, for its callers, or where a test says so."""
    function = block.function
    if gradients_off_around(block, index) or any(
        "grad" in ast.unparse(each) for each in tests_around(block, function.block)
    ):
        return True
    if _switches_off(function) or _switches_off(function.file.functions[0]):
        return True
    return any(gradients_off_around(mention.block, index) for mention in _calls_and_mentions(function, index))


def _switches_off(function: Function) -> bool:
    return any(call.tail == "set_grad_enabled" for call in function.calls)


def _calls_and_mentions(function: Function, index: ProjectIndex) -> Iterator[Call]:
    """Yield the calls of a function, those of its callers, and those it is handed to: `model.apply(reset)`."""
    for call in index.callers(function):
        yield call
        yield from index.callers(call.function)
    for call in index.calls_ending("apply", "map"):
        if any(isinstance(arg, ast.Name) and arg.id == function.name for arg in call.node.args):
            yield call
