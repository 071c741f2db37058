"""ESP404: anomaly detection runs in every step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.blocks import LOOPS
from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.hot import hot_around
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import Rewrite, Rule
from esper_agents.review.training import is_optimizer_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_SWITCHES = ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")
_CONTEXTS = ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")
_TRAINERS = ("Trainer", "Fabric")
_DEBUGGING = pattern(r"debug|anomal|nan|diagnos|check_grad|profil")


class AnomalyDetectionLeftOn(Rule):
    """`torch.autograd.set_detect_anomaly(True)` or `detect_anomaly()` that no option turns off.

    ## Why it costs
    Every backward operation is checked for NaN, which waits for the device, and every forward operation records a
    stack trace. Training becomes several times slower. It is a tool for one debugging session.

    ## When it is right
    While a NaN is hunted. Under an `if`, or with a variable as its argument, it counts as switched and is not
    reported; nor is a `with` that holds no training loop.

    ## Sources
    PyTorch documentation of `torch.autograd.detect_anomaly`, its warning; PyTorch performance tuning guide, on
    disabling debugging interfaces.
    """

    code, name = "ESP404", "anomaly-detection-left-on"
    severity, category = Severity.WARNING, Category.PERFORMANCE
    bad = "import torch\n\ntorch.autograd.set_detect_anomaly(True)\n"
    good = "import torch\n\n\ndef main(options):\n    torch.autograd.set_detect_anomaly(options.debug)\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what turns anomaly detection on without being asked."""
        for call in file.calls_to(*_SWITCHES, *_CONTEXTS):
            if _is_on(call) and not _is_asked_for(call) and not _is_a_moment(call, index):
                yield self._found(call.node)
        for call in file.calls_ending(*_TRAINERS):
            asked = call.argument(-1, "detect_anomaly")
            if isinstance(asked, ast.Constant) and asked.value is True and not _is_asked_for(call):
                yield self._found(asked)

    def _found(self, node: ast.AST) -> RuleMatch:
        return self.hit(
            node,
            "anomaly detection checks every operation of the backward and records every forward",
            remedy="remove it, or turn it on by an option that is off by default",
        )

    def fix(self, call: Call, claim: Diagnostic) -> Rewrite | None:  # noqa: ARG002 - whatever it says
        """Return that a call on a line of its own goes; what a `with` or a name holds on to stays."""
        is_alone = isinstance(call.statement, ast.Expr) and call.statement.value is call.node
        return Rewrite(is_removed=True) if is_alone and call.name in _SWITCHES and _is_on(call) else None


def _is_on(call: Call) -> bool:
    mode = call.argument(0, "mode")
    return call.tail != "set_detect_anomaly" or (isinstance(mode, ast.Constant) and mode.value is True)


def _is_asked_for(call: Call) -> bool:
    """Return whether an `if`, or a function that is there for it, turns it on; a main guard is no such `if`."""
    tests = [test for test in tests_around(call.block, call.function.block) if "__name__" not in names_in(test)]
    return bool(tests) or _DEBUGGING.search(call.function.name) is not None or isinstance(call.parent, ast.IfExp)


def _is_a_moment(call: Call, index: ProjectIndex) -> bool:
    """Return whether it is on only for a while: a `with` without training in it, or until it is turned off again."""
    if isinstance(call.parent, ast.With | ast.AsyncWith):
        return not _holds_training(call, call.parent, index)
    is_held = not isinstance(call.parent, ast.Expr) and call.tail == "detect_anomaly"
    return is_held or any(
        each.tail == "set_detect_anomaly" and each.line > call.line and not _is_on(each) for each in call.function.calls
    )


def _holds_training(call: Call, context: ast.With | ast.AsyncWith, index: ProjectIndex) -> bool:
    """Return whether a `with` stands round a training, or in the loop of one."""
    last = context.end_lineno or context.lineno
    inside = [each for each in call.function.calls if context.lineno < each.line <= last]
    if any(each.tail == "backward" and each.block.loop is not None for each in inside):
        return True
    # A function that sends backward in it and steps an optimizer is a training step, whoever repeats it.
    if any(each.tail == "backward" for each in inside) and not call.function.is_module:
        return any(is_optimizer_step(each, index) for each in call.function.calls)
    if hot_around(call.block, index) is not None:
        return any("backward" in index.reached(called) for each in inside for called in index.callees(each))
    return any(
        block.kind in LOOPS and hot_around(block, index) is not None
        for each in inside
        for called in index.callees(each)
        for function in index.closure(called)
        for block in function.blocks
    )
