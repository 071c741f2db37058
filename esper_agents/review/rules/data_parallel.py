"""ESP403: several devices are driven from one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

_NAMES = frozenset(
    f"torch.nn.{each}"
    for each in (
        *("DataParallel", "parallel.DataParallel", "parallel.data_parallel.DataParallel", "parallel.data_parallel"),
        "parallel.data_parallel.data_parallel",
    )
)


class DataParallelWrapper(FileRule):
    """A model wrapped in `torch.nn.DataParallel`.

    ## Why it costs
    One process drives all devices: it copies the model to each of them in every step, gathers all outputs on the
    first, and its threads share one interpreter lock. PyTorch recommends `DistributedDataParallel` even on a single
    machine.

    ## When it is right
    A notebook, or a quick evaluation on a machine with two devices, where starting several processes is not worth it.

    ## Sources
    PyTorch documentation of `torch.nn.DataParallel`, its warning, and the note "Use
    nn.parallel.DistributedDataParallel instead of multiprocessing or nn.DataParallel".
    """

    code, name = "ESP403", "data-parallel"
    severity, category = Severity.SUGGESTION, Category.PERFORMANCE
    bad = "import torch.nn as nn\n\nmodel = nn.DataParallel(model)\n"
    good = "from torch.nn.parallel import DistributedDataParallel\n\nmodel = DistributedDataParallel(model)\n"

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield where a model is wrapped."""
        for call in file.calls_to(*_NAMES):
            yield self.hit(
                call.node,
                "one process drives all devices and copies the model to them in every step",
                remedy="use `DistributedDataParallel`, one process for each device, started by `torchrun`",
            )
