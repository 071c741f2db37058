"""ESP118: one rank alone calls a collective, or every rank but one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.ranks import Ranks, has_counterpart, is_collective, leaves_it_to_engine, ranks_at
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

_WHO = {Ranks.ONE: "only one rank", Ranks.OTHERS: "every rank but one"}


class CollectiveOnOneRank(Rule):
    """A collective of `torch.distributed` under a test on the rank, such as `all_reduce` under `if rank == 0`.

    ## Why it costs
    A collective ends when all ranks of the group have called it. If some skip it, the others wait until the time-out
    of the process group and the run dies after 10 or 30 minutes, or the collective is paired with the next one that
    the skipping ranks call and the numbers are wrong.

    ## When it is right
    Both arms of the test call it, as in "the first rank downloads while the others wait", or it names a `group` of the
    ranks that reach it. Point-to-point operations are not reported.

    ## Sources
    PyTorch documentation of `torch.distributed`, "Collective functions".
    """

    code, name = "ESP118", "collective-on-one-rank"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch.distributed as dist\n"
        "\n"
        "\n"
        "def evaluate(rank, model, loader):\n"
        "    if rank == 0:\n"
        "        correct = count(model, loader)\n"
        "        dist.all_reduce(correct)\n"
        "        print(correct)\n"
    )
    good = bad.replace(
        "    if rank == 0:\n        correct = count(model, loader)\n        dist.all_reduce(correct)\n",
        "    correct = count(model, loader)\n    dist.all_reduce(correct)\n    if rank == 0:\n",
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the collectives that some ranks skip."""
        if file.purpose is Purpose.TEST or not file.imports_torch or leaves_it_to_engine(file):
            return
        for call in file.calls:
            found = ranks_at(call, index) if is_collective(call) else None
            if found is None or found not in _WHO or has_counterpart(call, found, index):
                continue
            is_here = call.block is not call.function.block
            yield self.hit(
                call.node,
                f"{_WHO[found]} calls `{call.path}`, which waits for all ranks: the program hangs here",
                remedy="call it on all ranks, before or after the test on the rank",
                confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
                basis=SEEN if is_here else FOLLOWED,
            )
