"""ESP275: a model is converted to integers and has seen no data since its observers were put in."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_MODULES = (
    "torch.ao.quantization.",
    "torch.quantization.",
    "torch.ao.quantization.quantize_fx.",
    "torch.quantization.quantize_fx.",
    "torch.ao.quantization.quantize_pt2e.",
    "torchao.quantization.pt2e.quantize_pt2e.",
)
_PREPARE = tuple(f"{module}{name}" for module in _MODULES for name in ("prepare", "prepare_fx", "prepare_pt2e"))
_CONVERT = tuple(f"{module}{name}" for module in _MODULES for name in ("convert", "convert_fx", "convert_pt2e"))


class QuantisedWithoutCalibration(FileRule):
    """A static quantisation, `convert(prepare(model))`, without data in between.

    ## Why it costs
    `prepare` puts observers into the model that record the ranges of activations while data runs through it. Without
    data `convert` uses default scales: activations are cut to a range that has nothing to do with the model, and the
    outputs are noise. torch only warns.

    ## When it is right
    Dynamic quantisation, and weights alone, need no data; neither calls `prepare`.

    ## Sources
    PyTorch documentation, "Quantization", section on post-training static quantization.
    """

    code, name = "ESP275", "quantised-without-calibration"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e\n"
        "\n"
        "\n"
        "def quantise(exported, quantizer, loader):\n"
        "    prepared = prepare_pt2e(exported, quantizer)\n"
        "    return convert_pt2e(prepared)\n"
    )
    good = bad.replace("    return convert", "    for x, _ in loader:\n        prepared(x)\n    return convert")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the conversions of models that have seen no data since they were prepared."""
        for call in file.calls_to(*_CONVERT):
            given = call.argument(0, "module") or call.argument(0, "graph_module") or call.argument(0, "model")
            prepared = next((each for each in _prepared(call) if given is not None and _is_result(given, each)), None)
            if prepared is not None and not _is_used(call, prepared):
                yield self.hit(
                    call.node,
                    f"no data has run through the model since `{prepared.tail}` (line {prepared.line}): "
                    "its activations have default scales",
                    remedy="run some batches of training data through the prepared model first",
                    basis=SEEN,
                )


def _prepared(call: Call) -> list[Call]:
    """Return the preparations above a conversion in its function, the last one first."""
    return [each for each in reversed(call.function.calls) if each.name in _PREPARE and each.line <= call.line]


def _is_result(given: ast.expr, prepared: Call) -> bool:
    """Return whether what is converted is what was prepared: by its name, in place, or directly."""
    if given is prepared.node:
        return True
    path = dotted(given)
    targets = {dotted(each) for each in getattr(prepared.statement, "targets", ())}
    is_in_place = any(each.arg == "inplace" for each in prepared.node.keywords)
    first = prepared.argument(0, "model")
    return bool(path) and (path in targets or (is_in_place and first is not None and dotted(first) == path))


def _is_used(call: Call, prepared: Call) -> bool:
    """Return whether anything is done with the prepared model before it is converted."""
    first = prepared.argument(0, "model")
    given = [*call.node.args, *(each.value for each in call.node.keywords)]
    names = {dotted(each) for each in getattr(prepared.statement, "targets", ())} | {dotted(each) for each in given}
    names |= {dotted(first)} if first is not None else set()
    for each in call.function.calls:
        if each in {call, prepared} or not prepared.line <= each.line <= call.line or each.node in given:
            continue
        parts = [*each.node.args, *(keyword.value for keyword in each.node.keywords), each.node.func]
        used = {dotted(node) for part in parts for node in walk(part) if isinstance(node, ast.Name | ast.Attribute)}
        is_mode = each.tail in {"eval", "train", "to", "cpu", "requires_grad_"} and not each.node.args
        if used & names and not is_mode and not any(each.node is node for node in walk(prepared.node)):
            return True
    return False
