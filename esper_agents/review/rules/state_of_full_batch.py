"""ESP147: a recurrent state has the size of a full batch, and the loader keeps the last, smaller batch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted
from esper_agents.review.objects import position_of
from esper_agents.review.rule import INFERRED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_MAKERS = ("torch.zeros", "torch.randn", "torch.rand", "torch.ones", "torch.empty")
_LAYERS = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
# Layers, batch, size.
_AXES = 3


class StateOfFullBatch(Rule):
    """A first state `zeros(layers, BATCH, size)` where the last batch of a loader is smaller than `BATCH`.

    ## Why it costs
    A recurrent layer raises where the state has another batch size than its input. The last batch of an epoch is
    smaller unless the data divide evenly: training fails at the end of its first epoch.

    ## When it is right
    Loaders with `drop_last=True`, and states of the input's size. Only states are judged whose size is the same value
    as the `batch_size` of a loader.

    ## Sources
    PyTorch documentation of `torch.nn.LSTM` (inputs) and `torch.utils.data.DataLoader` (`drop_last`).
    """

    code, name = "ESP147", "state-of-full-batch"
    severity, category = Severity.WARNING, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "from torch.utils.data import DataLoader\n"
        "\n"
        "BATCH = 32\n"
        "\n"
        "\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.rnn = nn.GRU(4, 8, batch_first=True)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.rnn(x, torch.zeros(1, BATCH, 8, device=x.device))[0]\n"
        "\n"
        "\n"
        "def load(data):\n"
        "    return DataLoader(data, batch_size=BATCH, num_workers=2)\n"
    )
    good = bad.replace("torch.zeros(1, BATCH, 8", "torch.zeros(1, x.size(0), 8")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the states that are as large as a full batch."""
        for call in file.calls:
            state = call.argument(1, "hx") if call.path.startswith("self.") else None
            if state is None or not _is_recurrent(call, index):
                continue
            for made in _made(state, call.function, call.line, 3):
                size = _batch_size(made)
                keeping = _loader_keeping(size, call.function, made.lineno, index) if size is not None else None
                if size is not None and keeping is not None:
                    yield self.hit(
                        made,
                        f"this state is for {ast.unparse(size)!r} samples, and the last batch of the loader "
                        f"({keeping}) is smaller",
                        remedy="take the size of the input, or pass `drop_last=True` to the loader",
                        confidence=Confidence.MODERATE,
                        basis=f"{INFERRED}: unless the number of samples divides evenly",
                    )
                    break


def _is_recurrent(call: Call, index: ProjectIndex) -> bool:
    origins = index.origins(call.node.func, call.function, call.line)
    return bool(origins) and all(
        isinstance(each.value, ast.Call) and resolve(dotted(each.value.func), each.function) in _LAYERS
        for each in origins
    )


def _made(node: ast.expr, function: Function, line: int, steps: int) -> Iterator[ast.Call]:
    """Yield the calls that make a state, or the parts of one."""
    if isinstance(node, ast.Tuple):
        for each in node.elts:
            yield from _made(each, function, line, steps)
    elif isinstance(node, ast.Name) and steps:
        found = function.last_assignment(node.id, line)
        if found is not None and position_of(found) == (0, 0):
            yield from _made(found.value, function, found.line, steps - 1)
    elif isinstance(node, ast.Call):
        while isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            node = node.func.value
        if resolve(dotted(node.func), function) in _MAKERS:
            yield node


def _batch_size(made: ast.Call) -> ast.expr | None:
    """Return the second of three sizes, where it is a name."""
    given = made.args[0] if len(made.args) == 1 else None
    sizes = given.elts if isinstance(given, ast.Tuple | ast.List) else made.args
    return sizes[1] if len(sizes) == _AXES and isinstance(sizes[1], ast.Name | ast.Attribute) else None


def _loader_keeping(size: ast.expr, function: Function, line: int, index: ProjectIndex) -> str | None:
    """Return the place of a loader with this batch size that keeps its last batch."""
    numbers = _numbers(size, function, line, index)
    loaders = [each for file in index.files.values() for each in file.calls_to(*_LOADERS)] if numbers else []
    if any(each.has_splat() or each.argument(8, "drop_last") is not None for each in loaders):
        return None
    for loader in loaders:
        batch = loader.argument(1, "batch_size")
        if batch is not None and numbers & _numbers(batch, loader.function, loader.line, index):
            return f"{loader.function.file.path}:{loader.line}"
    return None


def _numbers(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> set[int]:
    """Return which constants of the source a value may be, also of an imported module; none if it may be more."""
    found = set[int]()
    for origin in index.origins(value, function, line):
        number = origin.value
        module, _, name = resolve(dotted(number), origin.function).rpartition(".")
        file = index.module(module) if module and isinstance(number, ast.Name) else None
        bound = file.functions[0].assignments.get(name, []) if file is not None else []
        number = bound[0].value if len(bound) == 1 else number
        if not isinstance(number, ast.Constant):
            return set()
        found.add(id(number))
    return found
