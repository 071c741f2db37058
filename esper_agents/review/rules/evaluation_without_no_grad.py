"""ESP302: a model in evaluation mode still builds its autograd graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.definitions import owner_of
from esper_agents.review.frameworks import provides_evaluation
from esper_agents.review.index import argument_for
from esper_agents.review.model_modes import Mode, modes_before
from esper_agents.review.models import (
    GRADIENT_USES,
    belongs_to_training,
    callers_around,
    forward_calls,
    forward_calls_in,
    gradients_off_around,
    happens_in,
    is_evaluating,
    switch_at,
    switches,
)
from esper_agents.review.names import dotted, root_of
from esper_agents.review.renamings import means_inside
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Block, Call, FileTables, Function

_TURNS_OFF = frozenset({"set_grad_enabled", "requires_grad_"})
_MEASURING = frozenset({"argmax", "item", "max", "topk", "eq", "accuracy", "numpy", "tolist"})
_REMEDY = (
    "decorate the evaluating function with `@torch.inference_mode()`, or put the loop under `with torch.no_grad():`"
)


class EvaluationWithoutNoGrad(Rule):
    """A loop that runs a model in evaluation mode while gradients are on, and never sends anything backward.

    ## Why it costs
    `.eval()` changes layers, not autograd: every forward still saves its activations for a backward that never comes.
    That costs about as much memory as training and slows evaluation; where outputs are gathered, the graphs pile up
    as well.

    ## When it is right
    Gradients are wanted in evaluation (saliency, adversarial inputs, second-order methods), or somebody else turned
    them off: a caller, a decorator, a context, `set_grad_enabled(False)`, frozen parameters, or the framework's own
    validation hooks. All of these are looked for across the reviewed files.

    ## Sources
    PyTorch notes, "Autograd mechanics": locally disabling gradient computation, and its table of `eval`, `no_grad`
    and `inference_mode`.
    """

    code, name = "ESP302", "evaluation-without-no-grad"
    severity, category = Severity.WARNING, Category.MEMORY
    bad = (
        "def evaluate(model, loader):\n"
        "    model.eval()\n"
        "    correct = 0\n"
        "    for x, y in loader:\n"
        "        correct += (model(x).argmax(1) == y).sum()\n"
        "    return correct\n"
    )
    good = (
        "@torch.inference_mode()\n"
        "def evaluate(model, loader):\n"
        "    model.eval()\n"
        "    correct = 0\n"
        "    for x, y in loader:\n"
        "        correct += (model(x).argmax(1) == y).sum()\n"
        "    return correct\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield the first forward call of each loop that evaluates with gradients on."""
        seen: set[Block] = set()
        for call in forward_calls(file, index):
            loop = call.block.loop
            if loop is None:
                yield from self._whole(call, index)
                continue
            if loop in seen or gradients_off_around(call.block, index):
                continue
            switched = _evaluated_by(call, index)
            is_left_so = (
                switched is None
                and not _is_of_module(call, index)
                and modes_before(call, _model(call), index) == {Mode.EVALUATION}
            )
            named = is_left_so or (is_evaluating(call, loop, index) and belongs_to_training(call.function, index))
            if not (switched or named) or _is_made_in(call, loop):
                continue
            if happens_in(loop, GRADIENT_USES, index) or _is_explained(call, index):
                continue
            seen.add(loop)
            yield self._found(call, switched)
        for switch in file.calls_ending("eval", "train"):
            yield from self._through_helpers(switch, seen, index)

    def _whole(self, call: Call, index: ProjectIndex) -> Iterator[Hit]:
        """Yield a single forward of an evaluation that a training loop repeats: its graph is let go soon, so advice."""
        function = call.function
        switched = _last_switch(call, _model(call))
        if switched is None or switched.tail != "eval" or gradients_off_around(call.block, index):
            return
        repeats = any(each.block.loop is not None for each in index.callers(function))
        measures = any(each.tail in _MEASURING and each.line >= call.line for each in function.calls)
        if not repeats or not measures or happens_in(function.block, GRADIENT_USES, index):
            return
        if belongs_to_training(function, index) and not _is_explained(call, index):
            yield self.hit(
                call.node,
                f"{call.path!r} is evaluated with gradients on: it builds a graph in vain",
                remedy=_REMEDY,
                confidence=Confidence.MODERATE,
                basis=SEEN,
                severity=Severity.SUGGESTION,
            )

    def _through_helpers(self, switch: Call, seen: set[Block], index: ProjectIndex) -> Iterator[Hit]:
        """Yield the loops after an `.eval()` that run the model in a function of these files."""
        found = switch_at(switch, index)
        if found is None or found.to_training is not False:
            return
        for call in switch.function.calls:
            loop = call.block.loop
            if loop is None or not isinstance(loop.node, ast.For) or loop in seen:
                continue
            if call.line <= switch.line or _last_switch(call, found.path) is not switch:
                continue
            if gradients_off_around(call.block, index) or not _runs_inside(call, found.path, index):
                continue
            if not (happens_in(loop, GRADIENT_USES, index) or _is_explained(call, index)):
                seen.add(loop)
                yield self._found(call, switch)

    def _found(self, call: Call, switched: Call | None) -> Hit:
        sure = switched is not None and switched.function is call.function
        where = f" (`.eval()` at {switched.function.file.path}:{switched.line})" if switched and not sure else ""
        return self.hit(
            call.node,
            f"{call.path!r} is evaluated{where} with gradients on: each batch builds a graph in vain",
            remedy=_REMEDY,
            confidence=Confidence.HIGH if sure else Confidence.MODERATE,
            basis=SEEN
            if sure
            else FOLLOWED
            if switched
            else f"{INFERRED}: from the names and what becomes of the outputs",
        )


def _runs_inside(call: Call, path: str, index: ProjectIndex) -> bool:
    """Return whether a call surely reaches a function that runs a model with gradients on."""
    return any(
        _model(each) == means_inside(call, called, path, index) and not gradients_off_around(each.block, index)
        for called in index.callees(call)
        for each in forward_calls_in(called, index)
    )


def _model(call: Call) -> str:
    return call.receiver if call.tail == "forward" else call.path


def _evaluated_by(call: Call, index: ProjectIndex) -> Call | None:
    """Return the `.eval()` that holds where a model is called: the last switch above it, or above every caller."""
    path = call.receiver if call.tail == "forward" else call.path
    last = _last_switch(call, path)
    if last is not None:
        return last if last.tail == "eval" else None
    if path not in call.function.parameters:
        return None
    found = [_before_caller(caller, call.function, path) for caller in index.callers(call.function)]
    return found[0] if found and all(found) else None


def _before_caller(caller: Call, function: Function, parameter: str) -> Call | None:
    handed = argument_for(caller, function, parameter)
    last = _last_switch(caller, dotted(handed)) if handed is not None else None
    return last if last is not None and last.tail == "eval" else None


def _last_switch(call: Call, path: str) -> Call | None:
    """Return the last call above another that switches a model, unless a variable or a branch decides there."""
    above = [each for each in switches(call.function) if each.path == path and each.call.line <= call.line]
    if not above or above[-1].to_training is None or not call.block.within(above[-1].call.block):
        return None
    return above[-1].call


def _is_explained(call: Call, index: ProjectIndex) -> bool:
    """Return whether gradients may be off, or wanted, for a reason that stands elsewhere."""
    function = call.function
    if provides_evaluation(function, index) or _gradients_handled(function):
        return True
    if any(each.decorators and gradients_off_around(each.block, index) for each in index.callees(call)):
        return True
    callers = [call for each in callers_around(function, index) for call in index.callers(each)]
    return any(gradients_off_around(each.block, index) or _gradients_handled(each.function) for each in callers)


def _is_of_module(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call stands in a method of a module, which may be a part of somebody's forward."""
    owner = owner_of(call.function)
    return owner is not None and index.is_module(owner)


def _is_made_in(call: Call, loop: Block) -> bool:
    """Return whether each round makes the model that it runs: then it tries a model, and evaluates none."""
    made = call.function.assignments.get(root_of(_model(call)), ())
    return any(each.block.within(loop) and isinstance(each.value, ast.Call) for each in made)


def _gradients_handled(function: Function) -> bool:
    """Return whether a function, or the module it stands in, deals with gradients by itself."""
    return function.file.once(("deals with gradients", function), lambda: _deals_with_gradients(function))


def _deals_with_gradients(function: Function) -> bool:
    module = function.file.functions[0]
    return any(
        call.tail in _TURNS_OFF or "requires_grad" in {each.arg for each in call.node.keywords}
        for each in (function, module)
        for call in each.calls
    ) or any(target.endswith(".requires_grad") for target in function.assignments)
