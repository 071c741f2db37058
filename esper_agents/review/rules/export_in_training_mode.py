"""ESP513: a model is exported while it is in training mode."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.exported import is_exported_in_training
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_EXPORTS = ("torch.export.export", "torch.jit.trace", "torch.jit.trace_module", "torch.onnx.export")
_FIRST = {"torch.jit.trace": "func", "torch.onnx.export": "model"}
# What is prepared for training with quantization is exported as it is to be trained.
_ON_PURPOSE = pattern(r"pt2e|prepare_qat|QAT|TrainingMode|unflatten|\bpipelin", re.IGNORECASE)


class ExportInTrainingMode(Rule):
    """An export or trace of a model with dropout or batch norm that is still in training mode.

    ## Why it costs
    The mode is written into what is exported: dropout goes on dropping, and batch norm normalises by the batch at hand.
    Results differ from run to run and from those of the model. A module is in training mode from the start.

    ## When it is right
    The exported program is to be trained further. The older ONNX exporter (`dynamo=False`, the default before torch
    2.9) switches the mode itself and is not reported.

    ## Sources
    PyTorch documentation of `torch.export` and `torch.onnx`: "Exporting a model while it is in training mode" is warned
    of by the exporter of torch 2.13.
    """

    code, name = "ESP513", "export-in-training-mode"
    severity, category = Severity.WARNING, Category.COMPILE
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))\n"
        'model.load_state_dict(torch.load("model.pt", weights_only=True))\n'
        "program = torch.export.export(model, (torch.zeros(1, 8),))\n"
    )
    good = bad.replace("program =", "model.eval()\nprogram =")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the exports of models in training mode."""
        calls = file.calls_to(*_EXPORTS)
        if not calls or _ON_PURPOSE.search(file.text) is not None:
            return
        for call in calls:
            model = call.argument(0, _FIRST.get(call.name, "mod"))
            is_settled = _switches_itself(call, index)
            if model is not None and is_settled is not True and is_exported_in_training(model, call, index):
                yield self.hit(
                    call.node,
                    f"`{ast.unparse(model)}` is exported in training mode, and so are its dropout or batch norm",
                    remedy="call `model.eval()` before the export",
                    confidence=Confidence.HIGH if is_settled is False else Confidence.MODERATE,
                    basis=SEEN if is_settled is False else f"{INFERRED}: torch 2.9 and later export so by default",
                )


def _switches_itself(call: Call, index: ProjectIndex) -> bool | None:
    """Return whether an exporter switches the mode itself; None where the installed version decides."""
    if call.name != "torch.onnx.export":
        return False
    dynamo = next((keyword.value for keyword in call.node.keywords if keyword.arg == "dynamo"), None)
    if isinstance(dynamo, ast.Constant):
        return dynamo.value is not True
    asked = index.torch_asked_by(call.function.file)
    if dynamo is not None or call.has_splat() or (asked is not None and not asked.reaches("2.9")):
        return True
    return False if asked is not None and asked.starts_at("2.9") else None
