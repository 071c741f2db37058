"""ESP297: the weights of a sampler belong to other samples than the subset that it draws from."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_SPLIT = "torch.utils.data.random_split"
_TARGETS = frozenset({"targets", "labels", "samples", "imgs", "y", "classes_of_samples"})
_STEPS = 6


class WeightsOfAnotherSubset(FileRule):
    """Labels of the whole data set for a part that `random_split` has drawn.

    ## Why it costs
    `random_split` shuffles before it cuts: sample i of the part is sample `part.indices[i]` of the whole. The first n
    labels of the whole belong to other samples, so that a sampler with weights by class draws at random, and labels
    that are compared with predictions are wrong.

    ## When it is right
    Labels by the indices of the part: `targets[part.indices]`, and parts that keep the order, such as
    `Subset(data, range(n))`.

    ## Sources
    PyTorch documentation of `torch.utils.data.random_split` and `WeightedRandomSampler`.
    """

    code, name = "ESP297", "weights-of-another-subset"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch.utils.data import random_split\n"
        "\n"
        "\n"
        "def parts(data, n):\n"
        "    train, test = random_split(data, [n, len(data) - n])\n"
        "    labels = torch.tensor(data.targets)[: len(train)]\n"
        "    return train, labels\n"
    )
    good = bad.replace("[: len(train)]", "[train.indices]")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the labels of the whole that are taken for those of a drawn part."""
        for split in file.calls_to(_SPLIT):
            whole = split.argument(0, "dataset")
            parts = _parts(split)
            path = dotted(whole) if whole is not None else ""
            if not parts or not path:
                continue
            for node in _cut_labels(split, path, parts):
                yield self.hit(
                    node,
                    f"{path!r} was shuffled before it was cut (line {split.line}): these are the labels of others",
                    remedy=f"take the labels by index: `[i] for i in {parts[0].target}.indices`",
                    basis=SEEN,
                )
            for sampler in _samplers(split, path, parts):
                yield self.hit(
                    sampler,
                    f"these weights are of the whole {path!r}, and the loader draws from a part of it",
                    remedy=f"compute the weights of the samples `{parts[0].target}.indices`",
                    basis=SEEN,
                )


def _parts(split: Call) -> list[Assignment]:
    """Return what a split is unpacked to."""
    known = split.function.assignments.values()
    return [each for found in known for each in found if each.value is split.node and each.target.isidentifier()]


def _cut_labels(split: Call, path: str, parts: list[Assignment]) -> Iterator[ast.Subscript]:
    """Yield the slices of labels of the whole that are as long as a part."""
    sizes = split.argument(1, "lengths")
    lengths = {f"len({each.target})" for each in parts}
    if isinstance(sizes, ast.List | ast.Tuple) and sizes.elts and isinstance(sizes.elts[0], ast.Name):
        lengths.add(ast.unparse(sizes.elts[0]))
    for node in walk(split.function.node):
        if not isinstance(node, ast.Subscript) or node.lineno < split.line or not isinstance(node.slice, ast.Slice):
            continue
        bounds = [each for each in (node.slice.lower, node.slice.upper) if each is not None]
        is_cut = len(bounds) == 1 and node.slice.step is None and ast.unparse(bounds[0]) in lengths
        if is_cut and _holds_labels(node.value, path, split.function, node.lineno, _STEPS):
            yield node


def _samplers(split: Call, path: str, parts: list[Assignment]) -> Iterator[ast.expr]:
    """Yield the samplers with weights of the whole of loaders of a part."""
    names = {each.target for each in parts}
    function = split.function
    for loader in function.calls:
        data, sampler = loader.argument(0, "dataset"), loader.argument(3, "sampler")
        if loader.tail != "DataLoader" or data is None or sampler is None or dotted(data) not in names:
            continue
        if isinstance(sampler, ast.Name):
            found = function.last_assignment(sampler.id, loader.line)
            sampler = found.value if found is not None else sampler
        if not isinstance(sampler, ast.Call) or tail_of(dotted(sampler.func)) != "WeightedRandomSampler":
            continue
        weights = sampler.args[0] if sampler.args else None
        if weights is not None and _holds_labels(weights, path, function, loader.line, _STEPS):
            yield sampler


def _holds_labels(node: ast.expr, path: str, function: Function, line: int, steps: int) -> bool:
    """Return whether a value has an element for each sample of the whole: it is made of its labels, without indices."""
    parts = list(walk(node))
    if any(isinstance(each, ast.Attribute) and each.attr == "indices" for each in parts):
        return False
    if any(isinstance(each, ast.Slice) or (isinstance(each, ast.Name) and "ind" in each.id) for each in parts):
        return False
    for each in parts if steps else ():
        if isinstance(each, ast.Attribute) and each.attr in _TARGETS and dotted(each.value) == path:
            return True
        if isinstance(each, ast.Name):
            found = function.last_assignment(each.id, line)
            if (
                found is not None
                and not found.is_unpacked
                and _holds_labels(found.value, path, function, found.line, steps - 1)
            ):
                return True
    return False
