"""ESP514: an export that goes through TorchScript."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.compiled import traced_function
from esper_agents.review.rule import FOLLOWED, Rule
from esper_agents.review.symbols import is_guarded
from esper_agents.review.tensor_tests import asks_a_tensor, tests_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_OLD_NAMES = ("torch.onnx.utils.export", "torch.onnx._export", "torch.onnx.utils._export")


class LegacyExport(Rule):
    """An ONNX export by `dynamo=False`, or a `torch.jit.trace` of code that branches on the values of tensors.

    ## Why it costs
    Both record what one run does. Where the way through the code depends on a tensor's value, the branch of the example
    input is written down for all inputs, with no more than a TracerWarning, and results are wrong for the others. The
    exporter behind `dynamo=False` is no longer developed: since torch 2.9 the one built on `torch.export` is the
    default, and the old one warns.

    ## When it is right
    The model or its runtime needs something that the new exporter cannot do yet.

    ## Sources
    PyTorch documentation of `torch.onnx` and of `torch.jit.trace`, its warning on control flow; PyTorch 2.9 release
    notes.
    """

    code, name = "ESP514", "legacy-export"
    severity, category = Severity.SUGGESTION, Category.COMPILE
    bad = (
        "import torch\n"
        "from torchmodels import net\n"
        "\n"
        "net.eval()\n"
        'torch.onnx.export(net, (torch.zeros(1, 8),), "net.onnx", dynamo=False)\n'
    )
    good = bad.replace("dynamo=False", "dynamo=True")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the exports through TorchScript that are old-fashioned or lose branches."""
        for call in file.calls_to("torch.onnx.export", *_OLD_NAMES):
            asked = index.torch_asked_by(file)
            if _is_legacy(call) and not is_guarded(call.block) and (asked is None or asked.reaches("2.9")):
                yield self.hit(
                    call.node,
                    "this exports through TorchScript, the way that torch 2.9 replaced",
                    remedy="write `torch.onnx.export(model, args, dynamo=True)` (torch 2.5 and later), with "
                    "`dynamic_shapes` for `dynamic_axes`",
                )
        for call in file.calls_to("torch.jit.trace"):
            yield from self._branches(call, index)

    def _branches(self, call: Call, index: ProjectIndex) -> Iterator[RuleMatch]:
        function = traced_function(call, index)
        for test, _ in tests_of(function) if function is not None else ():
            if function is not None and asks_a_tensor(test, function):
                yield self.hit(
                    call.node,
                    f"`{function.qualname}` branches on a tensor's value at {function.file.path}:{test.lineno}, and "
                    "a trace keeps the branch of its example for all inputs",
                    remedy="choose by `torch.where` or `torch.cond`, and write `torch.export.export(model, args)` "
                    "(torch 2.5 and later)",
                    severity=Severity.WARNING,
                    basis=FOLLOWED,
                )
                return


def _is_legacy(call: Call) -> bool:
    if call.name in _OLD_NAMES:
        return True
    said = next((keyword.value for keyword in call.node.keywords if keyword.arg == "dynamo"), None)
    return isinstance(said, ast.Constant) and said.value is False
