"""ESP255: a training goes over its data in the same order in every epoch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.loaders import feeding_a_training
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, INFERRED, Rule
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_LOADERS = (
    "torch.utils.data.DataLoader",
    "torch.utils.data.dataloader.DataLoader",
    "torch_geometric.loader.DataLoader",
)
_MAPPED = pattern(
    r"torchvision\.datasets\.\w+|torch\.utils\.data\.(?:dataset\.)?(?:TensorDataset|Subset|random_split|ConcatDataset)"
    r"|torchaudio\.datasets\.\w+"
)
_HELD_OUT = pattern(r"(?<![a-z])(?:val|valid|validation|test|eval|dev|calib|infer|pred\w*)(?![a-z])")
_ORDERED = pattern(
    r"(?<![a-z])(?:seq\w*|series|stream\w*|iter\w*|window\w*|temporal|lm|text|corpus|time\w*|sample\w*|shard\w*|web\w*|buffer|replay|rollout\w*|synth\w*)(?![a-z])"
)
_RANDOM = pattern(r"rand|choice|shuffle|permutation|multinomial|sample")


class TrainingDataInOrder(Rule):
    """A training loader of a data set that is indexed, without `shuffle=True` and without a sampler.

    ## Why it costs
    The order of the files is the order of the batches, in every epoch. If the data is sorted by class or by source, as
    in a folder of images, each batch holds one class: gradients are biased, batch norm sees one class at a time, and
    the model ends up tuned to the last ones. `shuffle` is `False` by default.

    ## When it is right
    The order carries meaning, as in a sequence whose state goes from batch to batch, the data set shuffles itself, or
    one batch holds all data. Where `shuffle=False` is written it is a suggestion. Data sets that are iterated, samplers
    and data sets that draw at random are not reported.

    ## Sources
    PyTorch documentation of `torch.utils.data.DataLoader` (`shuffle`). Bottou, "Stochastic Gradient Descent Tricks".
    """

    code, name = "ESP255", "training-data-in-order"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch.utils.data import DataLoader\n"
        "from torchvision import datasets\n"
        "\n"
        'train_set = datasets.ImageFolder("train")\n'
        "loader = DataLoader(train_set, batch_size=32)\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    torch.nn.functional.cross_entropy(model(x), y).backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("batch_size=32", "batch_size=32, shuffle=True")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the loaders of trainings that keep the order of an indexed data set."""
        if file.purpose is not Purpose.CODE:
            return
        for call in file.calls_to(*_LOADERS):
            if not _is_in_order(call) or call.node not in feeding_a_training(index):
                continue
            known = _is_mapped(call, index)
            name = dotted(data) if (data := call.argument(0, "dataset")) is not None else ""
            if known is False or _HELD_OUT.search(f"{name} {_bound(call)}".lower()) or _ORDERED.search(name.lower()):
                continue
            if (known is None and not _shuffles_another(call)) or _is_run_without_optimizer(call):
                continue
            yield self.hit(
                call.node,
                "a training goes over this loader, which keeps the order of its data in every epoch",
                remedy="pass `shuffle=True`",
                confidence=Confidence.MODERATE,
                basis=f"{INFERRED}: if the order of the samples means nothing" if known else FOLLOWED,
                severity=Severity.SUGGESTION if call.argument(2, "shuffle") is not None else None,
            )


def _is_in_order(call: Call) -> bool:
    """Return whether a loader has no sampler, does not shuffle, and makes batches of a part of the data."""
    if call.has_splat() or any(
        call.argument(at, name) is not None for at, name in ((3, "sampler"), (4, "batch_sampler"))
    ):
        return False
    shuffle, size = call.argument(2, "shuffle"), call.argument(1, "batch_size")
    if shuffle is not None and not (isinstance(shuffle, ast.Constant) and shuffle.value is False):
        return False
    is_whole = (
        size is None or "len(" in ast.unparse(size) or (isinstance(size, ast.Constant) and size.value in {None, 1})
    )
    return not is_whole


def _is_mapped(call: Call, index: ProjectIndex) -> bool | None:
    """Return whether the data set of a loader is indexed in a fixed order; None if it is not known."""
    data = call.argument(0, "dataset")
    if data is None:
        return False
    found = [_kind(each, index) for each in index.origins(data, call.function, call.line)]
    if False in found:
        return False
    return True if found and all(found) else None


def _kind(origin: Origin, index: ProjectIndex) -> bool | None:
    value, function = origin.value, origin.function
    if isinstance(value, ast.Name):
        made = index.binding(value.id, function, origin.line)
        if made is not None and made.is_unpacked and isinstance(made.value, ast.Call):
            return True if _MAPPED.fullmatch(resolve(dotted(made.value.func), made.block.function)) else None
        return None
    if not isinstance(value, ast.Call):
        return None
    owner = index.class_called(value, function)
    if owner is not None:
        return _is_fixed(owner.methods, index.lineage(owner).foreign)
    if tail_of(dotted(value.func)) == "TensorDataset" and any(_is_drawn(each, origin, index) for each in value.args):
        return False
    return True if _MAPPED.fullmatch(resolve(dotted(value.func), function)) else None


def _is_drawn(value: ast.expr, origin: Origin, index: ProjectIndex) -> bool:
    """Return whether a tensor is made of random numbers, whose order means nothing."""
    made = [each.value for each in index.origins(value, origin.function, origin.line)]
    return any(_RANDOM.search(tail_of(dotted(each.func))) for each in made if isinstance(each, ast.Call))


def _is_fixed(methods: dict[str, Function], bases: frozenset[str]) -> bool | None:
    """Return whether a data set of the project is indexed, and nothing in it draws at random."""
    if "__iter__" in methods or any("Iterable" in tail_of(base) for base in bases):
        return False
    if "__getitem__" not in methods or "__len__" not in methods:
        return None
    return not any(_RANDOM.search(call.path) for each in methods.values() for call in each.calls)


def _bound(call: Call) -> str:
    statement = call.statement
    return " ".join(map(dotted, statement.targets)) if isinstance(statement, ast.Assign) else call.function.name


def _is_run_without_optimizer(call: Call) -> bool:
    """Return whether a loader is only passed along with `None` or `False` where another one is not: no training.

    One function then trains and evaluates: `run_epoch(model, held_out, None)`.
    """
    name = _bound(call)
    uses = [each for each in call.function.calls if name in {dotted(argument) for argument in each.node.args}]
    return bool(uses) and all(
        any(
            len(other.node.args) == len(use.node.args) and other.path == use.path and other is not use
            for other in call.function.calls
        )
        and any(
            isinstance(each, ast.Constant) and each.value in {None, False}
            for each in (*use.node.args, *(keyword.value for keyword in use.node.keywords))
        )
        for use in uses
    )


def _shuffles_another(call: Call) -> bool:
    """Return whether the function of a loader shuffles another one that is held out: the two are mixed up."""
    for other in call.function.calls:
        shuffle = other.argument(2, "shuffle") if other.tail == call.tail and other is not call else None
        is_on = isinstance(shuffle, ast.Constant) and shuffle.value is True
        data = other.argument(0, "dataset")
        if is_on and data is not None and _HELD_OUT.search(f"{dotted(data)} {_bound(other)}".lower()):
            return True
    return False
