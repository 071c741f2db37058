"""Files, logs and prints that every rank writes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.patterns import pattern
from esper_agents.review.programs import training_files
from esper_agents.review.ranks import is_limited, leaves_it_to_engine, ranks_at, unless_distributed
from esper_agents.review.training import innermost_training_loops

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables

_SAVES = ("torch.save", "safetensors.torch.save_file", "safetensors.torch.save_model")
_STARTS = ("wandb.init", "mlflow.start_run", "torch.utils.tensorboard.SummaryWriter", "tensorboardX.SummaryWriter")
_OWN_PATH = pattern(r"rank|process_index|world|shard|tempfile|TemporaryFile|mkstemp|mkdtemp")


class RankOutput(FactQuery):
    """Checkpoints, experiment logs and prints in the training loop that are not limited to one rank."""

    name = "rank-output"
    topics = ("distributed training",)
    claim = "every rank writes the same files"
    category = Category.CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, loader, optimizer):\n"
        "    for x in loader:\n"
        "        model(x).backward()\n"
        "        optimizer.step()\n"
        '    torch.save(model.state_dict(), "model.pt")\n'
    )
    good = bad.replace("    torch.save", "    if rank == 0:\n        torch.save").replace(
        "optimizer):", "optimizer, rank):"
    )

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield where training programs write, and on which ranks."""
        training = training_files(index)
        for file in files:
            if file not in training or leaves_it_to_engine(file):
                continue
            for call in file.calls_to(*_SAVES):
                yield from self._save(file, call, index)
            for call in file.calls_to(*_STARTS):
                if not is_limited(call, index):
                    text = f"every rank calls `{call.path}`: 8 ranks start 8 runs or write 8 event files"
                    assumption = _assumption(index)
                    yield self.problem(file, call.node, text, "call it under `if rank == 0:`", assumption=assumption)
            yield from self._prints(file, index)

    def _save(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        where = call.argument(1, "f")
        shown = ast.unparse(where) if where is not None else ""
        origins = index.origins(where, call.function, call.line) if where is not None else ()
        if any("BytesIO" in ast.unparse(origin.value) for origin in origins):
            return
        if any(_OWN_PATH.search(ast.unparse(origin.value)) for origin in origins):
            yield self.fact(file, call.node, Assessment.FINE, "each rank writes a file of its own")
        elif shown and not index.callers(call.function) and shown.split(".")[0] in _given(call):
            yield self.fact(
                file, call.node, Assessment.OPEN, f"every rank that calls `{call.function.name}` writes here"
            )
        elif ranks_at(call, index) is not None:
            yield self.fact(file, call.node, Assessment.FINE, f"one rank writes `{shown[:60]}`")
        elif is_limited(call, index):
            text = f"whether one rank alone writes `{shown[:60]}` depends on the callers"
            yield self.fact(file, call.node, Assessment.OPEN, text)
        else:
            text = f"every rank writes `{shown[:60]}`, all at once: the file may be damaged"
            remedy = "write it under `if dist.get_rank() == 0:`, with `dist.barrier()` after it if all read it"
            yield self.problem(file, call.node, text, remedy, assumption=_assumption(index))

    def _prints(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        loops = innermost_training_loops(file)
        found = [
            call
            for call in file.calls_to("print")
            if any(call.block.within(loop) for loop in loops) and not is_limited(call, index)
        ]
        if found:
            others = f" (and {len(found) - 1} more in this file)" if len(found) > 1 else ""
            text = f"every rank prints this line in the training loop{others}: 8 ranks print it 8 times"
            remedy = "print under `if rank == 0:`"
            yield self.problem(file, found[0].node, text, remedy, assumption=_assumption(index))


def _assumption(index: ProjectIndex) -> str:
    return unless_distributed(index) or "no program that calls this limits it to one rank"


def _given(call: Call) -> set[str]:
    """Return the names that the function of a call takes or opens."""
    return {*call.function.parameters, *(target for block in call.block.chain() for target in block.targets)} - {"self"}
