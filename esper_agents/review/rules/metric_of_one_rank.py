"""ESP226: each rank evaluates its part of the data, and nothing joins the sums."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.loaders import loops_over_loaders, trains
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.ranks import is_distributed, is_limited, leaves_it_to_engine
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_SAMPLER = 3
_DIVIDING = frozenset({"DistributedSampler", "DistributedEvalSampler", "DistributedSamplerNoDuplicate"})
# Calls that join what ranks have, and metrics that do so themselves.
_JOINING = pattern(r"(?i)reduce|gather|sync|broadcast|torchmetrics|accuracy_|metric")


class MetricOfOneRank(Rule):
    """A sum over the part of the data that a `DistributedSampler` gives to a rank, used as if it were the whole.

    ## Why it costs
    Each rank sees its share of the samples. An accuracy or loss from it is that of one rank: the log shows rank 0,
    and where ranks decide by it (the best checkpoint, an early stop, a scheduler) they decide differently and may hang.

    ## When it is right
    The number is a rough sign of progress and nothing decides by it. A function that reduces or gathers, one whose
    callers do, metrics that join themselves, and loops on one rank alone are not reported.

    ## Sources
    PyTorch documentation of `torch.utils.data.distributed.DistributedSampler` and `torch.distributed.all_reduce`.
    """

    code, name = "ESP226", "metric-of-one-rank"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "import torch.distributed as dist\n"
        "from torch.utils.data import DataLoader, DistributedSampler\n"
        "\n"
        'dist.init_process_group("nccl")\n'
        "sampler = DistributedSampler(data, shuffle=False)\n"
        "loader = DataLoader(data, batch_size=64, sampler=sampler, num_workers=2, pin_memory=True)\n"
        "correct = torch.zeros((), device=device)\n"
        "model.eval()\n"
        "with torch.no_grad():\n"
        "    for x, y in loader:\n"
        "        correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()\n"
        "print(correct / len(data))\n"
    )
    good = bad.replace("print(correct", "dist.all_reduce(correct)\nprint(correct")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the first sum of each evaluation of a part of the data."""
        if not is_distributed(index) or leaves_it_to_engine(file):
            return
        done: set[Function] = set()
        for made, loops in loops_over_loaders(index).items():
            for loop in loops:
                function = loop.function
                if function.file is not file or function in done or trains(loop, index):
                    continue
                call = next((each for each in index.calls_ending("DataLoader") if each.node is made), None)
                added = _sum(loop) if call is not None and _divides(call, index) else None
                if added is not None and not _joins(loop, index) and not _is_aside(loop, index):
                    done.add(function)
                    yield self._found(added, is_here=call is not None and call.function is function)

    def _found(self, added: Assignment, *, is_here: bool) -> RuleMatch:
        return self.hit(
            added.statement,
            f"`{added.target}` adds up the samples of one rank, because a `DistributedSampler` gives each rank a part, "
            "and nothing joins the sums of the ranks",
            remedy=f"keep `{added.target}` on the device and call `torch.distributed.all_reduce({added.target})` after "
            "the loop",
            confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
            basis=SEEN if is_here else FOLLOWED,
        )


def _divides(call: Call, index: ProjectIndex) -> bool:
    """Return whether the sampler of a loader surely gives each rank its part of the samples."""
    sampler = call.argument(_SAMPLER, "sampler")
    origins = index.origins(sampler, call.function, call.line) if sampler is not None else ()
    kinds = [tail_of(dotted(each.value.func)) for each in origins if isinstance(each.value, ast.Call)]
    others = [each for each in origins if not isinstance(each.value, ast.Call | ast.Constant)]
    return bool(kinds) and not others and all(kind in _DIVIDING for kind in kinds)


def _sum(loop: Block) -> Assignment | None:
    """Return what a loop adds up from what a batch gives."""
    for assignments in loop.function.assignments.values():
        for found in assignments:
            is_sum = found.is_augmented and found.block.within(loop) and found.block.loop is loop
            if is_sum and found.target.isidentifier() and any(isinstance(each, ast.Call) for each in walk(found.value)):
                return found
    return None


def _joins(loop: Block, index: ProjectIndex) -> bool:
    """Return whether a function, what it calls, or what calls it may join what ranks have; in doubt yes."""
    seen = {loop.function: None}
    edge = [loop.function]
    while edge:
        if any(_JOINING.search(name) for function in edge for name in index.reached(function)):
            return True
        callers = {call.function for function in edge for call in index.callers(function)}
        edge = [each for each in callers if each not in seen]
        seen.update(dict.fromkeys(edge))
    return False


def _is_aside(loop: Block, index: ProjectIndex) -> bool:
    """Return whether a loop runs on one rank alone."""
    return any(is_limited(call, index) for call in loop.function.calls if call.block.within(loop))
