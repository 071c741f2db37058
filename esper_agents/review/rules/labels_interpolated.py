"""ESP242: a map of class labels is resized by blending neighbours, and made integers again."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_RESIZING = frozenset({"torch.nn.functional.interpolate", "torch.nn.functional.upsample"})
_BLENDING = frozenset({"bilinear", "bicubic", "linear", "trilinear", "area"})
_WHOLE = frozenset({"torch.long", "torch.int64", "torch.int32", "torch.int"})
_PASSING = frozenset(
    {"squeeze", "unsqueeze", "view", "reshape", "contiguous", "to", "flatten", "detach", "cpu", "cuda"}
)
_STEPS = 5


class LabelsInterpolated(Rule):
    """A map of class numbers that `F.interpolate` resizes with `bilinear` and that is cast to integers afterwards.

    ## Why it costs
    Between a pixel of class 2 and one of class 10 the blend is 6: a class that is nowhere near. Every border of the
    resized map has labels that no annotator drew, and loss and accuracy count them.

    ## When it is right
    What is resized is no map of classes. Only a result that is cast to integers without being rounded, scaled or
    compared is reported, so images and probabilities are not.

    ## Sources
    PyTorch documentation of `torch.nn.functional.interpolate`. torchvision documentation of transforms v2: masks are
    resized with nearest interpolation.
    """

    code, name = "ESP242", "labels-interpolated"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def resized(labels, size):\n"
        "    return F.interpolate(labels[:, None].float(), size=size, mode='bilinear').squeeze(1).long()\n"
    )
    good = bad.replace("'bilinear'", "'nearest'")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the blends that are cast to integers."""
        for call in file.calls_ending("long", "int", "to", "type"):
            if not isinstance(call.node.func, ast.Attribute) or not _casts(call):
                continue
            blend = _blend(call.node.func.value, call, index)
            if blend is not None:
                yield self.hit(
                    blend,
                    "this blends neighbouring class numbers, and the cast to integers makes classes of the blends that "
                    "are in neither",
                    remedy="resize labels with `mode='nearest'`",
                    basis=SEEN,
                )


def _casts(call: Call) -> bool:
    given = {dotted(arg) for arg in call.node.args} | {dotted(each.value) for each in call.node.keywords}
    return (call.tail in {"long", "int"} and not call.node.args) or bool(given & _WHOLE)


def _blend(value: ast.expr, call: Call, index: ProjectIndex) -> ast.Call | None:
    """Return the interpolation that makes a value by blending, through views and names; None if there is none."""
    for _ in range(_STEPS):
        if isinstance(value, ast.Subscript):
            value = value.value
        if isinstance(value, ast.Name):
            origins = index.origins(value, call.function, call.line)
            if len(origins) != 1 or origins[0].value is value or origins[0].function is not call.function:
                return None
            value = origins[0].value
        if not isinstance(value, ast.Call):
            return None
        if resolve(dotted(value.func), call.function) in _RESIZING:
            modes = [each.value for each in value.keywords if each.arg == "mode"]
            is_blending = bool(modes) and isinstance(modes[0], ast.Constant) and modes[0].value in _BLENDING
            return value if is_blending else None
        if not isinstance(value.func, ast.Attribute) or value.func.attr not in _PASSING:
            return None
        value = value.func.value
    return None
