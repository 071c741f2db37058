"""ESP410: samples are moved to the device one by one."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.definitions import owner_of
from esper_agents.review.moves import follows_another, is_move, makes_from_host, makes_on_device, moves_to_device
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.sample_loops import overs, picks
from esper_agents.review.tables import BlockKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Block, Call, FileTables, Function

_JOINING = frozenset({"stack", "vstack", "hstack", "cat", "concat", "concatenate", "pad_sequence"})
_MAKING = ("tensor", "as_tensor", "from_numpy", "zeros", "ones", "empty", "full", "rand", "randn", "arange", "Tensor")
_FROM_DATA = frozenset({"tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "LongTensor"})
_DATASETS = frozenset(
    {"Dataset", "IterableDataset", "VisionDataset", "ImageFolder", "DatasetFolder", "MapDataPipe", "IterDataPipe"}
)
_READING = ("__getitem__", "__iter__", "__next__")
_COLLATING = re.compile(r"_?(?:\w+_)?collate(?:_?fn|_\w+)?|_?(?:\w+_)?collator")
# Results of several devices, which are brought together one by one because that is where they are.
_RESULTS = re.compile(
    r"(?:\w+_)?(?:norms?|loss(?:es)?|grads?|scores?|metrics?|results?|outs?|outputs?|params?|p|g|weights?|buffers?|shards?)(?:_\w+)?"
)
_WORKERS = 5
_JOIN_LATER = "join them on the host first, and move the batch once: `torch.stack(samples).to(device)`"
_NOT_HERE = "hand samples out on the host, and move the whole batch in the loop over the loader"


class SamplesMovedOneByOne(Rule):
    """Samples that go to the device one at a time, before they are joined to a batch or while a data set reads them.

    ## Why it costs
    Each move is a copy of its own with a wait of its own, and most of its time is not the copying. A batch that is
    joined on the host goes over in one copy. In a data set or a collate function it is worse: worker processes of a
    `DataLoader` are forked, and CUDA cannot be used in a forked process.

    ## When it is right
    The samples differ in size and are never joined, or they come from several devices. Moves of the parts of one
    batch (`x, y = x.to(device), y.to(device)`, also by a loop over its fields) are not reported.

    ## Sources
    PyTorch notes, "CUDA semantics", on pinned buffers and on multiprocessing; documentation of
    `torch.utils.data.DataLoader`: it is not recommended to return CUDA tensors when workers load.
    """

    code, name = "ESP410", "samples-moved-one-by-one"
    severity, category = Severity.WARNING, Category.PERFORMANCE
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def batch_of(samples, device):\n"
        "    return torch.stack([sample.to(device) for sample in samples])\n"
    )
    good = "import torch\n\n\ndef batch_of(samples, device):\n    return torch.stack(samples).to(device)\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield the moves of single samples."""
        for call in file.calls_ending("to", "cuda", *_MAKING):
            if (moves_to_device(call) and not follows_another(call.node)) or makes_on_device(call):
                yield from self._moved(call, index)

    def _moved(self, call: Call, index: ProjectIndex) -> Iterator[Hit]:
        found = list(self._while_reading(call, index))
        if found:
            yield from found
        elif _is_joined_after(call):
            yield self.hit(
                call.node,
                "each sample is moved to the device by itself, and then they are joined there",
                remedy=_JOIN_LATER,
                confidence=Confidence.HIGH if makes_from_host(call.node) else Confidence.MODERATE,
                basis=SEEN if makes_from_host(call.node) else f"{INFERRED}: that the samples lie on the host",
                severity=Severity.SUGGESTION if makes_on_device(call) else None,
            )
        elif _takes_one_out(call):
            yield self.hit(
                call.node,
                "the samples of one tensor are moved to the device one by one",
                remedy="move the whole tensor once, before the loop",
            )

    def _while_reading(self, call: Call, index: ProjectIndex) -> Iterator[Hit]:
        place = _reading_place(call.function, index)
        if place is not None and not _is_asked_for(call):
            what, basis = place
            yield self.hit(
                call.node,
                f"{what} puts each sample on the device by itself, and fails in the loader's worker processes",
                remedy=_NOT_HERE,
                confidence=Confidence.HIGH if basis == SEEN else Confidence.MODERATE,
                basis=basis,
            )
        elif _COLLATING.fullmatch(call.function.name) and (
            _goes_over_samples(call) or _has_workers(call.function, index)
        ):
            yield self.hit(
                call.node,
                f"{call.function.name!r} puts samples on the device while the loader still collects them",
                remedy=_NOT_HERE,
                confidence=Confidence.MODERATE,
                basis=SEEN,
            )


def _is_asked_for(call: Call) -> bool:
    """Return whether samples are moved only where the user of the data set named a device."""
    tests = tests_around(call.block, call.function.block)
    return any("device" in name for test in tests for name in names_in(test))


def _reading_place(function: Function, index: ProjectIndex) -> tuple[str, str] | None:
    """Return what reads samples where a function runs, and how that is known; None where nothing does."""
    owner = owner_of(function)
    if owner is None or not any(tail_of(base) in _DATASETS for base in index.lineage(owner).foreign):
        return None
    if function.name in _READING:
        return f"`{owner.name}.{function.name}`", SEEN
    for name in _READING:
        reader = index.method(owner, name)
        if reader is not None and any(function in index.callees(each) for each in reader.calls):
            return f"`{owner.name}.{function.name}`", FOLLOWED
    return None


def _goes_over_samples(call: Call) -> bool:
    """Return whether a call stands in a loop over what a collate function is handed, and not over a batch's fields."""
    handed = {name for name in call.function.parameters if name != "self"}
    return any(over.path in handed for loop in call.block.loops() for over in overs(loop))


def _has_workers(collating: Function, index: ProjectIndex) -> bool:
    """Return whether a loader with worker processes uses a collate function."""
    for call in index.calls_ending("DataLoader"):
        workers, given = call.argument(_WORKERS, "num_workers"), call.argument(-1, "collate_fn")
        if given is not None and tail_of(dotted(given)) == collating.name:
            return isinstance(workers, ast.Constant) and isinstance(workers.value, int) and workers.value > 0
    return False


def _is_joined_after(call: Call) -> bool:
    """Return whether a moved sample goes into a list, or a tensor on the device, that holds all of them."""
    loop = call.block.loop
    if loop is None or not _is_host_sample(call, loop.targets):
        return False
    if loop.kind is BlockKind.COMPREHENSION:
        node = loop.node
        if not isinstance(node, ast.ListComp | ast.GeneratorExp) or not _is_end_of(node.elt, call):
            return False
        return _is_joined(node, call)
    statement = call.statement
    if isinstance(statement, ast.Assign) and _is_end_of(statement.value, call):
        if isinstance(statement.targets[0], ast.Subscript):
            is_own = root_of(dotted(statement.targets[0])) in names_in(statement.value)
            return not is_own and not makes_on_device(call) and _fills_by_counter(statement.targets[0], loop)
        return _is_appended_and_joined(statement.targets[0], call)
    return _is_appended_and_joined(None, call)


def _fills_by_counter(target: ast.Subscript, loop: Block) -> bool:
    """Return whether a store is filled row by row: `rows[i] = ...` where the loop counts `i`."""
    counters = {over.counter for over in overs(loop)} - {""}
    return isinstance(target.slice, ast.Name) and target.slice.id in counters


def _is_appended_and_joined(bound: ast.expr | None, call: Call) -> bool:
    """Return whether a move, or the name it is bound to, is appended to a list that is joined to one tensor."""
    name = dotted(bound) if bound is not None else ""
    for each in call.function.calls:
        if each.tail != "append" or len(each.node.args) != 1 or each.block.loop is not call.block.loop:
            continue
        value = each.node.args[0]
        if (name and dotted(value) == name) or (not name and _is_end_of(value, call)):
            return any(
                one.tail in _JOINING and any(dotted(argument) == each.receiver for argument in one.node.args)
                for one in call.function.calls
            )
    return False


def _is_end_of(value: ast.expr, call: Call) -> bool:
    """Return whether a move is the value itself, but for an axis put before it."""
    while isinstance(value, ast.Call) and value is not call.node:
        if not isinstance(value.func, ast.Attribute) or value.func.attr not in {
            "unsqueeze",
            "float",
            "squeeze",
            "long",
        }:
            return False
        value = value.func.value
    if isinstance(value, ast.Subscript):
        value = value.value
    return value is call.node


def _is_host_sample(call: Call, targets: tuple[str, ...]) -> bool:
    """Return whether what is moved is the round's own sample, or is made of it on the host."""
    func = call.node.func
    value = func.value if isinstance(func, ast.Attribute) else call.node
    if makes_on_device(call) or makes_from_host(value):
        return _is_made_of_data(call.node if makes_on_device(call) else value)
    if isinstance(value, ast.Name):
        return value.id in targets and _RESULTS.fullmatch(value.id) is None
    is_read = isinstance(value, ast.Subscript) and any(
        isinstance(each, ast.Name) and each.id in targets for each in walk(value.slice)
    )
    return is_read and _RESULTS.fullmatch(tail_of(root_of(dotted(value)))) is None


def _is_made_of_data(value: ast.expr) -> bool:
    """Return whether what makes a tensor on the way is handed something there is: no list written out on the spot."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in _FROM_DATA and value.args:
            return isinstance(value.args[0], ast.Name | ast.Attribute | ast.Subscript | ast.Call)
        value = value.func.value
    return False


def _is_joined(node: ast.expr, call: Call) -> bool:
    """Return whether a comprehension is what `torch.stack` or one of its kind is given, at once or by a name."""
    takes_host = makes_from_host(call.node)
    for each in call.function.calls:
        if each.tail not in _JOINING or not each.node.args or (each.tail != "stack" and not takes_host):
            continue
        first = each.node.args[0]
        if first is node or (isinstance(first, ast.Call) and node in first.args):
            return True
        if isinstance(first, ast.Name):
            made = call.function.last_assignment(first.id, each.line)
            if made is not None and made.value is node:
                return True
    return False


def _takes_one_out(call: Call) -> bool:
    """Return whether a move takes the round's sample out of a tensor: `x[i].to(device)` for i in `range(x.size(0))`."""
    loop, func = call.block.loop, call.node.func
    if loop is None or not isinstance(func, ast.Attribute) or not is_move(call.node):
        return False
    statement = call.statement
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        return False
    value = func.value.func.value if _is_unsqueezed(func.value) else func.value  # type: ignore[attr-defined]
    return (
        any(
            (each.is_tensor or each.has_shape) and each.counter and picks(value, each.counter, each.axis)
            for each in overs(loop)
        )
        and isinstance(value, ast.Subscript)
        and _RESULTS.fullmatch(tail_of(dotted(value.value)) or "x") is None
    )


def _is_unsqueezed(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "unsqueeze"
