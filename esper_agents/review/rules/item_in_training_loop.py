"""ESP305: a value is fetched from the device in every training step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import is_now_and_then, steers
from esper_agents.review.names import root_of
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.training import backward_calls, innermost_training_loops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Block, Call, FileTables, Function

_FETCHING = ("item", "tolist", "numpy", "cpu")


class ItemInTrainingLoop(Rule):
    """An `.item()`, `.tolist()`, `.cpu()` or `.numpy()` in every step of a loop that also calls `.backward()`.

    ## Why it costs
    It copies a value to the host, and the host waits until every kernel queued before it is done. Until then no
    further kernel is queued, so the device runs dry once in every step.

    ## When it is right
    The value steers the loop (a test for NaN, an early stop), it is fetched every so many steps only, or the model
    runs on the CPU, where nothing waits. Fetches under an `if` with `%` in it and values that a later `if` or `while`
    asks are not reported.

    ## Sources
    PyTorch performance tuning guide, on avoiding unnecessary CPU-GPU synchronization.
    """

    code, name = "ESP305", "item-in-training-loop"
    severity, category = Severity.WARNING, Category.MEMORY
    bad = "for x in loader:\n    loss = step(x)\n    loss.backward()\n    total += loss.item()\n"
    good = "for x in loader:\n    loss = step(x)\n    loss.backward()\n    total += loss.detach()\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield the fetches in training loops of the file, and in the functions that such loops call for every step."""
        fetches = [call for call in file.calls_ending(*_FETCHING) if _fetches(call)]
        if not fetches:
            return
        on_device = _names_a_device(index)
        loops = [loop for loop in innermost_training_loops(file) if not _wants_input_gradients(loop)]
        steps = _step_functions(file, index)
        for call in fetches:
            if any(call.block.within(loop) and _made_in(call, loop) and not _is_excused(call, loop) for loop in loops):
                yield self._found(call, on_device=on_device, basis=SEEN)
            elif call.function in steps and call.tail == "item" and not _is_excused(call, call.function.block):
                yield self._found(call, on_device=on_device, basis=FOLLOWED)

    def _found(self, call: Call, *, on_device: bool, basis: str) -> Hit:
        confidence = Confidence.HIGH if on_device and basis == SEEN else Confidence.MODERATE
        because = "" if on_device else "; no device is named in the reviewed files, and on the CPU nothing waits"
        return self.hit(
            call.node,
            f"`.{call.tail}()` in every training step makes the host wait for the device",
            remedy="keep `.detach()`ed tensors and fetch them once after the loop, or every so many steps",
            confidence=confidence,
            basis=basis + because,
        )


def _fetches(call: Call) -> bool:
    """Return whether a call is a fetch of its own: `.cpu()` before `.numpy()` is one fetch, not two."""
    if not isinstance(call.node.func, ast.Attribute) or call.node.args or call.node.keywords:
        return False
    is_first_half = isinstance(call.parent, ast.Attribute) and call.parent.attr in _FETCHING
    return not is_first_half


def _wants_input_gradients(loop: Block) -> bool:
    """Return whether a loop asks for gradients of its inputs: an attack or a saliency map, no training."""
    return any(call.tail == "requires_grad_" and call.block.within(loop) for call in loop.function.calls)


def _made_in(call: Call, loop: Block) -> bool:
    """Return whether what is fetched is made anew in a loop; of `.item()` that is taken for granted."""
    made = call.function.assignments.get(root_of(call.receiver), ())
    return call.tail == "item" or any(each.block.within(loop) for each in made)


def _is_excused(call: Call, around: Block) -> bool:
    return is_now_and_then(call.block, around) or steers(call)


def _step_functions(file: FileTables, index: ProjectIndex) -> set[Function]:
    """Return the functions of a file that send a loss backward and are called for it in a loop."""
    found: set[Function] = set()
    for call in backward_calls(file):
        function = call.function
        if call.block.loop is None and any(caller.block.loop for caller in index.callers(function)):
            found.add(function)
    return found


def _names_a_device(index: ProjectIndex) -> bool:
    return any("cuda" in file.text or "device" in file.text for file in index.files.values())
