"""ESP293: a transform is set on the data set behind one part of a split, and so on that of all parts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_SPLITS = ("torch.utils.data.random_split", "torch.utils.data.dataset.random_split")
_SUBSETS = ("torch.utils.data.Subset", "torch.utils.data.dataset.Subset")
_TRANSFORMS = frozenset({"transform", "transforms", "target_transform"})


class TransformOfSharedData(FileRule):
    """A transform that is set on `val_set.dataset`, where `val_set` is one of several parts of one data set.

    ## Why it costs
    `random_split` and `Subset` copy nothing: all parts index into one data set. `val_set.dataset.transform = plain`
    takes the augmentation away from training as well, and of two transforms set one after the other the last one holds
    for both parts. Nothing raises: the model overfits, or is measured on augmented data.

    ## When it is right
    One transform for all parts, set once on a data set that has none. The part was given a copy of the data set before.
    The transform is exchanged in a loop, before each training and each validation.

    ## Sources
    PyTorch documentation of `torch.utils.data.Subset`: `dataset` is the whole data set.
    """

    code, name = "ESP293", "transform-of-shared-data"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "from torch.utils.data import random_split\n"
        "from torchvision import datasets\n"
        "\n"
        'full = datasets.ImageFolder("data", transform=augment)\n'
        "train_set, val_set = random_split(full, [0.9, 0.1])\n"
        "val_set.dataset.transform = plain\n"
    )
    good = (
        "from torch.utils.data import Subset, random_split\n"
        "from torchvision import datasets\n"
        "\n"
        'full = datasets.ImageFolder("data", transform=augment)\n'
        "train_set, val_set = random_split(full, [0.9, 0.1])\n"
        'val_set = Subset(datasets.ImageFolder("data", transform=plain), val_set.indices)\n'
    )

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the transforms that are set on one part and hold for all."""
        seen: set[ast.AST] = set()
        for call in file.calls_to(*_SPLITS, *_SUBSETS):
            parts = _parts(call)
            given = [(part, each) for part in parts for each in _set_on(part, call)]
            differ = {ast.unparse(each.value) for _, each in given}
            has_own = _is_made_with_transform(call)
            if len(parts) < 2 or not given or not (has_own or len(differ) > 1):  # noqa: PLR2004 - parts of one split
                continue
            part, last = max(given, key=lambda each: each[1].line)
            if last.statement in seen:
                continue
            seen.add(last.statement)
            others = ", ".join(repr(each) for each in parts if each != part)
            yield self.hit(
                last.statement,
                f"{part!r} and {others} are parts of one data set (line {call.line}): from here on this transform "
                "holds for all of them",
                remedy="make a second data set with the other transform, and take the indices of the part of it",
                confidence=Confidence.HIGH,
                basis=SEEN,
            )


def _parts(call: Call) -> list[str]:
    """Return the names of the parts that share the data set of a split or of a subset."""
    data = call.argument(0, "dataset")
    if call.tail == "random_split":
        targets = _targets(call)
        return [dotted(each) for each in targets[0].elts] if targets and isinstance(targets[0], ast.Tuple) else []
    if not isinstance(data, ast.Name | ast.Attribute):
        return []
    function = call.function
    same = [
        each
        for each in function.calls
        if each.tail == "Subset" and dotted(each.argument(0, "dataset") or ast.Constant(None)) == dotted(data)
    ]
    first, last = min(each.line for each in same), max(each.line for each in same)
    if any(first < each.line <= last for each in function.assignments.get(dotted(data), ())):
        return []
    return list(dict.fromkeys(dotted(targets[0]) for each in same if (targets := _targets(each))))


def _targets(call: Call) -> list[ast.expr]:
    statement = call.statement
    return statement.targets if isinstance(statement, ast.Assign) and statement.value is call.node else []


def _set_on(part: str, call: Call) -> list[Assignment]:
    """Return the transforms set on the data set behind a part that is still what the split made of it."""
    assignments = call.function.assignments
    renewed = [
        each.line
        for path in (part, f"{part}.dataset")
        for each in assignments.get(path, ())
        if each.statement is not call.statement
    ]
    return [
        each
        for name in _TRANSFORMS
        for each in assignments.get(f"{part}.dataset.{name}", ())
        if each.line > call.line and each.block.loop is None and not any(call.line <= line for line in renewed)
    ]


def _is_made_with_transform(call: Call) -> bool:
    """Return whether the data set was made with a transform of its own, as far as this function shows."""
    data = call.argument(0, "dataset")
    made: ast.expr | None = data
    if isinstance(data, ast.Name | ast.Attribute):
        found = _last(call.function, dotted(data), call.line)
        made = found.value if found is not None else None
    return isinstance(made, ast.Call) and any(
        each.arg in _TRANSFORMS and not (isinstance(each.value, ast.Constant) and each.value.value is None)
        for each in made.keywords
    )


def _last(function: Function, path: str, line: int) -> Assignment | None:
    found = function.last_assignment(path, line)
    return found if found is not None and not found.is_unpacked else None
