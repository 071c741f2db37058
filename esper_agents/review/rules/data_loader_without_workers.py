"""ESP406: batches are loaded in the training process itself while the GPU waits."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.devices import uses_gpu
from esper_agents.review.index import Origin
from esper_agents.review.loaders import LOADERS, WRAPPINGS, feeding_a_training, has_no_workers
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.rule import INFERRED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

# Functions that make a part of a dataset, or several, out of what they are given first.
_PARTS = frozenset({"Subset", "random_split", "ConcatDataset"})
_READY = frozenset({"TensorDataset", "list", "range", "zip"})


class DataLoaderWithoutWorkers(Rule):
    """A `DataLoader` that feeds a training loop on a GPU and has no worker processes.

    ## Why it costs
    With `num_workers=0`, the default, every batch is read, decoded and put together in the training process, between
    two steps. Meanwhile the GPU has nothing to do.

    ## When it is right
    The data are tensors in memory already, reading them costs next to nothing, or the loader is only used to evaluate.
    A `TensorDataset`, a list and an iterable dataset are not reported, nor is a loader over which nothing trains. How
    long the loading takes was not measured: a profile of a few steps says whether the GPU waits.

    ## Sources
    PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation"; documentation of
    `torch.utils.data.DataLoader`: the parameter `num_workers`.
    """

    code, name = "ESP406", "data-loader-without-workers"
    severity, category = Severity.SUGGESTION, Category.PERFORMANCE
    bad = (
        "import torch\n"
        "from torch.utils.data import DataLoader\n"
        "\n"
        "\n"
        "def fit(model, pictures, optimizer):\n"
        "    step = torch.compile(model.cuda())\n"
        "    for x in DataLoader(pictures, batch_size=64, shuffle=True, pin_memory=True):\n"
        "        optimizer.zero_grad()\n"
        "        step(x.cuda()).backward()\n"
        "        optimizer.step()\n"
    )
    good = (
        "import torch\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "\n"
        "\n"
        "def fit(model, pictures, optimizer):\n"
        "    step = torch.compile(model.cuda())\n"
        "    for x in DataLoader(pictures, batch_size=64, shuffle=True, num_workers=8, pin_memory=True):\n"
        "        optimizer.zero_grad()\n"
        "        step(x.cuda()).backward()\n"
        "        optimizer.step()\n"
        "\n"
        "\n"
        "def fit_small(model, x, y, optimizer):\n"
        "    data = TensorDataset(x, y)\n"
        "    loader = DataLoader(data, batch_size=64)\n"
        "    for features, labels in loader:\n"
        "        optimizer.zero_grad()\n"
        "        model(features, labels).backward()\n"
        "        optimizer.step()\n"
        "\n"
        "\n"
        "def score(model, held_out):\n"
        "    with torch.inference_mode():\n"
        "        return [model(x.cuda()) for x in DataLoader(held_out, batch_size=64)]\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the loaders without workers that training loops go over."""
        made = [call for call in file.calls_to(*LOADERS) if has_no_workers(call)]
        if not made or not uses_gpu(index):
            return
        feeding = feeding_a_training(index)
        for call in made:
            if call.node in feeding and not _is_ready_made(call, index):
                yield self.hit(
                    call.node,
                    "every batch is loaded in the training process itself, while the GPU waits for it",
                    remedy="try `num_workers=4, pin_memory=True, persistent_workers=True`, and measure",
                    confidence=Confidence.LOW,
                    basis=f"{INFERRED}: how long the loading takes was not measured",
                )


def _is_ready_made(call: Call, index: ProjectIndex) -> bool:
    """Return whether the data lie in memory as they are needed, or come from a stream that workers would repeat."""
    data = call.argument(0, "dataset")
    return data is None or _is_in_memory(Origin(data, call.function, call.line), index, WRAPPINGS)


def _is_in_memory(source: Origin, index: ProjectIndex, steps: int) -> bool:
    """Return whether a dataset may be one, by what made it; a helper that made it is looked into."""
    for origin in index.origins(source.value, source.function, source.line) if steps else ():
        value, function = origin.value, origin.function
        if isinstance(value, ast.List | ast.Tuple | ast.ListComp):
            return True
        if not isinstance(value, ast.Call):
            continue
        if tail_of(dotted(value.func)) in _READY or _is_stream(value, origin, index):
            return True
        if tail_of(dotted(value.func)) in _PARTS and value.args:
            inside = [Origin(value.args[0], function, origin.line)]
        else:
            inside = [Origin(end, each, end.lineno + 1) for each, end in _handed_back(value, function, index)]
        if any(_is_in_memory(each, index, steps - 1) for each in inside):
            return True
    return False


def _is_stream(value: ast.Call, origin: Origin, index: ProjectIndex) -> bool:
    owner = index.class_of(value, origin.function, origin.line)
    bases = index.lineage(owner).foreign if owner is not None else ()
    return any(tail_of(base) in {"IterableDataset", "TensorDataset"} for base in bases)


def _handed_back(value: ast.Call, function: Function, index: ProjectIndex) -> Iterator[tuple[Function, ast.expr]]:
    """Yield what the functions that a call reaches return."""
    call = next((each for each in function.calls if each.node is value), None)
    for called in index.callees(call) if call is not None else ():
        for statement, _ in called.returns:
            if statement.value is not None:
                yield called, statement.value
