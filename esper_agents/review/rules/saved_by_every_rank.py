"""ESP122: every rank of a distributed training writes the same file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import tail_of
from esper_agents.review.ranks import is_limited, leaves_it_to_engine, own_path, ranks_at, wraps
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables


class SavedByEveryRank(Rule):
    """A checkpoint that every rank of a DDP training writes to the same path.

    ## Why it costs
    All ranks write the same bytes to one file at the same time. On a shared file system the file may be torn, a rank
    may load it while another still writes, and saving takes as long as there are ranks.

    ## When it is right
    One rank writes, under a test on the rank, or each writes a file of its own. Sharded checkpoints are written by all
    ranks through `torch.distributed.checkpoint`.

    ## Sources
    PyTorch tutorial "Getting Started with Distributed Data Parallel", section "Save and Load Checkpoints".
    """

    code, name = "ESP122", "saved-by-every-rank"
    severity, category = Severity.WARNING, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "from torch.nn.parallel import DistributedDataParallel\n"
        "\n"
        "\n"
        "def fit(rank, model, loader, optimizer):\n"
        "    model = DistributedDataParallel(model.to(rank), device_ids=[rank])\n"
        "    for x in loader:\n"
        "        optimizer.zero_grad()\n"
        "        model(x).mean().backward()\n"
        "        optimizer.step()\n"
        '    torch.save(model.state_dict(), "model.pt")\n'
    )
    good = bad.replace("    torch.save", "    if rank == 0:\n        torch.save")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the saves of a DDP training that no test limits to one rank."""
        saves = file.calls_to("torch.save")
        if not saves or leaves_it_to_engine(file):
            return
        for call in saves:
            wrap = _wrapping(call, index)
            if wrap is None or own_path(call, index) or ranks_at(call, index) is not None or is_limited(call, index):
                continue
            is_here = wrap.function is call.function
            place = f"line {wrap.line}" if wrap.function.file is file else f"{wrap.function.file.path}:{wrap.line}"
            yield self.hit(
                _unguarded(call, wrap, index).node,
                f"every rank of this DDP training ({place}) writes the same file, all at once",
                remedy="write it under `if dist.get_rank() == 0:`, with a `dist.barrier()` after it if others read it",
                confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
                basis=SEEN if is_here else FOLLOWED,
            )


def _unguarded(save: Call, wrap: Call, index: ProjectIndex) -> Call:
    """Return the call that lacks a test on the rank: that of the function that saves, if there is one alone."""
    callers = index.callers(save.function) if wrap.function is not save.function else ()
    is_near = len(callers) == 1 and callers[0].function is wrap.function
    return callers[0] if is_near and callers[0].function.file is save.function.file else save


def _wrapping(call: Call, index: ProjectIndex) -> Call | None:
    """Return what wraps a model in DDP in the function of a save, or in one that surely calls it."""
    found = [each for each in wraps(index) if tail_of(each.name) == "DistributedDataParallel"]
    if not found:
        return None
    here = [each for each in found if each.function is call.function and not is_limited(each, index)]
    callers = [caller.function for caller in index.callers(call.function) if call.function in index.callees(caller)]
    around = [each for each in found if each.function in callers and not is_limited(each, index)]
    owner = call.function.owner
    same = [
        each for each in found if owner is not None and each.function.owner is owner and not is_limited(each, index)
    ]
    near = here or around or same
    return near[0] if near else None
