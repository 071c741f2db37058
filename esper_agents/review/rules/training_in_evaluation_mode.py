"""ESP103: training goes on in evaluation mode after the first evaluation."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import names_in
from esper_agents.review.definitions import owner_of
from esper_agents.review.evaluations import is_switched
from esper_agents.review.model_modes import Mode, mode_events
from esper_agents.review.models import forward_calls_in, gradients_off_around, switch_at
from esper_agents.review.names import root_of
from esper_agents.review.renamings import means_outside
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.training import innermost_training_loops, is_backward

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function


# How many steps from caller to caller are followed.
_STEPS = 3


class TrainingInEvaluationMode(Rule):
    """A loop that trains and evaluates a model in turn, and never switches it back to training mode.

    ## Why it costs
    `.eval()` stays in force. From the second round on dropout no longer drops and batch normalisation no longer
    learns its statistics: the model trains without the regularisation it was given, and nothing says so.

    ## When it is right
    Normalisation and dropout are frozen on purpose: then `.eval()` stands before the loop and not in it. A `.train()`
    on some way from the evaluation to the next training, also in a function called there, is enough, as is
    `model.train(was_training)`.

    ## Sources
    PyTorch documentation of `torch.nn.Module.train` and `torch.nn.Module.eval`.
    """

    code, name = "ESP103", "training-in-evaluation-mode"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "model.train()\n"
        "for epoch in range(3):\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        criterion(model(x), y).backward()\n"
        "        optimizer.step()\n"
        "    model.eval()\n"
        "    with torch.no_grad():\n"
        "        print(criterion(model(held_out), targets))\n"
    )
    good = bad.replace("model.train()\nfor epoch in range(3):\n", "for epoch in range(3):\n    model.train()\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what switches a model to evaluation in a loop that goes on training it."""
        seen: set[Call] = set()
        for loop in _training_loops(file, index):
            for path in sorted(_trained_in(loop, index)):
                if _is_made_in(loop, path):
                    continue
                for call in _left_in_evaluation(loop, path, index):
                    if call not in seen:
                        seen.add(call)
                        yield self._found(call, path, index)

    def _found(self, call: Call, path: str, index: ProjectIndex) -> RuleMatch:
        is_here = switch_at(call, index) is not None
        return self.hit(
            call.node,
            f"{path!r} stays in evaluation mode after this, while the loop goes on training it",
            remedy=f"call `{path}.train()` at the start of every round, or right after the evaluation",
            confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
            basis=SEEN if is_here else FOLLOWED,
        )


def _training_loops(file: FileTables, index: ProjectIndex) -> Iterator[Block]:
    """Yield the loops in which a loss goes backward, and those that call a function of these files for it."""
    found = [loop for inner in innermost_training_loops(file) for loop in inner.loops()]
    for call in file.calls:
        if call.block.loop is not None and _trains(call, index):
            found += call.block.loops()
    yield from dict.fromkeys(loop for loop in found if loop.kind is not BlockKind.COMPREHENSION)


def _trains(call: Call, index: ProjectIndex) -> bool:
    if call.tail not in index.once("names that train", lambda: _names_that_train(index)):
        return False
    return any("backward" in index.reached(callee) for callee in index.callees(call))


def _names_that_train(index: ProjectIndex) -> frozenset[str]:
    """Return the names of functions that send a loss backward, and of those that call such a name, a few steps up."""
    found = {call.function.name for call in index.calls_ending("backward", "manual_backward")}
    for _ in range(_STEPS):
        found |= {call.function.name for call in index.calls_ending(*sorted(found))}
    return frozenset(found - {"<module>"})


def _trained_in(loop: Block, index: ProjectIndex) -> set[str]:
    """Return the models that a loop trains, as the loop calls them."""
    forwards = forward_calls_in(loop.function, index)
    found: set[str] = set()
    for call in _calls_in(loop):
        if gradients_off_around(call.block, index) and not is_switched(call.block):
            continue
        if call in forwards:
            found.add(call.path)
            continue
        for function in index.callees(call):
            for each in index.closure(function):
                if each is not function and not _share_self(each, function, index):
                    continue
                paths = [
                    one.path for one in forward_calls_in(each, index) if not gradients_off_around(one.block, index)
                ]
                found |= {
                    means_outside(call, function, path, index)
                    for path in paths
                    if each is function or path.startswith("self.")
                }
    return {path.removesuffix(".forward") for path in found} - {""}


def _share_self(one: Function, other: Function, index: ProjectIndex) -> bool:
    """Return whether two methods have one `self`: one class inherits from the other, or is it."""
    first, second = owner_of(one), owner_of(other)
    if first is None or second is None:
        return False
    return second in index.lineage(first).classes or first in index.lineage(second).classes


def _is_made_in(loop: Block, path: str) -> bool:
    """Return whether each round of a loop makes a model anew: then it ends with the round."""
    names = {path, root_of(path)} - {"self"}
    return any(
        each.block.within(loop)
        and isinstance(each.value, ast.Call)
        and not any(one == name or one.startswith(f"{name}.") for one in names_in(each.value))
        for name in names
        for each in loop.function.assignments.get(name, ())
    )


def _left_in_evaluation(loop: Block, path: str, index: ProjectIndex) -> Iterator[Call]:
    """Yield the calls in a loop that leave a model in evaluation mode until the loop trains it again."""
    function = loop.function
    events = mode_events(function, path, index)
    leaving = [call for call, modes in events.items() if _leaves_evaluation(modes) and call.block.within(loop)]
    if not leaving:
        return
    trainings = [call for call in _calls_in(loop) if (is_backward(call) or _trains(call, index)) and call not in events]
    switching = [call for call, modes in events.items() if modes & {Mode.TRAINING, Mode.UNKNOWN}]
    for call in leaving:
        nearest = index.flow(function).first_after(call, [*trainings, *switching]).events
        # A switch that stands outside comes too late for the rounds that are still to go.
        is_switched_back = any(each in switching and each.block.within(loop) for each in nearest)
        if any(each in trainings for each in nearest) and not is_switched_back:
            yield call


def _calls_in(block: Block) -> list[Call]:
    return [call for call in block.function.calls if call.block.within(block)]


def _leaves_evaluation(modes: frozenset[Mode]) -> bool:
    return Mode.EVALUATION in modes and not modes & {Mode.TRAINING, Mode.UNKNOWN}
