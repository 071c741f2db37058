"""ESP248: a new layer is frozen together with the pretrained ones, before it was ever trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.frozen_modules import freezings, switches_on
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.weighted_layers import is_weighted_layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.frozen_modules import Freezing
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables


class NewHeadFrozen(Rule):
    """A model whose last layer is replaced by a new one, and whose parameters are all frozen after that.

    ## Why it costs
    The new layer starts with random weights and stays at them: the predictions are noise. With an optimizer over the
    head alone `backward` raises that nothing requires gradients; with other trained parts nothing says so.

    ## When it is right
    Freeze first, and replace the layer afterwards, or switch the gradients of the new layer on again. Models whose
    weights are loaded are not reported.

    ## Sources
    PyTorch tutorial "Transfer Learning for Computer Vision", section "ConvNet as fixed feature extractor".
    """

    code, name = "ESP248", "new-head-frozen"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "import torchvision\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "def build():\n"
        '    model = torchvision.models.resnet18(weights="DEFAULT")\n'
        "    model.fc = nn.Linear(512, 10)\n"
        "    for p in model.parameters():\n"
        "        p.requires_grad = False\n"
        "    return model\n"
    )
    good = bad.replace("    model.fc = nn.Linear(512, 10)\n", "").replace(
        "    return model\n", "    model.fc = nn.Linear(512, 10)\n    return model\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield where a new layer is frozen with the rest."""
        for found in freezings(file):
            layer = _replaced(found, index)
            if layer is None or switches_on(found.function, found.last_line) or _loads(found):
                continue
            yield self.hit(
                found.node,
                f"this freezes {layer.target.rstrip('[]')!r} as well, which is new (line {layer.line}): it keeps its "
                "random weights",
                remedy="freeze before the layer is replaced, or switch its gradients on again",
                confidence=Confidence.HIGH,
                basis=SEEN,
            )


def _replaced(found: Freezing, index: ProjectIndex) -> Assignment | None:
    """Return the assignment of a new layer to a part of the module, above the place that freezes it."""
    function, path = found.function, found.path
    if path == "self":
        return None
    made = function.last_assignment(path, found.line)
    since = made.line if made is not None else 0
    layers = [
        each
        for target, assignments in function.assignments.items()
        if target.startswith(f"{path}.")
        for each in assignments
        if not each.is_unpacked and is_weighted_layer(each.value, function, index)
    ]
    above = [each for each in layers if since < each.line < found.line and each.block.within(function.block)]
    is_replaced_later = any(each.line > found.line for each in layers)
    return above[-1] if above and not is_replaced_later else None


def _loads(found: Freezing) -> bool:
    """Return whether the weights of the module are loaded, so that the layer is not new any more."""
    return any(
        call.tail.startswith(("load", "from_pretrained", "init_from", "restore")) or call.tail in {"eval", "deepcopy"}
        for call in found.function.calls
    ) or any(call.name.startswith("torch.load") for call in found.function.calls)
