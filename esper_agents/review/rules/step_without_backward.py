"""ESP108: a loop clears gradients and steps an optimizer, and sends nothing backward."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.conditions import names_in
from esper_agents.review.names import root_of
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.training import is_optimizer_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_LOSS = pattern(r"(?:^|_)(?:loss|losses)(?:_|$)")
# Names that say that gradients may be made there.
_MAKING = pattern(r"(?i)backward|(?<!zero_)(?<!no_)grad(?!_norm|_value)|train|step|update|fit|closure|optimi")
# What reads a loss and sends it nowhere.
_READING = frozenset(
    {
        "print",
        "append",
        "item",
        "float",
        "add_scalar",
        "set_postfix",
        "set_description",
        "info",
        "debug",
        "log",
        "isnan",
    }
    | {"isfinite", "detach", "cpu", "mean", "sum", "format", "len", "str", "extend"}
)


class StepWithoutBackward(Rule):
    """A loop that clears gradients, computes a loss and steps an optimizer, and sends nothing backward.

    ## Why it costs
    Without a backward there are no gradients. The optimizer changes nothing, or goes on by momentum and weight decay
    alone, while the loop runs and reports losses as if it trained.

    ## When it is right
    Gradients come from somewhere else: a function that the loop calls, `torch.autograd.grad`, an assignment to
    `.grad`, a closure, another process. The loss has to be seen, and to go nowhere, for this to be reported.

    ## Sources
    PyTorch tutorial "Optimizing Model Parameters": `zero_grad`, `loss.backward()` and `step` in every round.
    """

    code, name = "ESP108", "step-without-backward"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = "for x, y in loader:\n    optimizer.zero_grad()\n    loss = criterion(model(x), y)\n    optimizer.step()\n"
    good = bad.replace("    optimizer.step()\n", "    loss.backward()\n    optimizer.step()\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the steps that no gradients can reach."""
        for clear in file.calls_ending("zero_grad"):
            loop = clear.block.loop
            inside = [call for call in clear.function.calls if loop is not None and call.block.within(loop)]
            taken = [call for call in inside if call.receiver == clear.receiver and is_optimizer_step(call, index)]
            if loop is None or not taken or any(call.node.args or call.node.keywords for call in taken):
                continue
            losses = _losses(loop)
            others = [call for call in inside if call is not clear and call not in taken]
            if losses and not _may_make_gradients(clear.function, others, losses, index):
                yield self.hit(
                    taken[0].node,
                    f"`{taken[0].path}()` has no gradients: nothing in this loop sends {losses[0]!r} backward",
                    remedy=f"call `{losses[0]}.backward()` before it",
                    basis=SEEN,
                )


def _losses(loop: Block) -> list[str]:
    """Return the names that a loop gives to losses it computes."""
    return [
        path
        for path, assignments in loop.function.assignments.items()
        if path.isidentifier() and _LOSS.search(path)
        if any(
            assignment.block.within(loop) and isinstance(assignment.value, ast.Call | ast.BinOp)
            for assignment in assignments
        )
    ]


def _may_make_gradients(function: Function, calls: list[Call], losses: list[str], index: ProjectIndex) -> bool:
    """Return whether any call may make gradients: by its name, by what it reaches, or because it is given a loss."""
    if function.inner or any(path.endswith(".grad") for path in function.assignments):
        return True
    return any(
        _MAKING.search(call.tail)
        or (call.tail not in _READING and call.receiver not in losses and _is_given(call, losses))
        or any(
            _MAKING.search(tail)
            for possible_callee in index.possible_callees(call)
            for tail in index.reached(possible_callee)
        )
        for call in calls
        if call.tail not in {"zero_grad", "train", "clip_grad_norm_", "clip_grad_value_"} and not _is_scheduler(call)
    )


def _is_scheduler(call: Call) -> bool:
    return call.tail == "step" and "sched" in call.receiver.lower()


def _is_given(call: Call, losses: list[str]) -> bool:
    values = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
    return any(root_of(name) in losses for value in values for name in names_in(value))
