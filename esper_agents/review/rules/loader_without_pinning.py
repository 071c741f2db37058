"""ESP413: batches go to the GPU from memory that is not pinned."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import LOOPS
from esper_agents.review.devices import uses_gpu
from esper_agents.review.loaders import LOADERS, loops_over_loaders, trains
from esper_agents.review.moves import is_without_waiting, moves_to_device
from esper_agents.review.names import dotted, root_of, walk
from esper_agents.review.rule import INFERRED, SEEN, Rewrite, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_PINNING = 7


class LoaderWithoutPinning(Rule):
    """A `DataLoader` without `pin_memory=True` whose batches are moved to the GPU.

    ## Why it costs
    The GPU copies from pinned memory only. Anything else is first copied to a pinned buffer, and the host waits for
    that: `non_blocking=True` then says nothing, and no copy runs beside the computation.

    ## When it is right
    The data lie on the GPU already, memory is short, or the batches are small. What it would bring was not measured.
    Loaders whose pinning a variable decides, and those that a framework prepares, are not reported.

    ## Sources
    PyTorch documentation of `torch.utils.data.DataLoader`, "Memory pinning"; PyTorch tutorial "A guide on good usage
    of non_blocking and pin_memory() in PyTorch".
    """

    code, name = "ESP413", "loader-without-pinning"
    severity, category = Severity.SUGGESTION, Category.PERFORMANCE
    bad = (
        "from torch.utils.data import DataLoader\n"
        "\n"
        "\n"
        "def score(model, pictures):\n"
        "    model.cuda()\n"
        "    model.eval()\n"
        "    with torch.inference_mode():\n"
        "        for x in DataLoader(pictures, batch_size=64, num_workers=8):\n"
        "            yield model(x.cuda(non_blocking=True))\n"
    )
    good = (
        "from torch.utils.data import DataLoader\n"
        "\n"
        "\n"
        "def score(model, pictures):\n"
        "    model.cuda()\n"
        "    model.eval()\n"
        "    with torch.inference_mode():\n"
        "        for x in DataLoader(pictures, batch_size=64, num_workers=8, pin_memory=True):\n"
        "            yield model(x.cuda(non_blocking=True))\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the loaders that do not pin and whose batches go to the GPU."""
        made = [call for call in file.calls_to(*LOADERS) if _does_not_pin(call)]
        if not made:
            return
        loops = loops_over_loaders(index)
        for call in made:
            moves = [move for loop in loops.get(call.node, ()) for move in _moves_in(loop)]
            hurried = next((move for move in moves if is_without_waiting(move)), None)
            if hurried is not None:
                yield self._in_vain(call, hurried)
            elif moves and uses_gpu(index) and _trains(call, index):
                yield self._found(call)

    def fix(self, call: Call, claim: Diagnostic) -> Rewrite | None:
        """Return the loader with pinning where the copies ask for it, and nobody has turned it off."""
        is_asked = claim.severity is Severity.WARNING and call.name in LOADERS
        is_unsaid = call.argument(_PINNING, "pin_memory") is None and not call.has_splat()
        return Rewrite(arguments={"pin_memory": "True"}) if is_asked and is_unsaid else None

    def _in_vain(self, call: Call, move: Call) -> RuleMatch:
        where = f"{move.function.file.path}:{move.line}"
        return self.hit(
            call.node,
            f"`non_blocking=True` at {where} says nothing: this loader's batches lie in memory that is not pinned",
            remedy="add `pin_memory=True`",
            confidence=Confidence.HIGH if move.function is call.function else Confidence.MODERATE,
            basis=SEEN if move.function is call.function else "followed through calls",
            severity=Severity.WARNING,
        )

    def _found(self, call: Call) -> RuleMatch:
        return self.hit(
            call.node,
            "each batch is copied to a pinned buffer first, and the host waits for it",
            remedy="try `pin_memory=True` with `x.to(device, non_blocking=True)`, and measure",
            confidence=Confidence.LOW,
            basis=f"{INFERRED}: how long the copies take was not measured",
        )


def _does_not_pin(call: Call) -> bool:
    pinned = call.argument(_PINNING, "pin_memory")
    if pinned is None:
        return not call.has_splat()
    return isinstance(pinned, ast.Constant) and pinned.value is False


def _trains(call: Call, index: ProjectIndex) -> bool:
    return any(trains(loop, index) for loop in loops_over_loaders(index)[call.node])


def _goes_over(block: Block, handed: set[str]) -> bool:
    """Return whether an inner loop goes over the fields of a batch: `batch.items()`."""
    rounds = [block.node.iter] if isinstance(block.node, ast.For) else []
    rounds += [each.iter for each in getattr(block.node, "generators", ())]
    return any(isinstance(part, ast.Name) and part.id in handed for each in rounds for part in walk(each))


def _moves_in(loop: Block) -> list[Call]:
    """Return the moves of what a loop hands out, or of its fields, `x.pin_memory()` before it aside."""
    handed = set(loop.targets) | {
        path
        for path, made in loop.function.assignments.items()
        for each in made
        if each.block.within(loop) and isinstance(each.value, ast.Call) and dotted(each.value.func) == "next"
    }
    for block in loop.function.blocks:
        if block.kind in LOOPS and block is not loop and block.within(loop) and _goes_over(block, handed):
            handed |= set(block.targets)
    return [
        call
        for call in loop.function.calls
        if call.tail in {"to", "cuda"}
        and call.block.within(loop)
        and root_of(call.receiver) in handed
        and "pin_memory" not in call.receiver
        and moves_to_device(call)
    ]
