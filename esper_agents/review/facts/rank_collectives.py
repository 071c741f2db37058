"""Collective operations that some ranks skip, so that the others wait for them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.blocks import BlockKind
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.programs import training_files
from esper_agents.review.ranks import (
    COLLECTIVES,
    FSDP,
    Ranks,
    has_counterpart,
    is_collective,
    is_distributed,
    leaves_it_to_engine,
    ranks_at,
    wraps,
)
from esper_agents.review.training import innermost_training_loops, is_backward, is_optimizer_step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables

# These have gradients, and none of them works in place.
_FUNCTIONAL = pattern(
    r"torch\.distributed\.nn\.(?:functional\.)?(?:all_reduce|all_gather|reduce|reduce_scatter|all_to_all)"
)
_STATE = frozenset({"state_dict", "full_optim_state_dict", "optim_state_dict", "summon_full_params"})
_NO_NUMBER = pattern(r"isfinite|isnan|isinf|math\.isfinite|nan_to_num|finite")
_WAITING = {Ranks.ONE: "only one rank", Ranks.OTHERS: "every rank but one", Ranks.SOME: "only some ranks"}


class RankCollectives(FactQuery):
    """Collectives, backwards and steps under a test on the rank, and batches that one rank alone may skip."""

    name = "rank-collectives"
    topics = ("distributed training",)
    claim = "ranks wait for ranks that never come"
    category = Category.CORRECTNESS
    bad = (
        "import torch.distributed as dist\n"
        "\n"
        "\n"
        "def fit(model, loader, optimizer):\n"
        '    dist.init_process_group("nccl")\n'
        "    for x in loader:\n"
        "        loss = model(x)\n"
        "        if dist.get_rank() == 0:\n"
        "            loss.backward()\n"
        "        optimizer.step()\n"
    )
    good = bad.replace("        if dist.get_rank() == 0:\n            loss.backward()\n", "        loss.backward()\n")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the collectives that not all ranks reach, and those that all do."""
        for file in files:
            for call in file.calls:
                yield from self._discarded(file, call)
        if not is_distributed(index):
            return
        training = training_files(index)
        for file in files:
            if leaves_it_to_engine(file):
                continue
            for call in file.calls:
                if is_collective(call):
                    yield from self._collective(file, call, index)
            if file in training:
                yield from self._steps(file, index)
                yield from self._skips(file, index)
            yield from self._states(file, index)

    def _discarded(self, file: FileTables, call: Call) -> Iterator[Fact]:
        """Yield collectives of `torch.distributed.nn`, which return a new tensor, as statements of their own."""
        is_statement = isinstance(call.statement, ast.Expr) and call.statement.value is call.node
        if call.tail in COLLECTIVES and is_statement and _FUNCTIONAL.fullmatch(call.name):
            text = (
                f"`{call.path}(...)` returns its result and does not change its argument: the result is discarded here"
            )
            given = ast.unparse(call.node.args[0]) if call.node.args else ""
            remedy = f"write `{given} = {ast.unparse(call.node)[:60]}`" if given.isidentifier() else "use its result"
            yield self.problem(file, call.node, text, remedy)

    def _collective(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        found = ranks_at(call, index)
        if found is None:
            return
        if has_counterpart(call, found, index):
            text = f"`{call.tail}` stands in the arms of both kinds of ranks, so that one waits for the other"
            yield self.fact(file, call.node, Assessment.DESCRIPTION, text)
            return
        text = f"{_WAITING[found]} calls `{call.path}`, which waits for all ranks: the program hangs here"
        if found is Ranks.SOME:
            yield self.fact(file, call.node, Assessment.OPEN, text)
        else:
            yield self.problem(file, call.node, text, "call it on all ranks, before or after the test on the rank")

    def _steps(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        for call in (*file.calls_ending("backward", "manual_backward"), *file.calls_ending("step")):
            if not (is_backward(call) or is_optimizer_step(call, index)):
                continue
            found = ranks_at(call, index)
            arms = [each for each in call.function.calls if each.tail == call.tail and each is not call]
            if found is None or found is Ranks.SOME or any(ranks_at(arm, index) not in {None, found} for arm in arms):
                continue
            if call.tail == "step":
                text = f"{_WAITING[found]} steps `{call.receiver}`, so the weights of the ranks drift apart"
            else:
                text = (
                    f"{_WAITING[found]} calls `{call.path}()`: the others wait for ever in the averaging of gradients"
                )
            yield self.problem(file, call.node, text, "take it out of the test on the rank")

    def _skips(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield where one rank skips the backward of a batch because of its own loss."""
        for loop, sent in innermost_training_loops(file).items():
            for block in loop.function.blocks:
                test = block.node.test if isinstance(block.node, ast.If) else None
                if test is None or block.kind is not BlockKind.IF or not block.within(loop) or block.loop is not loop:
                    continue
                is_before = block.node.lineno < sent[0].line  # type: ignore[attr-defined]
                leaves = isinstance(block.node.body[-1], ast.Continue)  # type: ignore[attr-defined]
                if not (is_before and leaves and _NO_NUMBER.search(ast.unparse(test))):
                    continue
                if "all_reduce" in {call.tail for call in loop.function.calls}:
                    continue
                text = "a rank whose own loss is not finite skips this batch, and the others wait for its gradients"
                remedy = "decide together: `dist.all_reduce(flag, op=dist.ReduceOp.MAX)` before the test"
                yield self.problem(file, block.node, text, remedy)

    def _states(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield the state of a model in shards that one rank alone asks for."""
        sharded = [call for call in wraps(index) if call.name in FSDP]
        if not sharded or len(sharded) < len(wraps(index)):
            return
        names = {
            name
            for call in sharded
            if isinstance(call.statement, ast.Assign)
            for name in map(dotted, call.statement.targets)
        }
        for call in file.calls_ending(*_STATE):
            if tail_of(call.receiver) in {tail_of(each) for each in names} and ranks_at(call, index) is Ranks.ONE:
                text = f"only one rank calls `{call.path}()`, which needs the shards of all ranks: the program hangs"
                remedy = "call it on all ranks, and save on one"
                yield self.problem(file, call.node, text, remedy)
