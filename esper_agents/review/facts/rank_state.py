"""State of modules that differs between the processes of distributed training."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.definition_text import attributes_of, main_method, path_of_calls
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.tensor_tests import buffers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Class, FileTables, Function

_WRAPPER = "DistributedDataParallel"
_COLLECTIVES = frozenset(
    {"all_reduce", "all_gather", "all_gather_into_tensor", "reduce", "broadcast", "gather", "reduce_scatter", "sync"}
    | {"gather_for_metrics", "reduce_dict", "all_gather_object", "concat_all_gather"}
)
_BATCH_NORMS = frozenset({"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"})


class RankState(FactQuery):
    """Buffers that a module changes from its batch, which is another one on each rank, and batch norms under DDP."""

    name = "rank-state"
    topics = ("distributed training",)
    claim = "the state of a module differs between ranks"
    refutes = False
    category = Category.SILENT_CORRECTNESS
    unseen = "whether the state is combined outside these files"
    bad = (
        "import torch\nfrom torch import nn\n\n\nclass Codes(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.register_buffer('mean', torch.zeros(8))\n\n"
        "    def forward(self, x):\n        self.mean.lerp_(x.mean(0), 0.1)\n        return x - self.mean\n"
    )
    good = bad.replace("        self.mean.lerp_", "        torch.distributed.all_reduce(x)\n        self.mean.lerp_")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the state that forward changes, and layers that count per rank."""
        wrapped = [call for each in index.files.values() for call in each.calls_ending(_WRAPPER)]
        keeps = any(_is_false(call.argument(-1, "broadcast_buffers")) for call in wrapped)
        converts = not wrapped or any(each.calls_ending("convert_sync_batchnorm") for each in index.files.values())
        for file in files:
            for owner in file.classes:
                if index.is_module(owner) and (used := main_method(owner, index)) is not None:
                    yield from self._changed(owner, used, index, keeps=keeps)
                    if not converts:
                        yield from self._batch_norms(owner)

    def _changed(self, owner: Class, used: Function, index: ProjectIndex, *, keeps: bool) -> Iterator[Fact]:
        path = [call for call in path_of_calls(used, owner, index) if call.owner is owner]
        if any(tail_of(name) in _COLLECTIVES for each in path for name in index.reached(each)):
            return
        buffers = {f"self.{name}" for name in buffers_of(owner)}
        seen: set[str] = set()
        for function in path:
            if function.name == "__init__":
                continue
            given = _from_batch(function)
            for node, target, value in _changes(function):
                if target in seen or target not in buffers or not any(each.id in given for each in _names_in(value)):
                    continue
                seen.add(target)
                effect = "ranks hold different values" if keeps else "DDP replaces it by that of rank 0"
                text = f"the buffer `{target}` is computed from the batch of each rank, and {effect}"
                remedy = "combine it by `torch.distributed.all_reduce` before it is used"
                yield self.problem(owner.file, node, text, remedy, assumption="several ranks train this module")

    def _batch_norms(self, owner: Class) -> Iterator[Fact]:
        for path, each in attributes_of(owner):
            value = each.value
            name = resolve(dotted(value.func), each.block.function) if isinstance(value, ast.Call) else ""
            if name.startswith("torch.nn.") and tail_of(name) in _BATCH_NORMS:
                text = f"`{path}` computes its statistics per rank; nothing converts it to `SyncBatchNorm`"
                remedy = "call `nn.SyncBatchNorm.convert_sync_batchnorm(model)` before wrapping, if batches are small"
                yield self.fact(owner.file, each.statement, Assessment.SHOULD_CHECK, text, remedy)
                return


def _is_false(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _changes(function: Function) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    """Yield the statements that change an attribute, with its path and the value that goes in."""
    for path, held in function.assignments.items():
        if path.startswith("self."):
            yield from ((each.statement, path.replace("[]", ""), each.value) for each in held)
    for call in function.calls:
        is_in_place = call.tail.endswith("_") and not call.tail.endswith("__")
        if is_in_place and call.receiver.startswith("self."):
            receiver = call.receiver.removesuffix(".data").replace("[]", "")
            yield from ((call.statement, receiver, value) for value in call.node.args)


def _from_batch(function: Function) -> set[str]:
    """Return the names that hold the arguments of a method, or what it computes from them."""
    found = {parameter for parameter in function.parameters if parameter not in {"self", "cls"}}
    bindings = [(path, each) for path, held in function.assignments.items() for each in held if path.isidentifier()]
    for path, each in sorted(bindings, key=lambda pair: pair[1].line):
        if any(name.id in found for name in _names_in(each.value)):
            found.add(path)
    return found


def _names_in(value: ast.expr) -> Iterator[ast.Name]:
    """Yield the names whose values go into an expression; a size or a type is the same on all ranks."""
    for each in walk(value):
        is_shape = isinstance(each, ast.Attribute) and each.attr in {"shape", "device", "dtype", "ndim"}
        if is_shape or (isinstance(each, ast.Call) and tail_of(dotted(each.func)) in {"size", "len", "numel"}):
            return
        if isinstance(each, ast.Name):
            yield each
