"""ESP103: training goes on in evaluation mode after the first evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.model.query import EventKind, runs
from esper_agents.review.model.query import Mode as ModelMode
from esper_agents.review.rule import ModelRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import LoopRun, ModelEvent, ModelMatch, Run


# How many steps from caller to caller are followed.


_WHEN = "at the start of every round, or right after the evaluation"


class TrainingInEvaluationMode(ModelRule):
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

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield what switches a model to evaluation in one round of a loop, and the next round trains it so."""
        for run in runs(index):
            for forward in run.forwards:
                if forward.acts is False or not run.is_sent_backward(forward):
                    continue
                for setter in run.setters(forward):
                    loop = _carrying(run, setter, forward)
                    if loop is None:
                        continue
                    is_sure = run.mode(forward) is ModelMode.EVALUATION
                    yield self.model_match(
                        run.place(setter, loop),
                        f"{forward.text!r} stays in evaluation mode after this, while the loop goes on training it",
                        remedy=f"call `{forward.text}.train()` {_WHEN}",
                        confidence=Confidence.HIGH if is_sure else Confidence.MODERATE,
                        regions=run.regions(setter),
                    )


def _carrying(run: Run, setter: ModelEvent, forward: ModelEvent) -> LoopRun | None:
    """Return the loop whose earlier round switched a model to evaluation that a later round trains."""
    if setter.name != ModelMode.EVALUATION.value:
        return None
    rounds = dict(setter.loops)
    loop = next((each for each, number in run.turns(forward) if rounds.get(each, number) < number), None)
    if loop is None:
        return None
    switched_back = any(
        setter.number < each.number < forward.number
        and each.name == ModelMode.TRAINING.value
        and each.target == setter.target
        for each in run.of_kind(EventKind.MODE)
    )
    first = next(each for each in run.forwards if each.at == forward.at and each.path == forward.path)
    return None if switched_back or run.mode(first) is ModelMode.EVALUATION else loop
