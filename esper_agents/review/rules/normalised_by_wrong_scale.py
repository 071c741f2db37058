"""ESP264: images are normalised by statistics of another range than the one they have."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.image_transforms import pipelines
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

_ONE, _BYTES = 1.0, 255.0
# Transforms that leave the range of numbers as it is.
_SAME = frozenset(
    {"Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop", "RandomHorizontalFlip", "RandomVerticalFlip"}
    | {"RandomRotation", "ColorJitter", "Grayscale", "RandomGrayscale", "Pad", "RandomAffine", "GaussianBlur"}
    | {"RandomErasing", "RandomPerspective", "TrivialAugmentWide", "RandAugment", "AutoAugment"}
)


class NormalisedByWrongScale(Rule):
    """A `Normalize` by statistics of 0 to 255 on images of 0 to 1, or the other way round.

    ## Why it costs
    `ToTensor` scales images to 0 to 1. Normalised by a mean such as 123.7 every pixel is almost the same number.
    `ToDtype(torch.float32)` of torchvision's v2 does not scale unless `scale=True`: normalised by a mean such as 0.485
    pixels reach 1000. A pretrained network sees inputs unlike any it was trained on, and nothing raises.

    ## When it is right
    A step of another library that scales; pipelines with such a step are not judged.

    ## Sources
    torchvision documentation of `ToTensor`, `v2.ToDtype` (`scale`) and `Normalize`.
    """

    code, name = "ESP264", "normalised-by-wrong-scale"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "from torchvision import transforms\n"
        "\n"
        "transform = transforms.Compose([\n"
        "    transforms.ToTensor(),\n"
        "    transforms.Normalize([123.7, 116.3, 103.5], [58.4, 57.1, 57.4]),\n"
        "])\n"
    )
    good = bad.replace("[123.7, 116.3, 103.5], [58.4, 57.1, 57.4]", "[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the normalisations by statistics of another range."""
        for steps in pipelines(file, index):
            top: float | None = None
            for node, kind in steps:
                if kind == "Normalize":
                    mean = _largest(node, index, file.functions[0])
                    if top == _ONE and mean is not None and mean > 2:  # noqa: PLR2004 - no mean of numbers up to 1
                        yield self._found(node, "0 to 1", "0 to 255", "divide the statistics by 255")
                    elif top == _BYTES and mean is not None and 0 < mean <= 1:
                        yield self._found(node, "0 to 255", "0 to 1", "write `ToDtype(torch.float32, scale=True)`")
                    break
                top = _top_after(node, kind, top)

    def _found(self, node: ast.Call, range_: str, meant: str, remedy: str) -> RuleMatch:
        return self.hit(
            node,
            f"the images are numbers from {range_} here, and this normalises by statistics of {meant}",
            remedy=remedy,
            basis=SEEN,
        )


def _top_after(node: ast.Call, kind: str, top: float | None) -> float | None:
    """Return the largest number of an image behind a step, if that is known."""
    if kind in {"ToTensor", "ConvertImageDtype"}:
        return _ONE
    if kind in {"PILToTensor", "ToImage"}:
        return _BYTES
    if kind == "ToDtype":
        scale = next((each.value for each in node.keywords if each.arg == "scale"), None)
        scale = node.args[1] if scale is None and len(node.args) > 1 else scale
        if scale is None or (isinstance(scale, ast.Constant) and scale.value is False):
            return top
        return _ONE if isinstance(scale, ast.Constant) and scale.value is True else None
    return top if kind in _SAME else None


def _largest(node: ast.Call, index: ProjectIndex, module: Function) -> float | None:
    """Return the largest of the means of a normalisation, if they are written out."""
    given = node.args[0] if node.args else next((each.value for each in node.keywords if each.arg == "mean"), None)
    if given is None:
        return None
    for origin in index.origins(given, module, node.lineno)[:1]:
        given = origin.value
    parts = given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
    numbers = [each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, int | float)]
    return float(max(numbers)) if numbers and len(numbers) == len(parts) else None
