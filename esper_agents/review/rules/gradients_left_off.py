"""ESP146: a function switches gradients off for the whole program, and training goes on after it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_SWITCHES = ("torch.set_grad_enabled", "torch.autograd.set_grad_enabled", "torch.autograd.grad_mode.set_grad_enabled")
_ON = frozenset({"enable_grad"})
_HOPS = 3


class GradientsLeftOff(Rule):
    """`torch.set_grad_enabled(False)` as a statement, in a function after which the program trains.

    ## Why it costs
    As a statement the switch holds for the rest of the program, not for the function. The next `backward()` raises, as
    the loss has no graph; a step that takes gradients as they are uses old ones.

    ## When it is right
    A program that only predicts, and a switch that is set back. `with torch.no_grad():` ends by itself.

    ## Sources
    PyTorch documentation of `torch.set_grad_enabled`.
    """

    code, name = "ESP146", "gradients-left-off"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def evaluate(model, batches):\n"
        "    torch.set_grad_enabled(False)\n"
        "    return [model(x) for x in batches]\n"
        "\n"
        "\n"
        "def train(model, batches, optimizer):\n"
        "    for epoch in range(3):\n"
        "        for x in batches:\n"
        "            optimizer.zero_grad()\n"
        "            model(x).mean().backward()\n"
        "            optimizer.step()\n"
        "        evaluate(model, batches)\n"
    )
    good = bad.replace(
        "    torch.set_grad_enabled(False)\n    return [model(x) for x in batches]",
        "    model.eval()\n    with torch.no_grad():\n        return [model(x) for x in batches]",
    ).replace(
        "        for x in batches:\n            opt",
        "        model.train()\n        for x in batches:\n            opt",
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the switches that nothing sets back before the next backward pass."""
        for call in file.calls_to(*_SWITCHES):
            if not _is_off(call) or not isinstance(call.statement, ast.Expr) or call.statement.value is not call.node:
                continue
            if call.function.is_module or _is_switched_on(index):
                continue
            trains = _sends_after(call)
            if trains or any(_trains_after(each, index, _HOPS) for each in index.callers(call.function)):
                yield self.hit(
                    call.node,
                    "gradients stay off after this function, and training goes on: the next `backward()` has no graph",
                    remedy="use `with torch.no_grad():` around what needs no gradients",
                    basis=SEEN if trains else FOLLOWED,
                )


def _is_off(call: Call) -> bool:
    given = call.argument(0, "mode")
    return isinstance(given, ast.Constant) and given.value is False


def _is_switched_on(index: ProjectIndex) -> bool:
    """Return whether anything in the project switches gradients on."""

    def look() -> bool:
        return any(
            call.tail in _ON or (call.tail in {"set_grad_enabled", "_set_grad_enabled"} and not _is_off(call))
            for file in index.files.values()
            for call in file.calls
        )

    return index.once("gradients are switched on", look)


def _sends_after(call: Call) -> bool:
    """Return whether the function itself sends backward after a call, or in the loop around it."""
    loops = list(call.block.loops())
    return any(
        other.tail == "backward" and (other.line > call.line or any(other.block.within(each) for each in loops))
        for other in call.function.calls
    )


def _trains_after(call: Call, index: ProjectIndex, hops: int) -> bool:
    """Return whether what follows a call, or stands in the loop around it, sends backward."""
    if _sends_after(call):
        return True
    loops = list(call.block.loops())
    for other in call.function.calls:
        is_next = other.line > call.line or any(other.block.within(each) for each in loops)
        if other is not call and is_next and any(_sends(each, index) for each in index.callees(other)):
            return True
    return hops > 0 and any(_trains_after(each, index, hops - 1) for each in index.callers(call.function))


def _sends(function: Function, index: ProjectIndex) -> bool:
    return ".backward" in index.reached(function)
