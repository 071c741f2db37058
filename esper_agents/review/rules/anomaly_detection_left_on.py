"""ESP404: anomaly detection runs in every step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.conditions import tests_around
from esper_agents.review.rule import FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Call, FileTables

_SWITCHES = ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")
_CONTEXTS = ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")


class AnomalyDetectionLeftOn(FileRule):
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

    def look(self, file: FileTables) -> Iterator[Hit]:
        """Yield what turns anomaly detection on without being asked."""
        for call in (*file.calls_to(*_SWITCHES), *file.calls_to(*_CONTEXTS)):
            if _is_on(call) and not any(tests_around(call.block, call.function.block)):
                yield self.hit(
                    call.node,
                    "anomaly detection checks every operation of the backward and records every forward",
                    remedy="remove it, or turn it on by an option that is off by default",
                )


def _is_on(call: Call) -> bool:
    mode = call.argument(0, "mode")
    if call.tail == "set_detect_anomaly" and not (isinstance(mode, ast.Constant) and mode.value is True):
        return False
    return not isinstance(call.parent, ast.With) or _holds_training(call, call.parent)


def _holds_training(call: Call, context: ast.With) -> bool:
    """Return whether a `with` stands round a backward in a loop, or in such a loop."""
    last = context.end_lineno or context.lineno
    return any(
        each.tail == "backward" and each.block.loop is not None and context.lineno <= each.line <= last
        for each in call.function.calls
    )
