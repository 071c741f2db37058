"""ESP233: each rank of a distributed training splits the data at random by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.programs import reached_from, starts
from esper_agents.review.ranks import is_limited
from esper_agents.review.rule import FOLLOWED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_SPLITS = ("torch.utils.data.random_split", "torch.utils.data.dataset.random_split")
_SEEDING = frozenset({"manual_seed", "seed_everything", "set_seed", "seed_all", "set_random_seed", "fix_seed"})
_GENERATOR = 2


class SplitDiffersByRank(Rule):
    """A `random_split` without a generator in a program of several ranks that sets no seed.

    ## Why it costs
    Each process draws its own permutation. What one rank holds back for validation another rank trains on, so the
    validation loss is measured on training data, and a distributed sampler deals samples of different sets.

    ## When it is right
    All ranks draw the same numbers: with `generator=torch.Generator().manual_seed(0)`, or a seed that the program sets
    before. A program that mentions a seed anywhere is not reported.

    ## Sources
    PyTorch documentation of `torch.utils.data.random_split` (`generator`), and of
    `torch.utils.data.distributed.DistributedSampler`, which assumes the same dataset on all ranks.
    """

    code, name = "ESP233", "split-differs-by-rank"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch.distributed as dist\n"
        "from torch.utils.data import random_split\n"
        "\n"
        'dist.init_process_group("nccl")\n'
        "train_set, valid_set = random_split(dataset, [0.9, 0.1])\n"
    )
    good = (
        "import torch\n"
        "import torch.distributed as dist\n"
        "from torch.utils.data import random_split\n"
        "\n"
        'dist.init_process_group("nccl")\n'
        "generator = torch.Generator().manual_seed(0)\n"
        "train_set, valid_set = random_split(dataset, [0.9, 0.1], generator=generator)\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the unseeded splits of programs with several ranks."""
        for call in file.calls_to(*_SPLITS):
            if len(call.node.args) > _GENERATOR or call.argument(_GENERATOR, "generator") is not None:
                continue
            if call.has_splat() or is_limited(call, index):
                continue
            starting = _ranks_started(call, index)
            if starting is not None:
                where = f"line {starting.line}"
                if starting.function.file is not file:
                    where = f"{starting.function.file.path}:{starting.line}"
                yield self.hit(
                    call.node,
                    f"each rank ({where}) splits the data by its own random numbers: what one holds back another "
                    "trains on",
                    remedy="pass `generator=torch.Generator().manual_seed(0)`",
                    confidence=Confidence.MODERATE if starting.function is not call.function else Confidence.HIGH,
                    basis=FOLLOWED,
                )


def _ranks_started(call: Call, index: ProjectIndex) -> Call | None:
    """Return what starts the process group of a program that has a call and sets no seed; None if none does."""
    file = call.function.file
    programs = [reached_from(start, index) for start in starts(file, index)]
    if any(each.tail in _SEEDING for files in programs for one in files for each in one.calls):
        return None
    started = [each for files in programs for one in files for each in one.calls_ending("init_process_group")]
    return min(started, key=lambda each: (each.function.file.path, each.line), default=None)
