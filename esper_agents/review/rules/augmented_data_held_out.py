"""ESP254: data that is held out is augmented at random, because the data set was augmented before the split."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_SPLITS = ("torch.utils.data.random_split", "torch.utils.data.dataset.random_split")
_SUBSETS = ("torch.utils.data.Subset", "torch.utils.data.dataset.Subset")
_RANDOM = pattern(
    r"Random\w+|ColorJitter|AutoAugment|RandAugment|TrivialAugment\w*|AugMix|Shift\w+|\w*Flip|CoarseDropout|ElasticTransform"
)
_HELD_OUT = pattern(r"(?<![a-z])(?:val|valid|validation|test|eval|dev|holdout)\w*")
_LIBRARIES = ("torchvision.", "albumentations.", "monai.transforms", "torchaudio.", "kornia.")
_STEPS = 3


class AugmentedDataHeldOut(Rule):
    """A data set with random augmentation that is split, so that its validation part is augmented as well.

    ## Why it costs
    `random_split` and `Subset` index into one data set with one transform. Crops, flips and jitter at random make the
    validation score worse and noisy: it is measured on other data than will be predicted, the best epoch is chosen by
    chance, and two runs cannot be compared.

    ## When it is right
    Two data sets with two transforms, each with its own indices of the same split. Reported only if the transform that
    the data set is made with is in sight and draws at random, and the held out part gets no other one.

    ## Sources
    PyTorch documentation of `torch.utils.data.random_split` and `Subset`; torchvision documentation of transforms.
    """

    code, name = "ESP254", "augmented-data-held-out"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "from torch.utils.data import random_split\n"
        "from torchvision import datasets, transforms\n"
        "\n"
        "augment = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])\n"
        'full = datasets.ImageFolder("data", transform=augment)\n'
        "train_set, val_set = random_split(full, [0.9, 0.1])\n"
    )
    good = (
        "from torch.utils.data import Subset\n"
        "from torchvision import datasets, transforms\n"
        "\n"
        "augment = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])\n"
        'train_set = Subset(datasets.ImageFolder("data", transform=augment), train_indices)\n'
        'val_set = Subset(datasets.ImageFolder("data", transform=transforms.ToTensor()), val_indices)\n'
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the splits whose held out part is augmented at random."""
        for call in file.calls_to(*_SPLITS, *_SUBSETS):
            data = call.argument(0, "dataset")
            held_out = _held_out(call)
            if data is None or not held_out or _sets_transform(call, held_out):
                continue
            for origin in index.origins(data, call.function, call.line):
                drawn = _drawn(origin, index)
                if drawn:
                    is_here = origin.function is call.function
                    yield self.hit(
                        call.node,
                        f"{held_out!r} is a part of a data set (line {origin.value.lineno}) whose transform draws "
                        f"`{drawn}`: it is augmented at random as well",
                        remedy="make a second data set without augmentation, and take the same indices of it",
                        confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
                        basis=SEEN if is_here else FOLLOWED,
                    )
                    break


def _held_out(call: Call) -> str:
    """Return the name of the held out part that a split is bound to; empty if there is none."""
    statement = call.statement
    if not isinstance(statement, ast.Assign) or statement.value is not call.node:
        return ""
    target = statement.targets[0]
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return next((dotted(part) for part in parts if _HELD_OUT.search(tail_of(dotted(part)).lower())), "")


def _sets_transform(call: Call, held_out: str) -> bool:
    """Return whether a function gives a part another transform, or wraps it, after the split."""
    paths = call.function.assignments
    if any("transform" in tail_of(path) and path.count(".") > int(path.startswith("self.")) for path in paths):
        return True
    made = paths.get(held_out, ())
    if len(made) > 1:
        return True
    wrapping = ("copy", "deepcopy", "setattr")
    return any(
        (
            each.line > call.line
            and any(held_out == dotted(arg) for arg in each.node.args)
            and each.tail != "DataLoader"
            and (each.tail[:1].isupper() or each.tail in wrapping)
        )
        for each in call.function.calls
    )


def _drawn(origin: Origin, index: ProjectIndex) -> str:
    """Return the random transform that a data set is made with; empty if none is in sight."""
    value = origin.value
    if not isinstance(value, ast.Call):
        return ""
    given = next(
        (each.value for each in value.keywords if each.arg in {"transform", "transforms", "train_transform"}), None
    )
    candidates = [given] if given is not None else value.args[1:]
    for each in candidates:
        for made in index.origins(each, origin.function, origin.line):
            found = _random_in(made, index, _STEPS)
            if found:
                return found
    return ""


def _random_in(made: Origin, index: ProjectIndex, steps: int) -> str:
    """Return a random transform that a value holds, itself, in what it names or in what a function returns."""
    value, function = made.value, made.function
    if not isinstance(value, ast.Call | ast.List) or not steps:
        return ""
    for each in walk(value):
        name = resolve(dotted(each.func), function) if isinstance(each, ast.Call) else ""
        if name.startswith(_LIBRARIES) and _RANDOM.fullmatch(tail_of(name)):
            return tail_of(name)
    named = [part for part in (value.args if isinstance(value, ast.Call) else []) if isinstance(part, ast.Name)]
    inside = [each for part in named for each in index.origins(part, function, made.line) if each.value is not part]
    called = index.function_named(value, function) if isinstance(value, ast.Call) else None
    returns = [each.value for each, _ in called.returns if each.value is not None] if called is not None else []
    if called is not None and len(returns) == 1:
        inside += index.origins(returns[0], called, returns[0].lineno)
    return next((found for each in inside if (found := _random_in(each, index, steps - 1))), "")
