"""ESP302: a model in evaluation mode still builds its autograd graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.frameworks import provides_evaluation
from esper_agents.review.index import argument_for
from esper_agents.review.models import (
    GRADIENT_USES,
    belongs_to_training,
    forward_calls,
    gradients_off_around,
    happens_in,
    is_evaluating,
    switches,
)
from esper_agents.review.names import dotted
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Block, Call, FileTables, Function

_TURNS_OFF = frozenset({"set_grad_enabled", "requires_grad_"})
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
            if loop is None or loop in seen or gradients_off_around(call.block, index):
                continue
            switched = _evaluated_by(call, index)
            named = is_evaluating(call, loop, index) and belongs_to_training(call.function, index)
            if not (switched or named) or happens_in(loop, GRADIENT_USES, index) or _is_explained(call, index):
                continue
            seen.add(loop)
            yield self._found(call, switched)

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
    callers = index.callers(function)
    return any(gradients_off_around(each.block, index) or _gradients_handled(each.function) for each in callers)


def _gradients_handled(function: Function) -> bool:
    """Return whether a function, or the module it stands in, deals with gradients by itself."""
    module = function.file.functions[0]
    return any(
        call.tail in _TURNS_OFF or "requires_grad" in {each.arg for each in call.node.keywords}
        for each in (function, module)
        for call in each.calls
    ) or any(target.endswith(".requires_grad") for target in function.assignments)
