"""ESP114: a tensor that autograd needs for the backward is changed in place before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.model.query import EventKind, runs
from esper_agents.review.rule import ModelRule, RuntimeExpectation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.events import Frame
    from esper_agents.review.model.query import ModelEvent, ModelMatch, Run


class SavedTensorChanged(ModelRule):
    """An in-place operation on a tensor that an earlier operation keeps for its gradient.

    ## Why it costs
    The backward raises: "one of the variables needed for gradient computation has been modified by an inplace
    operation". Sigmoid, exp and softmax keep their results, products their factors, and layers with weights their
    inputs.

    ## When it is right
    Sums and concatenations keep nothing, so `x = conv(x)` followed by `x += skip` is right. So is any write under
    `torch.no_grad()` that no backward follows.

    ## Sources
    PyTorch notes, "Autograd mechanics", section "In-place correctness checks"; derivatives.yaml of PyTorch for what
    each operator keeps.
    """

    code, name = "ESP114", "saved-tensor-changed"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    shown = RuntimeExpectation.RAISES
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Gate(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.linear = nn.Linear(8, 8)\n"
        "\n"
        "    def forward(self, x, mask):\n"
        "        gate = torch.sigmoid(self.linear(x))\n"
        "        gate *= mask\n"
        "        return x + gate\n"
    )
    good = bad.replace("gate *= mask", "gate = gate * mask")

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield the writes to tensors that operators keep for a backward of trained weights."""
        for run in runs(index):
            for event in run.of_kind(EventKind.OVERWRITE):
                trained = _trained(run, event)
                if trained is not None:
                    yield self.model_match(
                        (event.path, event.at),
                        f"this changes in place what `{event.name}` keeps for its gradient, so the backward through "
                        f"{trained.text!r} raises",
                        remedy="write it as a new tensor: `x = x * y` for `x *= y`, `x = x.clone()` before the write",
                        confidence=Confidence.HIGH if run.is_sent_backward(trained) else Confidence.MODERATE,
                    )


def _trained(run: Run, event: ModelEvent) -> ModelEvent | None:
    """Return a forward of trained weights that needs what is changed, if its result is or may be sent backward."""
    for forward in run.of_kind(EventKind.FORWARD, EventKind.PARAMETER):
        if not event.graph & forward.bit or forward.name == "frozen":
            continue
        if forward.kind is EventKind.FORWARD and not run.is_model(forward):
            continue
        if run.is_sent_backward(forward) or (run.entry.is_open and _is_in_module(event)):
            return forward
    return None


def _is_in_module(event: ModelEvent) -> bool:
    """Return whether an event stands in the `forward` of a module that unknown callers run."""
    frame: Frame | None = event.frame
    while frame is not None:
        if frame.code.name == "forward":
            return True
        frame = frame.parent
    return False
