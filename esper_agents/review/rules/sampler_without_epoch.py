"""ESP204: a distributed sampler deals the same order in every epoch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.frameworks import runs_the_loop
from esper_agents.review.rule import FOLLOWED, Rule
from esper_agents.review.training import backward_calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Call, FileTables

_NAMES = ("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler")


class SamplerWithoutEpoch(Rule):
    """A shuffling `DistributedSampler` in a training project in which nothing calls `set_epoch`.

    ## Why it costs
    The sampler seeds its shuffle with the epoch it was told. Never told, it deals the same order in every epoch, with
    the same examples on the same rank: the shuffle is there and does nothing.

    ## When it is right
    The sampler does not shuffle (`shuffle=False`, as for evaluation), there is one epoch, or a framework such as
    Lightning or accelerate owns the loop. One `set_epoch` anywhere in the reviewed files is enough.

    ## Sources
    PyTorch documentation of `torch.utils.data.distributed.DistributedSampler`, the warning on `set_epoch`.
    """

    code, name = "ESP204", "sampler-without-epoch"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "from torch.utils.data import DataLoader, DistributedSampler\n"
        "\n"
        "\n"
        "def fit(model, data, optimizer):\n"
        "    sampler = DistributedSampler(data)\n"
        "    loader = DataLoader(data, sampler=sampler)\n"
        "    for epoch in range(10):\n"
        "        for x in loader:\n"
        "            optimizer.zero_grad()\n"
        "            model(x).backward()\n"
        "            optimizer.step()\n"
    )
    good = bad.replace("        for x in loader:\n", "        sampler.set_epoch(epoch)\n        for x in loader:\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield the shuffling samplers, unless something tells them the epoch."""
        made = [call for call in file.calls_to(*_NAMES) if _shuffles(call)]
        if not made or _is_told(index) or not _trains_in_epochs(index) or runs_the_loop(file):
            return
        for call in made:
            yield self.hit(
                call.node,
                "nothing tells this sampler the epoch, so every epoch has the same order",
                remedy="call `sampler.set_epoch(epoch)` at the start of every epoch",
                confidence=Confidence.MODERATE,
                basis=FOLLOWED,
            )


def _shuffles(call: Call) -> bool:
    shuffle = call.argument(3, "shuffle")
    return not call.has_splat() and (shuffle is None or (isinstance(shuffle, ast.Constant) and bool(shuffle.value)))


def _is_told(index: ProjectIndex) -> bool:
    return next(index.calls_ending("set_epoch"), None) is not None


def _trains_in_epochs(index: ProjectIndex) -> bool:
    """Return whether some loop that sends a loss backward stands in another one, or in a function called from one."""
    return index.once(
        "trains in epochs",
        lambda: any(_is_nested(call, index) for file in index.files.values() for call in backward_calls(file)),
    )


def _is_nested(call: Call, index: ProjectIndex) -> bool:
    depth = sum(1 for _ in call.block.loops())
    return depth > 1 or (depth == 1 and any(caller.block.loop for caller in index.callers(call.function)))
