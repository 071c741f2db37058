"""ESP402: a model is moved to its device in every step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.attributes import holds_layer
from esper_agents.review.conditions import is_now_and_then, tests_around
from esper_agents.review.definitions import owner_of
from esper_agents.review.fetches import bound_to
from esper_agents.review.hot import hot_around
from esper_agents.review.models import is_model
from esper_agents.review.moves import moves_to_device
from esper_agents.review.names import dotted, root_of
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.training import backward_calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_REMEDY = "move it once, before the loop and before the optimizer is made"


class ModelMovedInLoop(Rule):
    """A `model.to(device)` or `model.cuda()` inside the loop over the batches.

    ## Why it costs
    Each call walks every parameter and buffer. If one of them is on another device, because a checkpoint or a metric
    put it there, it is copied again in every step; an optimizer made before still holds the old tensors.

    ## When it is right
    Models take turns on the device, or the loop is over models. A receiver that the loop itself binds, a loop that
    moves the model away as well, and moves under an `if` for now and then are not reported.

    ## Sources
    PyTorch documentation of `torch.nn.Module.to` and of `torch.optim`: move a model before making its optimizer.
    """

    code, name = "ESP402", "model-moved-in-loop"
    severity, category = Severity.WARNING, Category.PERFORMANCE
    bad = (
        "def fit(model, loader, optimizer, device):\n"
        "    for x, y in loader:\n"
        "        model.to(device)\n"
        "        optimizer.zero_grad()\n"
        "        criterion(model(x.to(device)), y.to(device)).backward()\n"
        "        optimizer.step()\n"
    )
    good = (
        "def fit(model, loader, optimizer, device):\n"
        "    model.to(device)\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        criterion(model(x.to(device)), y.to(device)).backward()\n"
        "        optimizer.step()\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the moves of a model in loops that run it as well."""
        for call in file.calls_ending("to", "cuda"):
            if not call.receiver or not moves_to_device(call):
                continue
            if call.block.loop is not None:
                yield from self._in_loop(call, call.block.loop, index)
            else:
                yield from self._in_step(call, index)

    def _in_loop(self, call: Call, loop: Block, index: ProjectIndex) -> Iterator[RuleMatch]:
        bound = bound_to(call)
        # What is moved and called as well is a module, whatever its name.
        runs = _runs(loop, call.receiver) or _runs_at_once(call) or (bool(bound) and _runs(loop, bound))
        runs &= is_model(call.receiver, call, index) or call.receiver.replace(".", "").isidentifier()
        if runs and not _is_excused(call, loop):
            trains = any(backward_call.block.within(loop) for backward_call in backward_calls(call.function.file))
            yield self.hit(
                call.node,
                f"{call.receiver!r} is moved to its device in every round of the loop",
                remedy=_REMEDY,
                confidence=Confidence.HIGH if trains else Confidence.MODERATE,
                basis=SEEN if trains else f"{INFERRED}: the loop runs over batches",
            )

    def _in_step(self, call: Call, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield a move in a function that every step calls, and in a model's own `forward`."""
        function, hot = call.function, hot_around(call.block, index)
        is_forward = function.name == "forward" and holds_layer(call.receiver, function, call.line, index)
        if any(tests_around(call.block, function.block)) or not any(
            each.path == call.receiver for each in function.calls
        ):
            return
        if is_forward or (
            hot is not None and is_model(call.receiver, call, index) and not _is_excused(call, hot.around)
        ):
            yield self.hit(
                call.node,
                f"{call.receiver!r} is moved to its device in every {'forward' if is_forward else 'training step'}",
                remedy=_REMEDY,
                confidence=Confidence.MODERATE,
                basis=SEEN if is_forward else FOLLOWED,
            )


def _runs(loop: Block, path: str) -> bool:
    return any(
        (call.path == path or (call.receiver == path and call.tail == "forward")) and call.block.loop is loop
        for call in loop.function.calls
    )


def _runs_at_once(call: Call) -> bool:
    """Return whether what a move gives back is called on the spot: `net.to(device)(x)`."""
    return isinstance(call.parent, ast.Call) and call.parent.func is call.node


def _is_excused(call: Call, loop: Block) -> bool:
    """Return whether the loop makes the model, moves it away again, or moves it only now and then."""
    function, root = call.function, root_of(call.receiver)
    bound_here = root in loop.targets or any(
        each.block.within(loop) and call.receiver not in ast.unparse(each.value)
        for each in function.assignments.get(call.receiver, ())
    )
    moves_away = any(
        each.receiver == call.receiver and each.block.within(loop) and (each.tail == "cpu" or '"cpu"' in _text(each))
        for each in function.calls
    )
    is_framework = owner_of(function) is not None and dotted(call.node.func) == "self.to"
    return bound_here or moves_away or is_framework or is_now_and_then(call.block, loop)


def _text(call: Call) -> str:
    return ast.unparse(call.node).replace("'", '"')
