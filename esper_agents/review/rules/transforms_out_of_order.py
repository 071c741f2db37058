"""ESP125: a transform for tensors stands before the one that makes tensors of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.image_transforms import pipelines
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

_OF_TENSORS = frozenset({"Normalize", "RandomErasing", "ConvertImageDtype", "LinearTransformation"})
_MAKING_TENSORS = frozenset({"ToTensor", "PILToTensor"})
_MAKING_IMAGES = frozenset({"ToPILImage"})


class TransformsOutOfOrder(Rule):
    """A `Normalize` or another transform for tensors before `ToTensor`.

    ## Why it costs
    `ToTensor` takes an image of PIL or an array, and `Normalize` takes a tensor: the first sample raises a `TypeError`.

    ## When it is right
    Never: what `Normalize` returns is a tensor, and `ToTensor` refuses tensors.

    ## Sources
    torchvision documentation of `torchvision.transforms.Normalize` ("this transform does not support PIL Image") and
    of `torchvision.transforms.ToTensor`.
    """

    code, name = "ESP125", "transforms-out-of-order"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "from torchvision import transforms\n"
        "\n"
        "transform = transforms.Compose([\n"
        "    transforms.Resize(256),\n"
        "    transforms.Normalize([0.5], [0.5]),\n"
        "    transforms.ToTensor(),\n"
        "])\n"
    )
    good = bad.replace("    transforms.ToTensor(),\n", "").replace(
        "    transforms.Normalize", "    transforms.ToTensor(),\n    transforms.Normalize"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the transforms for tensors that run before there is one."""
        for steps in pipelines(file, index):
            early: tuple[ast.Call, str] | None = None
            for node, kind in steps:
                if kind in _OF_TENSORS and early is None:
                    early = (node, kind)
                elif kind in _MAKING_IMAGES or not kind:
                    early = None
                    if not kind:
                        break
                elif kind in _MAKING_TENSORS:
                    if early is not None:
                        yield self.hit(
                            early[0],
                            f"`{early[1]}` takes a tensor and stands before `{kind}` (line {node.lineno}): it raises",
                            remedy=f"move `{early[1]}` behind `{kind}`",
                            basis=SEEN,
                        )
                    break
