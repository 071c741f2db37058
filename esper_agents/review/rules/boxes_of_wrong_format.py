"""ESP276: boxes are flipped or compared as if they had another format than they have."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables, Function

_OF_CORNERS = tuple(
    f"torchvision.ops.{module}{name}"
    for module in ("", "boxes.")
    for name in (
        "box_iou",
        "generalized_box_iou",
        "complete_box_iou",
        "distance_box_iou",
        "nms",
        "batched_nms",
        "box_area",
    )
)
# Pairs of points that have no order.
_UNORDERED = pattern(r"line|segment|point|joint|edge|kp", re.IGNORECASE)


class BoxesOfWrongFormat(Rule):
    """Boxes of COCO, (x, y, width, height), used as corners, and flips that exchange the corners of boxes.

    ## Why it costs
    Annotations of COCO give a corner and a size; the operations and detectors of torchvision take two corners. An
    overlap of one with the other is a number without meaning. Mirroring an image turns the left edge into the right
    one: `W - x` of both leaves boxes whose left edge is right of the right one, and `W - x` of a corner alone moves
    the box by its width. Training goes on with wrong targets.

    ## When it is right
    Boxes that `box_convert` turned into corners, or that were turned by hand; boxes given by their centres; pairs of
    points without an order, such as the ends of lines.

    ## Sources
    COCO data format, "bbox": [x, y, width, height]. torchvision documentation of `torchvision.ops.box_iou` and
    `torchvision.ops.box_convert`.
    """

    code, name = "ESP276", "boxes-of-wrong-format"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def mirror(image, boxes):\n"
        "    boxes[:, [0, 2]] = image.shape[-1] - boxes[:, [0, 2]]\n"
        "    return image.flip(-1), boxes\n"
    )
    good = bad.replace("- boxes[:, [0, 2]]", "- boxes[:, [2, 0]]")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the flips and overlaps of boxes of another format."""
        for function in file.functions:
            for path, assignments in function.assignments.items():
                if path.endswith("[]"):
                    yield from self._flips(path.removesuffix("[]"), assignments, function)
        corners = index.once("keys of boxes with sizes", lambda: _keys_of_sizes(index))
        for call in file.calls_to(*_OF_CORNERS) if corners else ():
            for value in call.node.args[:2]:
                for origin in index.origins(value, call.function, call.line):
                    key = _key(origin.value)
                    if key in corners:
                        yield self.hit(
                            call.node,
                            f"`{call.tail}` takes corners, and {key!r} holds boxes of COCO, (x, y, width, height) "
                            f"({corners[key]})",
                            remedy='convert them in the data set, `box_convert(boxes, "xywh", "xyxy")`',
                            confidence=Confidence.MODERATE,
                            basis=FOLLOWED,
                        )

    def _flips(self, path: str, assignments: list[Assignment], function: Function) -> Iterator[RuleMatch]:
        for made in assignments:
            columns, mirrored = _columns(made.node), _mirrored(made.value, path)
            if made.is_augmented or columns is None or mirrored is None or columns != mirrored:
                continue
            if (
                columns in ((0, 2), (1, 3))
                and not _UNORDERED.search(path)
                and not _is_sorted_later(path, made, assignments, function)
            ):
                yield self.hit(
                    made.statement,
                    f"a mirror exchanges both edges: now column {columns[0]} is larger than column {columns[1]}",
                    remedy=f"exchange them: `- {path}[:, [{columns[1]}, {columns[0]}]]`",
                    basis=SEEN,
                )
            elif columns == (0,) and _is_of_coco(path, made, function) and len(assignments) == 1:
                yield self.hit(
                    made.statement,
                    f"{path!r} are boxes of COCO, (x, y, width, height): the mirrored left edge is W - x - width",
                    remedy=f"subtract the width as well: `- {path}[:, 2]`",
                    confidence=Confidence.MODERATE,
                    basis=f"{INFERRED}: 'bbox' of COCO",
                )


def _columns(node: ast.expr) -> tuple[int, ...] | None:
    """Return the columns that square brackets take: `b[:, [0, 2]]`, `b[:, 0]`, `b[..., 0::2]`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
        return None
    match node.slice.elts:
        case [_, ast.Constant(value=int(column))]:
            return (column,)
        case [_, ast.List(elts=parts) | ast.Tuple(elts=parts)]:
            numbers = [each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, int)]
            return tuple(numbers) if len(numbers) == len(parts) else None
        case [_, ast.Slice(lower=None | ast.Constant(value=0), upper=None, step=ast.Constant(value=2))]:
            return (0, 2)
        case [_, ast.Slice(lower=ast.Constant(value=1), upper=None, step=ast.Constant(value=2))]:
            return (1, 3)
        case _:
            return None


def _mirrored(value: ast.expr, path: str) -> tuple[int, ...] | None:
    """Return the columns of `W - boxes[:, columns]`."""
    match value:
        case ast.BinOp(op=ast.Sub(), right=ast.Subscript(value=base) as right) if dotted(base) == path:
            return _columns(right)
        case _:
            return None


def _is_sorted_later(path: str, made: Assignment, assignments: list[Assignment], function: Function) -> bool:
    """Return whether the edges are exchanged, or sorted, afterwards."""
    if any(each.line > made.line and each is not made and _columns(each.node) != (1, 3) for each in assignments):
        return True
    for node in walk(function.node):
        match node:
            case ast.Subscript(value=base, slice=ast.Tuple(elts=[_, ast.List(elts=parts)])) if dotted(base) == path:
                if node.lineno > made.line and len(parts) > 2:  # noqa: PLR2004 - all four columns in another order
                    return True
            case ast.Call(func=ast.Attribute(attr="sort" | "minimum" | "min" | "swapaxes" | "flip")):
                if node.lineno > made.line and path in {
                    dotted(each) for each in walk(node) if isinstance(each, ast.Name)
                }:
                    return True
            case _:
                pass
    return False


def _is_of_coco(path: str, made: Assignment, function: Function) -> bool:
    """Return whether boxes are what annotations of COCO give, as they are."""
    source = function.last_assignment(path, made.line)
    text = ast.unparse(source.value) if source is not None else ""
    is_coco = any(call.tail in {"loadAnns", "getAnnIds", "loadImgs"} for call in function.calls)
    return is_coco and "['bbox']" in text and "box_convert" not in text


def _key(node: ast.expr) -> str:
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case _:
            return ""


def _keys_of_sizes(index: ProjectIndex) -> dict[str, str]:
    """Return the keys under which data sets give boxes of COCO as they are, each with its place."""
    found: dict[str, str] = {}
    for call in index.calls_ending("loadAnns"):
        function = call.function
        turned = {each.tail for each in function.calls} & {"box_convert", "BoundingBoxes"}
        for node in walk(function.node) if not turned else ():
            if not isinstance(node, ast.Dict):
                continue
            for key, value in zip(node.keys, node.values, strict=True):
                path = dotted(value)
                source = function.last_assignment(path, node.lineno) if path else None
                is_key = isinstance(key, ast.Constant) and isinstance(key.value, str)
                made = ast.unparse(source.value) if source is not None else ""
                changed = [each for each in function.assignments.get(f"{path}[]", ()) if _columns(each.node) != (0,)]
                if source is not None and is_key and not changed and "['bbox']" in made and not set("+*") & set(made):
                    found[key.value] = f"{function.file.path}:{source.line}"  # type: ignore[union-attr]
    return found
