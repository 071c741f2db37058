"""Samples and metrics of each rank: loaders, samplers, splits, seeds and averages under DDP or FSDP."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.blocks import LOOPS
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.host_batches import names_loader
from esper_agents.review.loaders import feeding_a_training, loops_over_loaders, trains
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.programs import training_files
from esper_agents.review.ranks import (
    is_distributed,
    is_for_one_process,
    is_limited,
    leaves_it_to_engine,
    ranks_at,
    unless_distributed,
)
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.blocks import Block
    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

SHARDED = pattern(r"[Dd]istributed|\brank\b|world_size|num_replicas|split_by_node|shard")
ITERABLE = pattern(r"IterableDataset|WebDataset")
_COLLECTING = frozenset(
    {
        "all_reduce",
        "all_gather",
        "all_gather_object",
        "gather",
        "reduce",
        "reduce_tensor",
        "gather_for_metrics",
        "all_gather_into_tensor",
        "synchronize_between_processes",
        "sync_between_processes",
    }
)
_SEEDING = ("torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all")
_SEEDED = frozenset(
    {"manual_seed", "seed_everything", "set_seed", "seed_all", "set_random_seed", "fix_seed", "init_seed"}
)
_SPLITS = ("torch.utils.data.random_split", "torch.utils.data.dataset.random_split")
_SHUFFLE, _SAMPLER, _BATCH_SAMPLER = 2, 3, 4


_MOST_FILES = 3
_LIGHTNING = pattern(r"(?:pytorch_lightning|lightning)\.")


class RankSamples(FactQuery):
    """Loaders without a distributed sampler, splits and seeds that differ or agree between ranks, averages per rank."""

    name = "rank-samples"
    topics = ("distributed training",)
    claim = "the ranks do not divide the samples of each epoch"
    category = Category.SILENT_CORRECTNESS
    rules = ("ESP204",)
    unseen = "the launch script, the number of processes and the NCCL settings"
    bad = (
        "from torch.utils.data import DataLoader\n"
        "\n"
        "\n"
        "def fit(model, data, optimizer):\n"
        "    loader = DataLoader(data, batch_size=8, shuffle=True)\n"
        "    for x in loader:\n"
        "        optimizer.zero_grad()\n"
        "        model(x).backward()\n"
        "        optimizer.step()\n"
    )
    good = (
        "from torch.utils.data import DataLoader, DistributedSampler\n"
        "\n"
        "\n"
        "def fit(model, data, optimizer):\n"
        "    sampler = DistributedSampler(data)\n"
        "    loader = DataLoader(data, batch_size=8, sampler=sampler)\n"
        "    for epoch in range(9):\n"
        "        sampler.set_epoch(epoch)\n"
        "        for x in loader:\n"
        "            optimizer.zero_grad()\n"
        "            model(x).backward()\n"
        "            optimizer.step()\n"
    )

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the facts about loaders, splits, seeds and averages of training programs."""
        training = training_files(index)
        has_ranks = is_distributed(index)
        if not any(file in training and not leaves_it_to_engine(file) for file in files):
            yield from self._engine(files, index)
        for file in files:
            if file not in training or leaves_it_to_engine(file):
                continue
            for call in file.calls_ending("DataLoader"):
                yield from self._loader(file, call, index, has_ranks=has_ranks)
            for call in file.calls_to(*_SPLITS):
                yield from self._split(file, call, index)
            if has_ranks:
                yield from self._seeds(file, index)
            for function in file.functions:
                yield from self._average(file, function, index)

    def _engine(self, files: Sequence[FileTables], index: ProjectIndex) -> Iterator[Fact]:
        """Yield the first trainer of Lightning that few files run, which gives each loader a sampler."""
        near = files if len(files) <= _MOST_FILES else ()
        run = {each for file in near for function in file.functions for each in index.closure(function)}
        for call in (each for each in index.calls_ending("Trainer") if each.function in run):
            if _LIGHTNING.match(call.name) and call.function.file.purpose in {Purpose.CODE, Purpose.EXAMPLE}:
                said = call.argument(-1, "use_distributed_sampler") or call.argument(-1, "replace_sampler_ddp")
                if isinstance(said, ast.Constant) and said.value is False:
                    continue
                text = f"`{call.path}` of Lightning gives each loader a `DistributedSampler` and calls its `set_epoch`"
                yield self.fact(call.function.file, call.node, Assessment.FINE, text)
                return

    def _loader(self, file: FileTables, call: Call, index: ProjectIndex, *, has_ranks: bool) -> Iterator[Fact]:
        if call.has_splat() or (has_ranks and is_for_one_process(call)) or ranks_at(call, index) is not None:
            return
        data = call.argument(0, "dataset")
        named = f"`{ast.unparse(data)[:40]}`" if data is not None else "the data set"
        sampler = call.argument(_SAMPLER, "sampler") or call.argument(_BATCH_SAMPLER, "batch_sampler")
        if sampler is not None and not (isinstance(sampler, ast.Constant) and sampler.value is None):
            yield from self._sampled(file, call, sampler, index)
            return
        feeds = call.node in feeding_a_training(index)
        loops = loops_over_loaders(index).get(call.node, ())
        shuffles = _truth(call.argument(_SHUFFLE, "shuffle"))
        if data is not None and comes_from(data, call, index, SHARDED):
            yield self.fact(
                file, call.node, Assessment.FINE, f"{named} is divided between the ranks before this loader"
            )
        elif data is not None and comes_from(data, call, index, ITERABLE):
            text = f"{named} is iterable, so no sampler divides it: every rank reads all that it yields"
            yield self.fact(file, call.node, Assessment.OPEN, text)
        elif feeds or (shuffles and not loops):
            text = f"this loader has no DistributedSampler, so every rank goes through all of {named} in each epoch"
            given = dotted(data) if isinstance(data, ast.Name | ast.Attribute) else "data"
            place = " instead of `shuffle=True`" if shuffles else ""
            remedy = (
                f"write `sampler=DistributedSampler({given})`{place}, and call `sampler.set_epoch(epoch)` in each epoch"
            )
            assumption = unless_distributed(index) if feeds else "a training reads it"
            yield self.problem(file, call.node, text, remedy, assumption=assumption)
            yield from self._batch(file, call, has_ranks=has_ranks) if feeds else ()
        elif any(_counts(loop) for loop in loops) and not any(trains(loop, index) for loop in loops):
            text = f"every rank evaluates all of {named}, so the evaluation is as slow as on one GPU"
            remedy = (
                "divide it by `DistributedSampler(..., shuffle=False)` and add up the counts, or evaluate on rank 0"
            )
            yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _batch(self, file: FileTables, call: Call, *, has_ranks: bool) -> Iterator[Fact]:
        size = call.argument(1, "batch_size")
        if size is None or has_ranks:
            return
        text = f"`batch_size={ast.unparse(size)[:40]}` is that of one rank: 8 ranks make a batch 8 times as large"
        yield self.fact(
            file, size, Assessment.SHOULD_CHECK, text, "divide it by the world size, or raise the learning rate"
        )

    def _sampled(self, file: FileTables, call: Call, sampler: ast.expr, index: ProjectIndex) -> Iterator[Fact]:
        if comes_from(sampler, call, index, SHARDED):
            yield self.fact(file, call.node, Assessment.FINE, "a sampler gives each rank its own part of the data")
            return
        kinds = {
            tail_of(dotted(origin.value.func))
            for origin in index.origins(sampler, call.function, call.line)
            if isinstance(origin.value, ast.Call)
        }
        if kinds & {"RandomSampler", "WeightedRandomSampler", "SubsetRandomSampler", "SequentialSampler"}:
            feeds = call.node in feeding_a_training(index)
            if feeds and not is_for_one_process(call):
                text = f"`{min(kinds)}` ignores the ranks: each rank draws from all the data"
                remedy = "use `DistributedSampler`, or keep every world_size-th index of one seeded draw"
                yield self.problem(file, call.node, text, remedy, assumption=unless_distributed(index))

    def _split(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        if call.argument(2, "generator") is not None or call.has_splat():
            return
        if any(any(True for _ in index.calls_ending(name)) for name in _SEEDED):
            return
        text = "nothing seeds this split: the ranks split differently and train on each other's held-out samples"
        remedy = "pass `generator=torch.Generator().manual_seed(0)`"
        yield self.problem(file, call.node, text, remedy, assumption=unless_distributed(index))

    def _seeds(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        for call in file.calls_to(*_SEEDING)[:1]:
            value = call.argument(0, "seed")
            if value is None or is_for_one_process(call):
                continue
            shown = [ast.unparse(origin.value) for origin in index.origins(value, call.function, call.line)]
            if any("rank" in text or "process_index" in text for text in (ast.unparse(value), *shown)):
                yield self.fact(file, call.node, Assessment.DESCRIPTION, "the seed differs between the ranks")
            elif isinstance(value, ast.Constant) or not call.function.parameters or call.function.is_module:
                text = "the seed is the same on all ranks, so they draw the same dropout masks and augmentations"
                remedy = f"write `torch.manual_seed({ast.unparse(value)[:40]} + dist.get_rank())`"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _average(self, file: FileTables, function: Function, index: ProjectIndex) -> Iterator[Fact]:
        """Yield where a function that evaluates adds up numbers that no rank shares with the others."""
        for loop in (block for block in function.blocks if block.kind in LOOPS):
            added = _counts(loop)
            if added is None or trains(loop, index):
                continue
            around = (function, *(call.function for call in index.callers(function)))
            if any(_COLLECTING & index.reached(each) for each in around):
                continue
            if any(is_limited(call, index) for call in function.calls if call.block.within(loop)):
                continue
            text = f"`{added.target}` counts the samples of one rank, so the result is that of one rank alone"
            if not is_distributed(index):
                text = f"once a sampler divides the data, `{added.target}` counts the samples of one rank alone"
            remedy = f"add up over the ranks before dividing: `dist.all_reduce({added.target})` on a tensor"
            yield self.fact(file, added.statement, Assessment.SHOULD_CHECK, text, remedy)
            return


def _truth(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def comes_from(value: ast.expr, call: Call, index: ProjectIndex, words: object) -> bool:
    """Return whether a value, or what makes it, mentions one of some words."""
    found = index.origins(value, call.function, call.line)
    texts = [ast.unparse(each.value) for each in found]
    owners = [index.class_of(value, call.function, call.line)]
    texts += [
        base
        for owner in owners
        if owner is not None
        for base in (*index.lineage(owner).foreign, ast.unparse(owner.node))
    ]
    # Several assignments to one name in the arms of an `if`.
    path = dotted(value)
    texts += [ast.unparse(each.value) for each in call.function.assignments.get(path, ())] if path else []
    return any(words.search(text) for text in texts)  # type: ignore[attr-defined]


def _counts(loop: Block) -> Assignment | None:
    """Return what a loop over batches adds up with the help of a model's outputs."""
    if not isinstance(loop.node, ast.For) or not names_loader(loop.node.iter):
        return None
    for found in (each for given in loop.function.assignments.values() for each in given):
        if found.is_augmented and found.block.within(loop) and found.block.loop is loop:
            text = ast.unparse(found.value)
            if ".item()" in text or ".sum()" in text or ("loss" in text and "loss" in found.target):
                return found
    return None
