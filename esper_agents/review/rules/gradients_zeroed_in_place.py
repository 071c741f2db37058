"""ESP405: gradients are filled with zeros rather than let go."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FileRule, Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.blocks import Block
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_PARAMETERS = pattern(r"parameters\(\)|params\b|\bparameters\b|\bweights\b|\blayers\b|\bvariables\b")
_BY_HAND = pattern(r"\.grad(?:\.data)?(?:\[[^\]]*\])? (?:\*= 0|= 0)\b")


class GradientsZeroedInPlace(FileRule):
    """A `zero_grad(set_to_none=False)`, or a loop over all parameters that fills their gradients with zeros.

    ## Why it costs
    It writes zeros over every gradient and keeps their memory through the forward; the backward then adds to the
    zeros instead of writing. The default, since torch 2.0, drops the gradients.

    ## When it is right
    Something reads `.grad` between the steps, or gradients must stay at one address (CUDA graphs captured by hand).

    ## Sources
    PyTorch documentation of `torch.optim.Optimizer.zero_grad`: the parameter `set_to_none`.
    """

    code, name = "ESP405", "gradients-zeroed-in-place"
    severity, category = Severity.SUGGESTION, Category.PERFORMANCE
    bad = "optimizer.zero_grad(set_to_none=False)\n"
    good = "optimizer.zero_grad()\n"

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the calls that ask for zeros, and those that write them."""
        for call in file.calls_ending("zero_", "fill_", "mul_", "_foreach_zero_"):
            if _writes_zeros(call) and "set_to_none" not in call.function.parameters:
                yield self._written(call.node)
        for function in file.functions if _writes_to_gradients(file) else ():
            for path, assignments in function.assignments.items():
                for each in assignments if path.removesuffix("[]").removesuffix(".data").endswith(".grad") else ():
                    if _is_over_all(each.block) and _assigns_zeros(each):
                        yield self._written(each.statement)
        for call in file.calls_ending("zero_grad"):
            if _asks_for_zeros(call):
                yield self.hit(
                    call.node,
                    "gradients are filled with zeros and kept, instead of being dropped",
                    remedy="leave `set_to_none` at its default",
                )

    def _written(self, node: ast.AST) -> RuleMatch:
        return self.hit(
            node,
            "the gradient of each parameter is filled with zeros by itself, and kept",
            remedy="use `optimizer.zero_grad()`, or set `parameter.grad = None`",
            confidence=Confidence.MODERATE,
        )

    def fix(self, call: Call, claim: Diagnostic) -> Rewrite | None:  # noqa: ARG002 - whatever it says
        """Return the call without the argument."""
        return Rewrite(without=("set_to_none", 0)) if _asks_for_zeros(call) else None


def _asks_for_zeros(call: Call) -> bool:
    asked = call.argument(0, "set_to_none") if call.tail == "zero_grad" and call.receiver else None
    return isinstance(asked, ast.Constant) and asked.value is False


def _writes_zeros(call: Call) -> bool:
    """Return whether a call zeroes the gradients of parameters: `p.grad.zero_()` in a loop, `_foreach_zero_`."""
    if call.tail == "_foreach_zero_":
        return bool(call.node.args) and ".grad" in ast.unparse(call.node.args[0])
    is_zero = call.tail == "zero_" or _is_zero(call.argument(0, "value"))
    return is_zero and _is_over_all(call.block) and _is_gradient(call.receiver, call.function)


def _is_gradient(path: str, function: Function) -> bool:
    """Return whether a path is a gradient, or a name for one."""
    made = function.assignments.get(path, ()) if path.isidentifier() else ()
    paths = [path, *(dotted(each.value) for each in made)]
    return any(each.removesuffix(".data").endswith(".grad") for each in paths)


def _writes_to_gradients(file: FileTables) -> bool:
    return ".grad" in file.text and ("zeros_like" in file.text or _BY_HAND.search(file.text) is not None)


def _assigns_zeros(found: Assignment) -> bool:
    """Return whether an assignment writes zeros: `p.grad = torch.zeros_like(p)`, `p.grad *= 0`, `p.grad[:] = 0`."""
    value = found.value
    if isinstance(found.statement, ast.AugAssign):
        return isinstance(found.statement.op, ast.Mult) and _is_zero(value)
    is_new = isinstance(value, ast.Call) and tail_of(dotted(value.func)) in {"zeros_like", "zeros"}
    return is_new or (isinstance(found.node, ast.Subscript) and _is_zero(value))


def _is_zero(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value == 0


def _is_over_all(block: Block) -> bool:
    """Return whether a block stands in a loop over parameters, or over layers or weights."""
    nodes = [loop.node for loop in block.loops()]
    iterated = [each.iter for each in nodes if isinstance(each, ast.For)]
    iterated += [each.iter for node in nodes for each in getattr(node, "generators", ())]
    return any(_PARAMETERS.search(ast.unparse(each)) is not None for each in iterated)
