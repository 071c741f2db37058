"""ESP235: one layer stands several times in a container, where several layers are meant."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import INFERRED, SEEN, Rule
from esper_agents.review.weighted_layers import is_weighted_layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_CONTAINERS = ("torch.nn.ModuleList", "torch.nn.Sequential")


class LayersRepeatedByReference(Rule):
    """A `ModuleList` or `Sequential` of `[layer] * n`, which holds one layer n times.

    ## Why it costs
    Multiplying a list copies references. The network looks n layers deep and has the weights of one: `parameters()`
    counts them once, and each step moves all layers alike. Nothing raises, and the model learns less than planned.

    ## When it is right
    The layers share their weights on purpose, as in ALBERT or a universal transformer: a loop that calls the one layer
    n times says so more clearly. Layers without weights, such as activations, are not reported.

    ## Sources
    PyTorch source, `torch/nn/modules/transformer.py`, `_get_clones`: it makes deep copies of the layer for this
    reason. Python documentation, "Common Sequence Operations": items in a repeated sequence are not copied.
    """

    code, name = "ESP235", "layers-repeated-by-reference"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "from torch import nn\n"
        "\n"
        "\n"
        "class Encoder(nn.Module):\n"
        "    def __init__(self, width, depth):\n"
        "        super().__init__()\n"
        "        self.layers = nn.ModuleList([nn.Linear(width, width)] * depth)\n"
    )
    good = bad.replace("[nn.Linear(width, width)] * depth", "nn.Linear(width, width) for _ in range(depth)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the containers that hold one weighted layer several times."""
        for call in file.calls_to(*_CONTAINERS):
            for layer in _repeated(call):
                found = _made(layer, call, index)
                if found is not None:
                    yield self._shared(call, layer, is_certain=found)

    def _shared(self, call: Call, layer: ast.expr, *, is_certain: bool) -> RuleMatch:
        text = ast.unparse(layer)
        shown = text if len(text) <= 40 else f"{text[:37]}..."  # noqa: PLR2004 - a screen's line
        return self.hit(
            call.node,
            f"this `{call.tail}` holds one layer, `{shown}`, several times: all of them share its weights",
            remedy="make a layer for each place, `[make() for _ in range(n)]`, or copy it with `copy.deepcopy`",
            confidence=Confidence.HIGH if is_certain else Confidence.MODERATE,
            basis=SEEN if is_certain else f"{INFERRED}: that the layer has weights",
            severity=None if is_certain else Severity.SUGGESTION,
        )


def _repeated(call: Call) -> Iterator[ast.expr]:
    """Yield the layers that a container is given more than once."""
    for arg in call.node.args:
        value = arg.value if isinstance(arg, ast.Starred) else arg
        parts = [value]
        while parts:
            part = parts.pop()
            match part:
                case ast.BinOp(left=left, op=ast.Add(), right=right):
                    parts += [left, right]
                case (
                    ast.BinOp(left=ast.List(elts=layers), op=ast.Mult(), right=times)
                    | ast.BinOp(left=times, op=ast.Mult(), right=ast.List(elts=layers))
                ) if not (isinstance(times, ast.Constant) and times.value == 1):
                    yield from layers
                case (
                    ast.ListComp(elt=ast.Name() as layer, generators=[one])
                    | ast.GeneratorExp(elt=ast.Name() as layer, generators=[one])
                ) if not _is_bound(layer.id, one.target) and _counts(one.iter):
                    yield layer
                case _:
                    pass


def _is_bound(name: str, target: ast.expr) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in walk(target))


def _counts(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and dotted(value.func) == "range"


def _made(layer: ast.expr, call: Call, index: ProjectIndex) -> bool | None:
    """Return whether a layer surely has weights; None if it may well have none."""
    origins = index.origins(layer, call.function, call.line)
    made = [each for each in origins if isinstance(each.value, ast.Call)]
    if made and len(made) == len(origins):
        return True if all(is_weighted_layer(each.value, each.function, index) for each in made) else None
    # Callers that are not in sight give the layer; an activation would hardly be repeated.
    return False if isinstance(layer, ast.Name) and layer.id in call.function.parameters and not made else None
