"""ESP103: training goes on in evaluation mode after the first evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.index import argument_for
from esper_agents.review.models import forward_calls, switches
from esper_agents.review.names import dotted
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.tables import BlockKind
from esper_agents.review.training import innermost_training_loops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Block, Call, FileTables, Function


# How many steps from caller to caller are followed.
_STEPS = 3


@dataclass(frozen=True, slots=True)
class _Left:
    """A call that leaves a model in evaluation mode: the call, the model, and how that is known."""

    call: Call
    path: str
    basis: str


class TrainingInEvaluationMode(Rule):
    """A loop that trains and evaluates a model in turn, and never switches it back to training mode.

    ## Why it costs
    `.eval()` stays in force. From the second round on dropout no longer drops and batch normalisation no longer
    learns its statistics: the model trains without the regularisation it was given, and nothing says so.

    ## When it is right
    Normalisation and dropout are frozen on purpose: then `.eval()` stands before the loop and not in it. A `.train()`
    anywhere in the loop, also in a function that it calls, is enough, as is `model.train(was_training)`.

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

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield what switches a model to evaluation in a loop that goes on training it."""
        seen: set[Call] = set()
        for loop in _training_loops(file, index):
            calls = _calls_in(loop)
            if any(_switches_back(call, index) for call in calls):
                continue
            trained = _trained_in(loop, index)
            for left in _left_in_evaluation(loop, trained, index):
                if left.call not in seen:
                    seen.add(left.call)
                    yield self._found(left)

    def _found(self, left: _Left) -> Hit:
        return self.hit(
            left.call.node,
            f"{left.path!r} stays in evaluation mode after this, while the loop goes on training it",
            remedy=f"call `{left.path}.train()` at the start of every round",
            confidence=Confidence.HIGH if left.basis == SEEN else Confidence.MODERATE,
            basis=left.basis,
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
    return any("backward" in index.reached(each) for each in index.callees(call))


def _names_that_train(index: ProjectIndex) -> frozenset[str]:
    """Return the names of functions that send a loss backward, and of those that call such a name, a few steps up."""
    found = {call.function.name for call in index.calls_ending("backward", "manual_backward")}
    for _ in range(_STEPS):
        found |= {call.function.name for call in index.calls_ending(*sorted(found))}
    return frozenset(found - {"<module>"})


def _trained_in(loop: Block, index: ProjectIndex) -> set[str]:
    """Return the models that a loop trains, as the loop calls them."""
    direct = {
        call.path
        for inner in innermost_training_loops(loop.function.file)
        if inner.within(loop)
        for call in _calls_in(inner)
        if call in forward_calls(loop.function.file, index)
    }
    handed = {
        _means(call, function, forward.path)
        for call in _calls_in(loop)
        if _trains(call, index)
        for function in index.callees(call)
        for each in index.closure(function)
        for forward in forward_calls(each.file, index)
        if forward.function is each and (each is function or forward.path.startswith("self."))
    }
    return (direct | handed) - {""}


def _left_in_evaluation(loop: Block, trained: set[str], index: ProjectIndex) -> Iterator[_Left]:
    """Yield the calls that leave a trained model in evaluation mode."""
    for switch in switches(loop.function):
        if switch.to_training is False and switch.path in trained and switch.call.block.within(loop):
            yield _Left(switch.call, switch.path, SEEN)
    for call in _calls_in(loop):
        for function in index.callees(call) if not _trains(call, index) else ():
            for switch in switches(function):
                path = _means(call, function, switch.path)
                if switch.to_training is False and path in trained:
                    yield _Left(call, path, FOLLOWED)


def _calls_in(block: Block) -> list[Call]:
    return [call for call in block.function.calls if call.block.within(block)]


def _switches_back(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call may switch a model to training, itself or through functions of these files."""
    if call.tail == "train" and call.receiver and not index.callees(call):
        return True
    return any(".train" in index.reached(each) for each in index.possible_callees(call))


def _means(call: Call, function: Function, path: str) -> str:
    """Return what a path inside a function is called where the function is called; empty where that cannot be said."""
    if path.startswith("self.") and call.receiver == "self":
        return path
    handed = argument_for(call, function, path)
    return dotted(handed) if handed is not None else ""
