"""ESP302: a model in evaluation mode still builds its autograd graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.graded_evaluations import evaluations_with_gradients, is_explained, last_switch, model_of
from esper_agents.review.model.query import Mode, runs
from esper_agents.review.models import (
    GRADIENT_USES,
    belongs_to_training,
    forward_calls,
    gradients_off_around,
    happens_in,
)
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import LoopRun, ModelEvent, ModelMatch, Run
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

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

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the first forward call of each loop that evaluates with gradients on."""
        for call in forward_calls(file, index):
            if call.block.loop is None:
                yield from self._whole(call, index)
        for call, switched in evaluations_with_gradients(file, index).values():
            yield self._found(call, switched)

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield runs of models in evaluation mode over data, with gradients on and nothing sent backward."""
        # A caller that turns gradients off shows that the function leaves it to its callers.
        off = {(each.path, each.at) for run in runs(index) for each in run.forwards if not run.is_recorded(each)}
        for run in runs(index):
            for forward in run.forwards:
                loop = run.turn(forward)
                if loop is None or (forward.path, forward.at) in off:
                    continue
                if _is_chained(run, forward, loop):
                    yield self.model_match(
                        run.place(forward, None),
                        f"{forward.text!r} runs on its own result in each round with gradients on, and nothing is sent "
                        "backward: memory holds the graph of all rounds",
                        remedy="decorate the function with `@torch.no_grad()`",
                        confidence=Confidence.MODERATE,
                        regions=run.regions(forward),
                    )
                if not run.is_evaluation(forward):
                    continue
                if forward.name == "frozen" or not run.outlives(forward, loop) or run.may_be_called_elsewhere():
                    continue
                if run.trains_in(loop) or run.is_sent_backward(forward) or run.escapes(forward):
                    continue
                is_switched = any(setter.frame.code is forward.frame.code for setter in run.setters(forward))
                is_owned = is_switched or (run.mode(forward) is Mode.EVALUATION and run.is_set_within(forward))
                if run.entry.is_open and not is_owned:
                    continue
                yield self.model_match(
                    run.place(forward, None),
                    f"{forward.text!r} is evaluated with gradients on: each batch builds a graph in vain",
                    remedy=_REMEDY,
                    confidence=Confidence.HIGH if is_switched else Confidence.MODERATE,
                    regions=run.regions(forward),
                )

    def _whole(self, call: Call, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield a single forward of an evaluation that a training loop repeats: its graph is let go soon, so advice."""
        function = call.function
        switched = last_switch(call, model_of(call))
        if switched is None or switched.tail != "eval" or gradients_off_around(call.block, index):
            return
        repeats = any(caller.block.loop is not None for caller in index.callers(function))
        measures = any(each.tail in _MEASURING and each.line >= call.line for each in function.calls)
        if not repeats or not measures or happens_in(function.block, GRADIENT_USES, index):
            return
        if belongs_to_training(function, index) and not is_explained(call, index):
            yield self.hit(
                call.node,
                f"{call.path!r} is evaluated with gradients on: it builds a graph in vain",
                remedy=_REMEDY,
                confidence=Confidence.MODERATE,
                basis=SEEN,
                severity=Severity.SUGGESTION,
            )

    def _found(self, call: Call, switched: Call | None) -> RuleMatch:
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


def _is_chained(run: Run, forward: ModelEvent, loop: LoopRun) -> bool:
    """Return whether each round of a sampling loop adds to one graph that is never used."""
    if forward.name == "frozen" or not run.is_recorded(forward) or not run.is_carried(forward, loop):
        return False
    is_trained = any(each.target == forward.target and run.is_sent_backward(each) for each in run.forwards)
    is_used = run.trains_in(loop) or run.is_sent_backward(forward) or run.escapes(forward)
    return is_trained and not is_used and not run.may_be_called_elsewhere()
