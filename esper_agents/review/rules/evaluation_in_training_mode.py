"""ESP102: a model is evaluated while it is still in training mode."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.definitions import owner_of
from esper_agents.review.frameworks import provides_evaluation, runs_the_loop
from esper_agents.review.models import (
    belongs_to_training,
    callers_around,
    forward_calls,
    is_evaluating,
    mode_changes_something,
)
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Block, Call, FileTables, Function

# Models that stand beside the one that is trained.
_KEPT_ASIDE = re.compile(r"teacher|ema|target|reference|frozen|vgg|lpips|inception")
_BACKWARD = frozenset({"backward", "manual_backward"})


class EvaluationInTrainingMode(Rule):
    """An evaluation whose model nobody has switched to evaluation mode, in a project that trains it.

    ## Why it costs
    In training mode dropout goes on dropping, and batch normalisation uses the statistics of the batch and updates
    its own with held-out data. The reported numbers are wrong, and the model is changed by being measured.

    ## When it is right
    The model has no layer that behaves differently, dropout is wanted at test time (Monte Carlo dropout), or the
    switch is made elsewhere: `.eval()` and `.train(False)` are looked for in the function, in what it calls and in
    its callers. A function that nothing in the reviewed files calls is not reported, because its caller may switch.

    ## Sources
    PyTorch documentation of `torch.nn.Module.eval`; PyTorch notes, "Autograd mechanics", on evaluation mode.
    """

    code, name = "ESP102", "evaluation-in-training-mode"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "def evaluate(model, loader):\n"
        "    correct = 0\n"
        "    with torch.no_grad():\n"
        "        for x, y in loader:\n"
        "            correct += (model(x).argmax(1) == y).sum()\n"
        "    return correct\n"
        "\n"
        "\n"
        "def fit(model, loader, held_out, optimizer):\n"
        "    for epoch in range(3):\n"
        "        model.train()\n"
        "        for x, y in loader:\n"
        "            optimizer.zero_grad()\n"
        "            criterion(model(x), y).backward()\n"
        "            optimizer.step()\n"
        "        print(evaluate(model, held_out))\n"
    )
    good = bad.replace("    correct = 0\n", "    model.eval()\n    correct = 0\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield the first forward call of each evaluating loop that no `.eval()` reaches."""
        seen: set[Block] = set()
        for call in forward_calls(file, index):
            loop, function = call.block.loop, call.function
            if loop is None or loop in seen or call.path == "self.forward":
                continue
            if not is_evaluating(call, loop, index) or not belongs_to_training(function, index):
                continue
            if _is_switched(call, index) or _is_explained(call, index):
                continue
            seen.add(loop)
            yield self._found(call, index)

    def _found(self, call: Call, index: ProjectIndex) -> Hit:
        trained_here = any(each.tail in _BACKWARD for each in call.function.calls)
        caller = next(iter(index.callers(call.function)), None)
        where = f" (called at {caller.function.file.path}:{caller.line})" if caller and not trained_here else ""
        return self.hit(
            call.node,
            f"{call.path!r} is evaluated{where} in training mode: nothing calls `.eval()` before",
            remedy=f"call `{call.path}.eval()` before the loop, and `{call.path}.train()` when training goes on",
            confidence=Confidence.HIGH if trained_here else Confidence.MODERATE,
            basis=SEEN if trained_here else FOLLOWED,
        )


def _is_switched(call: Call, index: ProjectIndex) -> bool:
    """Return whether the function of a call, what it calls, its callers or its class may switch its model."""
    function = call.function
    owner = owner_of(function)
    methods = [method for each in index.lineage(owner).classes for method in each.methods.values()] if owner else []
    around = (*callers_around(function, index), function.file.functions[0], *methods)
    return any(_switches(each, call.path, index) for each in dict.fromkeys(around))


def _switches(function: Function, path: str, index: ProjectIndex) -> bool:
    for call in function.calls:
        evaluates = call.tail == "eval" or (call.tail == "train" and _may_be_false(call))
        if evaluates and call.receiver and not _is_another(call.receiver, path):
            return True
        if any(".eval" in index.reached(each) for each in index.possible_callees(call)):
            return True
    return False


def _is_another(receiver: str, path: str) -> bool:
    """Return whether two paths are surely two models: `self.teacher` and `self.student`, `teacher` and `model`."""
    if receiver.startswith("self.") and path.startswith("self."):
        return receiver.split(".")[1].rstrip("()[]") != path.split(".")[1].rstrip("()[]")
    kept_aside = _KEPT_ASIDE.search(receiver)
    return kept_aside is not None and kept_aside[0] not in path


def _may_be_false(call: Call) -> bool:
    mode = call.argument(0, "mode")
    return mode is not None and not (isinstance(mode, ast.Constant) and mode.value is True)


def _is_explained(call: Call, index: ProjectIndex) -> bool:
    function = call.function
    if provides_evaluation(function, index) or runs_the_loop(function.file):
        return True
    held = [call.node.func]
    while isinstance(held[-1], ast.Attribute):
        held.append(held[-1].value)
    owners = [index.class_of(each, function, call.line) for each in held]
    return any(
        not mode_changes_something(owner, index) for owner in owners if owner is not None and index.is_module(owner)
    )
