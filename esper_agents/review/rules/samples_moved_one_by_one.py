"""ESP410: samples are moved to the device one by one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.definitions import owner_of
from esper_agents.review.joined_samples import is_from_several_devices, is_joined_after, takes_one_out
from esper_agents.review.moves import follows_another, makes_from_host, makes_on_device, moves_to_device
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.sample_loops import overs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_MAKING = ("tensor", "as_tensor", "from_numpy", "zeros", "ones", "empty", "full", "rand", "randn", "arange", "Tensor")
_DATASETS = frozenset(
    {"Dataset", "IterableDataset", "VisionDataset", "ImageFolder", "DatasetFolder", "MapDataPipe", "IterDataPipe"}
)
_READING = ("__getitem__", "__iter__", "__next__")
_COLLATING = pattern(r"_?(?:\w+_)?collate(?:_?fn|_\w+)?|_?(?:\w+_)?collator")
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
    The samples differ in size and are never joined, or they come from several devices: from replicas, an `all_gather`,
    or with a device of their own. Moves of the parts of one
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

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the moves of single samples."""
        for call in file.calls_ending("to", "cuda", *_MAKING):
            if (moves_to_device(call) and not follows_another(call.node)) or makes_on_device(call):
                yield from self._moved(call, index)

    def _moved(self, call: Call, index: ProjectIndex) -> Iterator[RuleMatch]:
        found = list(self._while_reading(call, index))
        if found:
            yield from found
        elif is_from_several_devices(call, index):
            return
        elif is_joined_after(call):
            yield self.hit(
                call.node,
                "each sample is moved to the device by itself, and then they are joined there",
                remedy=_JOIN_LATER,
                confidence=Confidence.HIGH if makes_from_host(call.node) else Confidence.MODERATE,
                basis=SEEN if makes_from_host(call.node) else f"{INFERRED}: that the samples lie on the host",
                severity=Severity.SUGGESTION if makes_on_device(call) else None,
            )
        elif takes_one_out(call):
            yield self.hit(
                call.node,
                "the samples of one tensor are moved to the device one by one",
                remedy="move the whole tensor once, before the loop",
            )

    def _while_reading(self, call: Call, index: ProjectIndex) -> Iterator[RuleMatch]:
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
        if reader is not None and any(function in index.callees(call) for call in reader.calls):
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
