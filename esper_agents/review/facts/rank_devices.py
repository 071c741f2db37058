"""Devices of each rank: fixed GPU numbers, current devices and where checkpoints are loaded."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.domain.pluralize import number_of
from esper_agents.review.blocks import BlockKind
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.programs import training_files, training_functions
from esper_agents.review.ranks import (
    is_distributed,
    is_limited,
    is_rank,
    leaves_it_to_engine,
    unless_distributed,
)
from esper_agents.review.training import backward_calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables

_FIXED = pattern(r"cuda:\d+")
_DEVICE = pattern(r"device|gpu|cuda", re.IGNORECASE)
_TAKING = frozenset({"to", "device", "cuda"})
_SETTING = ("torch.cuda.set_device", "torch.accelerator.set_device_index")
_PARALLEL = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel")
_REMEDY = 'use `device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))`'


class RankDevices(FactQuery):
    """GPU numbers written into a training program, moves to the current device, and loads without `map_location`."""

    name = "rank-devices"
    topics = ("distributed training",)
    claim = "all ranks share one GPU"
    category = Category.PERFORMANCE
    bad = (
        "def fit(model, loader, optimizer):\n"
        '    model.to("cuda:0")\n'
        "    for x in loader:\n"
        "        model(x).backward()\n"
        "        optimizer.step()\n"
    )
    good = (
        "import os\n"
        "\n"
        "\n"
        "def fit(model, loader, optimizer):\n"
        '    model.to(int(os.environ["LOCAL_RANK"]))\n'
        "    for x in loader:\n"
        "        model(x).backward()\n"
        "        optimizer.step()\n"
    )

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the facts about devices in training programs."""
        training = training_files(index)
        setting = [call for file in index.files.values() for call in file.calls_to(*_SETTING)]
        by_rank = [call for call in setting if call.node.args and not isinstance(call.node.args[0], ast.Constant)]
        for file in files:
            if file not in training or leaves_it_to_engine(file):
                continue
            reached = training_functions(index)
            for call in file.calls_to(*_SETTING):
                if call.function in reached and not (_is_constant(call) and self._is_aside(call, index)):
                    yield self._set(file, call, index)
            yield from self._parallel(file, index)
            yield from self._fixed(file, index)
            yield from self._visible(file, index)
            if not by_rank:
                yield from self._current(file, index)
            if is_distributed(index):
                yield from self._loads(file)

    def _set(self, file: FileTables, call: Call, index: ProjectIndex) -> Fact:
        value = call.argument(0, "device")
        if isinstance(value, ast.Constant):
            text = f"`set_device({ast.unparse(value)})` puts every rank on the same GPU"
            remedy = 'write `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`'
            return self.problem(file, call.node, text, remedy, assumption=unless_distributed(index))
        shown = ast.unparse(value)[:40] if value is not None else "..."
        return self.fact(file, call.node, Assessment.FINE, f"`cuda` means GPU `{shown}` of each rank from here on")

    def _parallel(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        for call in file.calls_to(*_PARALLEL):
            if not (is_distributed(index) and is_limited(call, index)):
                text = "DataParallel drives all GPUs from one process; under DDP each process drives one"
                remedy = "write `DistributedDataParallel(model, device_ids=[local_rank])`"
                yield self.problem(file, call.node, text, remedy, assumption=unless_distributed(index))

    def _fixed(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield one fact for each fixed GPU of a file, at its first use."""
        found: dict[str, list[ast.AST]] = {}
        for device, node in (*self._in_calls(file, index), *_in_names(file)):
            found.setdefault(device, []).append(node)
        reached = {call.line for call in file.calls if call.function in training_functions(index)}
        for device, nodes in found.items():
            lines = {getattr(each, "lineno", 0) for each in nodes}
            is_training = bool(lines & reached) or any(True for _ in backward_calls(file))
            nodes.sort(key=lambda each: getattr(each, "lineno", 0))
            text = f"`{device}` is fixed{_further(nodes)}: every rank puts its model and batches on that one GPU"
            assumption = unless_distributed(index) if is_training else "a training uses it"
            yield self.problem(file, nodes[0], text, _REMEDY, assumption=assumption)

    def _in_calls(self, file: FileTables, index: ProjectIndex) -> Iterator[tuple[str, ast.AST]]:
        for call in file.calls:
            nodes = [constant for value in _devices_of(call) for constant in _constants(value)]
            fixed = [(str(node.value), node) for node in nodes if _FIXED.fullmatch(str(node.value))]
            number = call.argument(0, "device") if call.tail == "cuda" and call.receiver else None
            if isinstance(number, ast.Constant) and isinstance(number.value, int):
                fixed.append((f"cuda:{number.value}", number))
            if fixed and not self._is_aside(call, index):
                yield from fixed

    @staticmethod
    def _is_aside(call: Call, index: ProjectIndex) -> bool:
        is_fallback = any(block.kind is BlockKind.EXCEPT for block in call.block.chain())
        return is_fallback or (is_distributed(index) and is_limited(call, index))

    def _visible(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        for given in (each for function in file.functions for held in function.assignments.values() for each in held):
            if given.target.endswith("environ[]") and "CUDA_VISIBLE_DEVICES" in ast.unparse(given.node):
                reached = given.block.function in training_functions(index)
                if isinstance(given.value, ast.Constant) and str(given.value.value).isdigit() and reached:
                    text = (
                        f"only GPU {ast.unparse(given.value)} is visible to every rank, so ranks above 0 have no device"
                    )
                    remedy = "set it in the launch command"
                    yield self.problem(file, given.statement, text, remedy, assumption=unless_distributed(index))

    def _current(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield the first move to the current device, which is GPU 0 until something sets it."""
        reached = [call for call in file.calls if call.function in training_functions(index)]
        found = [
            call.node
            for call in reached
            if (call.tail == "cuda" and call.receiver and not call.node.args and "torch" not in call.receiver)
            or (call.tail in {"to", "device"} and any(_is_current(arg) for arg in call.node.args))
        ]
        found.sort(key=lambda each: each.lineno)
        if found:
            text = f"`cuda` without a number{_further(found)} is GPU 0 on every rank: nothing sets the device of a rank"
            remedy = 'call `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))` before the model is made'
            yield self.problem(file, found[0], text, remedy, assumption=unless_distributed(index))

    def _loads(self, file: FileTables) -> Iterator[Fact]:
        for call in file.calls_to("torch.load"):
            if call.argument(1, "map_location") is None and not call.has_splat():
                text = "without `map_location` every rank loads this to the GPU that it was saved from, usually GPU 0"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, 'pass `map_location="cpu"`')
        for call in file.calls_ending("DistributedDataParallel", "DDP"):
            given = call.argument(1, "device_ids")
            if isinstance(given, ast.List) and any(is_rank(elt) for elt in given.elts):
                text = (
                    f"DDP keeps the model on GPU `{dotted(given.elts[0]) or ast.unparse(given.elts[0])}` of each rank"
                )
                yield self.fact(file, call.node, Assessment.FINE, text)
            elif isinstance(given, ast.List) and any(isinstance(elt, ast.Constant) for elt in given.elts):
                text = "`device_ids` is fixed, so every rank puts its model on the same GPU"
                yield self.problem(file, given, text, "write `device_ids=[local_rank]`")


def _is_constant(call: Call) -> bool:
    return isinstance(call.argument(0, "device"), ast.Constant)


def _devices_of(call: Call) -> list[ast.expr]:
    """Return the arguments of a call that may name a device."""
    if call.tail in _TAKING and (call.tail != "to" or call.receiver):
        return [*call.node.args, *(keyword.value for keyword in call.node.keywords if keyword.arg != "default")]
    return [keyword.value for keyword in call.node.keywords if keyword.arg in {"device", "map_location"}]


def _in_names(file: FileTables) -> Iterator[tuple[str, ast.AST]]:
    """Yield the fixed GPUs that a file gives names to: `device = "cuda:0"`."""
    for given in (each for function in file.functions for held in function.assignments.values() for each in held):
        if not isinstance(given.value, ast.Call) and _DEVICE.search(given.target):
            for constant in _constants(given.value):
                if _FIXED.fullmatch(str(constant.value)):
                    yield str(constant.value), constant


def _constants(value: ast.expr) -> Iterator[ast.Constant]:
    """Yield the constants that a value may be: itself, or an arm of a conditional expression."""
    if isinstance(value, ast.Constant):
        yield value
    elif isinstance(value, ast.IfExp):
        yield from _constants(value.body)
        yield from _constants(value.orelse)


def _is_current(value: ast.expr) -> bool:
    return any(constant.value == "cuda" for constant in _constants(value)) and not any(
        isinstance(each, ast.Call) and "rank" in ast.unparse(each) for each in walk(value)
    )


def _further(nodes: Sequence[ast.AST]) -> str:
    others = len({getattr(node, "lineno", 0) for node in nodes}) - 1
    return f" (and on {number_of(others, 'further line')})" if others > 0 else ""
