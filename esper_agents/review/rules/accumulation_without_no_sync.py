"""ESP412: gradients are averaged between processes in every step of an accumulation."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import tests_around
from esper_agents.review.frameworks import runs_the_loop
from esper_agents.review.models import callers_around
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.training import backward_calls, is_optimizer_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "DistributedDataParallel",
)
# What holds back the averaging, or brings an engine that does.
_HANDLED = pattern(
    r"\bno_sync\b|require_backward_grad_sync|set_requires_gradient_sync|\bdeepspeed\b|\baccelerator\.accumulate\b"
    r"|no_backward_sync|register_comm_hook|\bno_sync_context\b|maybe_no_sync"
)
_EVERY = pattern(
    r"accum|grad_acc|every|update_freq|iter_size|virtual|micro|num_steps|_step|sync|boundary|chunk|split",
    re.IGNORECASE,
)


class AccumulationWithoutNoSync(Rule):
    """Gradients accumulated over several backwards of a model in several processes, without its `no_sync()`.

    ## Why it costs
    Each backward averages all gradients between the processes, though only the last one before the optimizer's step
    needs it: accumulation over eight batches sends eight times as much over the network.

    ## When it is right
    One process, or a network so fast that the averaging hides behind the backward. The result is the same, only slower.
    For a model in shards it is advice: `no_sync()` then keeps whole gradients in memory until the step.
    A project that mentions `no_sync`, `require_backward_grad_sync` or `set_requires_gradient_sync` anywhere in the
    files at hand, or leaves it to a framework, is not reported.

    ## Sources
    PyTorch documentation of `torch.nn.parallel.DistributedDataParallel.no_sync`, of
    `torch.distributed.fsdp.FullyShardedDataParallel.no_sync` and of `FSDPModule.set_requires_gradient_sync`.
    """

    code, name = "ESP412", "accumulation-without-no-sync"
    severity, category = Severity.WARNING, Category.PERFORMANCE
    bad = (
        "from torch.nn.parallel import DistributedDataParallel\n"
        "\n"
        "\n"
        "def fit(model, loader, optimizer):\n"
        "    model = DistributedDataParallel(model)\n"
        "    for step, (x, y) in enumerate(loader):\n"
        "        (criterion(model(x), y) / 8).backward()\n"
        "        if (step + 1) % 8 == 0:\n"
        "            optimizer.step()\n"
        "            optimizer.zero_grad()\n"
    )
    good = (
        "from contextlib import nullcontext\n"
        "\n"
        "from torch.nn.parallel import DistributedDataParallel\n"
        "\n"
        "\n"
        "def fit(model, loader, optimizer):\n"
        "    model = DistributedDataParallel(model)\n"
        "    for step, (x, y) in enumerate(loader):\n"
        "        is_last = (step + 1) % 8 == 0\n"
        "        with nullcontext() if is_last else model.no_sync():\n"
        "            (criterion(model(x), y) / 8).backward()\n"
        "        if is_last:\n"
        "            optimizer.step()\n"
        "            optimizer.zero_grad()\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the backwards of accumulating loops in projects that wrap a model for several processes."""
        wrapped = _wrapping_files(index)
        if not wrapped or runs_the_loop(file):
            return
        for block, backward in _repeated(file):
            around = _files_around(block.function, index)
            if not around & wrapped or any(_HANDLED.search(each.text) for each in around | wrapped):
                continue
            if _accumulates(block, index):
                is_sharded = all(each in _sharding_files(index) for each in around & wrapped)
                yield (self._sharded if is_sharded else self._found)(backward, is_here=file in wrapped)

    def _found(self, call: Call, *, is_here: bool) -> RuleMatch:
        return self.hit(
            call.node,
            "every backward of the accumulation averages all gradients between the processes",
            remedy="run all but the last batch before a step under `with model.no_sync(): ...`, forward and backward",
            confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
            basis=SEEN if is_here else FOLLOWED,
        )

    def _sharded(self, call: Call, *, is_here: bool) -> RuleMatch:
        return self.hit(
            call.node,
            "every backward of the accumulation reduces all gradients between the processes",
            remedy="where memory holds whole gradients, run all but the last batch before a step under "
            "`model.no_sync()`; for `fully_shard` call `model.set_requires_gradient_sync(False)` for them",
            confidence=Confidence.MODERATE,
            basis=SEEN if is_here else FOLLOWED,
            severity=Severity.SUGGESTION,
        )


def _repeated(file: FileTables) -> Iterator[tuple[Block, Call]]:
    """Yield each loop, and each function called for one, that sends a loss backward, with the first such call."""
    found: dict[Block, Call] = {}
    for call in backward_calls(file):
        if call.block.loop is not None or not call.function.is_module:
            found.setdefault(call.block.loop or call.function.block, call)
    yield from found.items()


def _files_around(function: Function, index: ProjectIndex) -> set[FileTables]:
    """Return the files of a function, of those that call it, and of those that make an object of its class."""
    init = index.method(function.owner, "__init__") if function.owner is not None else None
    makers = index.callers(init) if init is not None else ()
    return {each.file for each in callers_around(function, index)} | {maker.function.file for maker in makers}


def _wrapping_files(index: ProjectIndex) -> frozenset[FileTables]:
    """Return the files that wrap a model for several processes."""
    return index.once(
        "files that wrap for several processes",
        lambda: (
            _sharding_files(index)
            | frozenset(
                call.function.file
                for call in index.calls_ending("DistributedDataParallel", "DDP")
                if call.name in _WRAPPERS or tail_of(call.name) == "DistributedDataParallel"
            )
        ),
    )


def _sharding_files(index: ProjectIndex) -> frozenset[FileTables]:
    """Return the files that shard a model over several processes."""
    return index.once(
        "files that shard over several processes",
        lambda: frozenset(
            call.function.file
            for call in index.calls_ending("FullyShardedDataParallel", "FSDP", "fully_shard")
            if call.name.startswith("torch.distributed.")
        ),
    )


def _accumulates(loop: Block, index: ProjectIndex) -> bool:
    """Return whether the optimizer steps only every so many rounds of a loop, or after it in the loop around."""
    steps = [call for call in loop.function.calls if is_optimizer_step(call, index)]
    inside = [call for call in steps if call.block.within(loop)]
    if inside:
        return all(
            any(_is_boundary(test) or _is_count(test, loop) for test in tests_around(call.block, loop))
            or _is_after_skip(call, loop)
            for call in inside
        )
    outer = list(loop.loops())[1:]
    is_micro = any(_EVERY.search(name) for name in _words(loop))
    return is_micro and any(call.block.loop in outer for call in steps)


def _is_after_skip(call: Call, loop: Block) -> bool:
    """Return whether a `continue` above a call leaves most rounds before it: `if step % 4: continue`."""
    return any(
        isinstance(block.node, ast.If)
        and isinstance(block.node.body[-1], ast.Continue)
        and block.node.lineno < call.line
        and block.parent is loop
        and (_is_boundary(block.node.test) or _is_below(block.node.test, loop))
        for block in loop.function.blocks
    )


def _is_below(test: ast.expr, loop: Block) -> bool:
    """Return whether a test asks if what the loop counts by hand is still too little."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Lt | ast.LtE):
        return False
    counted = loop.function.assignments.get(dotted(test.left), ())
    return any(each.is_augmented and each.block.within(loop) for each in counted)


def _is_boundary(test: ast.expr) -> bool:
    for each in walk(test):
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod):
            return True
        if isinstance(each, ast.Name | ast.Attribute) and re.search(
            r"accum|grad_acc|boundary|do_step|should_step|update_freq", dotted(each)
        ):
            return True
    return False


def _is_count(test: ast.expr, loop: Block) -> bool:
    """Return whether a test asks if a name that the loop counts by hand has reached a number."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq | ast.GtE):
        return False
    counted = loop.function.assignments.get(dotted(test.left), ())
    return any(each.is_augmented and each.block.within(loop) for each in counted) and any(
        isinstance(each.value, ast.Constant) and each.value.value == 0 and each.block.within(loop) for each in counted
    )


def _words(loop: Block) -> Iterator[str]:
    if isinstance(loop.node, ast.For):
        yield from loop.targets
        for each in walk(loop.node.iter):
            if isinstance(each, ast.Name | ast.Attribute):
                yield dotted(each)
