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

# How many steps from caller to caller are followed.
_HOPS = 3
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
    return not call.has_splat() and (not isinstance(shuffle, ast.Constant) or bool(shuffle.value))


def _is_told(index: ProjectIndex) -> bool:
    """Return whether something may tell a sampler the epoch, unless it surely tells another that does not shuffle."""
    told = list(index.calls_ending("set_epoch"))
    return any(not _is_still(each, index) for each in told)


def _is_still(told: Call, index: ProjectIndex) -> bool:
    """Return whether what is told the epoch was made without a shuffle, where nothing else has its name."""
    if not isinstance(told.node.func, ast.Attribute):
        return False
    made = [each.value for each in index.origins(told.node.func.value, told.function, told.line)]
    given = [each.keywords if isinstance(each, ast.Call) else [] for each in made]
    return bool(given) and all(any(_is_no_shuffle(each) for each in keywords) for keywords in given)


def _is_no_shuffle(keyword: ast.keyword) -> bool:
    return keyword.arg == "shuffle" and isinstance(keyword.value, ast.Constant) and not keyword.value.value


def _trains_in_epochs(index: ProjectIndex) -> bool:
    """Return whether some loop that sends a loss backward stands in another one, or in a function called from one."""
    return index.once(
        "trains in epochs",
        lambda: any(_is_nested(call, index) for file in index.files.values() for call in backward_calls(file)),
    )


def _is_nested(call: Call, index: ProjectIndex) -> bool:
    return _depth(call, index, _HOPS) > 1


def _depth(call: Call, index: ProjectIndex, hops: int) -> int:
    """Return in how many loops a call stands, those of its callers counted."""
    here = sum(1 for _ in call.block.loops())
    callers = index.callers(call.function) if hops else ()
    return here + max((_depth(each, index, hops - 1) for each in callers), default=0)
