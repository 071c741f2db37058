"""ESP123: every rank of a distributed training goes through all of the data."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.facts.rank_samples import ITERABLE, SHARDED, comes_from
from esper_agents.review.loaders import feeding_a_training, loops_over_loaders
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.programs import reached_from, starts
from esper_agents.review.ranks import is_for_one_process, leaves_it_to_engine, ranks_at, wraps
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_HARMLESS = frozenset({"enumerate", "tqdm", "iter", "len", "cycle", "zip", "next", "trange", "track"})
_DIVIDING = ("DistributedSampler", "num_replicas", "world_size", "split_dataset_by_node")


class DataNotDivided(Rule):
    """A training loader of a DDP program without a `DistributedSampler`.

    ## Why it costs
    Every rank goes through the whole data set in each epoch: with 8 GPUs an epoch takes as long as on one, and every
    sample is seen 8 times an epoch. Schedules and checkpoints that count epochs mean something else than on one GPU.

    ## When it is right
    The data set itself holds a part for each rank, or is iterated and divides itself. A loader that shuffles by a
    seed of its own on each rank draws random batches, which trains, but not in epochs.

    ## Sources
    PyTorch documentation of `torch.utils.data.distributed.DistributedSampler`; tutorial "Multi GPU training with DDP".
    """

    code, name = "ESP123", "data-not-divided"
    severity, category = Severity.WARNING, Category.CORRECTNESS
    bad = (
        "from torch.nn.parallel import DistributedDataParallel\n"
        "from torch.utils.data import DataLoader\n"
        "\n"
        "\n"
        "def main(rank, model, data, optimizer):\n"
        "    model = DistributedDataParallel(model.to(rank), device_ids=[rank])\n"
        "    loader = DataLoader(data, batch_size=32, shuffle=True)\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        model(x.to(rank), y.to(rank)).backward()\n"
        "        optimizer.step()\n"
    )
    good = bad.replace("import DataLoader\n", "import DataLoader, DistributedSampler\n").replace(
        "shuffle=True", "sampler=DistributedSampler(data)"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the loaders of DDP trainings that no sampler divides between the ranks."""
        if not wraps(index) or leaves_it_to_engine(file):
            return
        for call in file.calls_to(*_LOADERS):
            if call.node not in feeding_a_training(index) or not _is_whole(call, index):
                continue
            wrap, is_here = _wrapping(call, index)
            if wrap is None or is_for_one_process(call) or ranks_at(call, index) is not None:
                continue
            place = f"line {wrap.line}" if wrap.function.file is file else f"{wrap.function.file.path}:{wrap.line}"
            yield self.hit(
                call.node,
                f"every rank of this DDP training ({place}) goes through all of the data in each epoch",
                remedy="pass `sampler=DistributedSampler(data)`, and call `sampler.set_epoch(epoch)` in each epoch",
                confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
                basis=SEEN if is_here else FOLLOWED,
            )


def _is_whole(call: Call, index: ProjectIndex) -> bool:
    """Return whether a loader surely reads all of a data set that is indexed."""
    data = call.argument(0, "dataset")
    has_sampler = any(call.argument(at, name) is not None for at, name in ((3, "sampler"), (4, "batch_sampler")))
    if data is None or has_sampler or call.has_splat():
        return False
    if _is_passed_on(call):
        return False
    return not comes_from(data, call, index, SHARDED) and not comes_from(data, call, index, ITERABLE)


def _is_passed_on(call: Call) -> bool:
    """Return whether a loader is given to what may divide it: `loader = accelerator.prepare(loader)`."""
    statement = call.statement
    if not isinstance(statement, ast.Assign):
        return False
    path = dotted(statement.targets[0])
    values = [each.value for assignments in call.function.assignments.values() for each in assignments]
    return any(
        isinstance(value, ast.Call)
        and tail_of(dotted(value.func)) not in _HARMLESS
        and any(dotted(arg) == path for arg in value.args)
        for value in values
    )


def _wrapping(call: Call, index: ProjectIndex) -> tuple[Call | None, bool]:
    """Return what wraps the model of a loader's training in DDP, and whether that is in the same function."""
    known = [each for each in wraps(index) if tail_of(each.name) == "DistributedDataParallel"]
    loops = loops_over_loaders(index).get(call.node, ())
    functions = {call.function, *(loop.function for loop in loops)}
    here = [each for each in known if each.function in functions and not is_for_one_process(each)]
    if here:
        return here[0], True
    file = call.function.file
    files = {file}.union(*(reached_from(start, index) for start in starts(file, index)))
    if any(word in each.text for each in files for word in _DIVIDING):
        return None, False
    near = [each for each in known if each.function.file in files and not is_for_one_process(each)]
    return (near[0] if near else None), False
