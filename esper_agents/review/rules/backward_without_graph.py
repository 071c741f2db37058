"""ESP111: what is sent backward has no graph: an operation on the way from the model cut it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.model.query import EventKind, GradMode, runs
from esper_agents.review.rule import ModelRule, RuntimeExpectation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import ModelEvent, ModelMatch, Run


class BackwardWithoutGraph(ModelRule):
    """A loss that is sent backward and has no graph, because its model ran without gradients or something cut it.

    ## Why it costs
    `backward` raises: "element 0 of tensors does not require grad and does not have a grad_fn". The graph ends at
    `detach`, `item`, `argmax`, comparisons and conversions to numpy, and in whatever ran under `torch.no_grad()`.

    ## When it is right
    Never, if the value comes from a model whose weights are to be trained; only such values are reported.

    ## Sources
    PyTorch notes, "Autograd mechanics", on locally disabling gradient computation and on operations that are not
    differentiable.
    """

    code, name = "ESP111", "backward-without-graph"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    shown = RuntimeExpectation.RAISES
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "model = nn.Linear(8, 4)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    guess = model(x).argmax(1).float()\n"
        "    nn.functional.mse_loss(guess, y).backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("guess = model(x).argmax(1).float()\n", "scores = model(x)\n").replace(
        "mse_loss(guess, y)", "cross_entropy(scores, y)"
    )

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield the backwards of values that were computed by trained models and surely have no graph."""
        for run in runs(index):
            for sent in run.of_kind(EventKind.BACKWARD):
                forward = None if sent.graph or sent.name == "framework" else _source(run, sent)
                if forward is None:
                    continue
                where = f"line {forward.at.line}"
                if forward.path != sent.path:
                    where = f"{forward.path}:{forward.at.line}"
                reason = "an operation after it cuts the graph"
                remedy = "compute the loss from the model's output by differentiable operations, without `detach`"
                if forward.grad is GradMode.OFF:
                    reason = "ran with gradients off"
                    remedy = "run the model outside of `torch.no_grad()`"
                yield self.model_match(
                    run.place(sent, None),
                    f"this has no graph and `backward` raises: {forward.text!r} ({where}) {reason}"
                    if forward.grad is GradMode.OFF
                    else f"this has no graph and `backward` raises: after {forward.text!r} ({where}) {reason}",
                    remedy=remedy,
                    confidence=Confidence.HIGH,
                    regions=run.regions(sent),
                )


def _source(run: Run, sent: ModelEvent) -> ModelEvent | None:
    """Return the trained model that a value without a graph was computed by, if nothing unknown is on the way."""
    found = None
    for event in run.events:
        if not sent.sources & event.bit:
            continue
        if event.kind in {EventKind.CALL, EventKind.PART}:
            return None
        if event.kind is EventKind.FORWARD and event.name != "frozen":
            if not run.is_model(event):
                return None
            found = event if found is None or found.depth else found
    return found
