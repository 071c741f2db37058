"""ESP149: an optimizer steps on gradients that the loss of another network left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.model.query import EventKind, runs
from esper_agents.review.rule import ModelRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import ModelEvent, ModelMatch, Run


class GradientsOfAnotherLoss(ModelRule):
    """Two losses in one step, of which the first also reaches the network that the second one trains.

    ## Why it costs
    The backward of the first loss adds to the gradients of both networks, and its optimizer steps one of them. What it
    left in the other is still there when the second loss adds its own. A generator then steps on its gradient plus that
    of the discriminator's loss, which pulls the opposite way.

    ## When it is right
    The gradients are cleared between the two backwards, the first loss gets a detached input, or both losses train
    both networks: then no optimizer steps in between, and the code is not reported.

    ## Sources
    PyTorch tutorial "DCGAN", on `fake.detach()` in the loss of the discriminator; documentation of
    `torch.Tensor.backward`, which adds to the gradients of the leaves.
    """

    code, name = "ESP149", "gradients-of-another-loss"
    severity, category = Severity.WARNING, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "generator, critic = nn.Linear(8, 8), nn.Linear(8, 1)\n"
        "g_opt = torch.optim.Adam(generator.parameters())\n"
        "c_opt = torch.optim.Adam(critic.parameters())\n"
        "for real in loader:\n"
        "    g_opt.zero_grad()\n"
        "    c_opt.zero_grad()\n"
        "    fake = generator(torch.randn(4, 8))\n"
        "    c_loss = critic(fake).mean() - critic(real).mean()\n"
        "    c_loss.backward(retain_graph=True)\n"
        "    c_opt.step()\n"
        "    g_loss = -critic(fake).mean()\n"
        "    g_loss.backward()\n"
        "    g_opt.step()\n"
    )
    good = bad.replace("critic(fake).mean() - ", "critic(fake.detach()).mean() - ").replace("retain_graph=True", "")

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield the second backwards that add to what the first one left in the same network."""
        for run in runs(index):
            for step in run.of_kind(EventKind.STEP):
                found = _left_behind(run, step)
                if found is not None:
                    first, second = found
                    yield self.model_match(
                        run.place(second, None),
                        f"{step.text!r} steps on the gradients of two losses: those that {first.text!r} "
                        f"(line {first.at.line}) left in this network are not cleared before",
                        remedy="detach the input of the first loss, or clear the gradients before this backward",
                        confidence=Confidence.MODERATE,
                        regions=run.regions(second),
                    )


def _left_behind(run: Run, step: ModelEvent) -> tuple[ModelEvent, ModelEvent] | None:
    """Return the backward that left gradients in the network of a step, and the last one before the step."""
    if not step.owners or step.is_conditional:
        return None
    sent = [
        event
        for event in run.of_kind(EventKind.BACKWARD)
        if event.number < step.number and event.loops == step.loops and not event.is_conditional
    ]
    second = sent[-1] if sent else None
    if second is None or not _reaches(run, second, step):
        return None
    for first in reversed(sent[:-1]):
        if _is_cleared_or_stepped(run, step, first):
            return None
        between = run.of_kind(EventKind.STEP)
        others = [each for each in between if first.number < each.number < second.number and each.owners]
        is_done = any(not each.owners & step.owners and _reaches(run, first, each) for each in others)
        if is_done and _reaches(run, first, step):
            return first, second
    return None


def _reaches(run: Run, sent: ModelEvent, step: ModelEvent) -> bool:
    """Return whether a backward surely gives gradients to a network that a step trains."""
    graph = run.expanded(sent.graph) & ~sent.maybe
    return any(
        graph & forward.bit and forward.target in step.owners and forward.name != "frozen"
        for forward in run.of_kind(EventKind.FORWARD)
    )


def _is_cleared_or_stepped(run: Run, step: ModelEvent, since: ModelEvent) -> bool:
    """Return whether something between a backward and a step may clear the gradients, or uses them up."""
    for event in run.events[since.number + 1 : step.number]:
        is_clear = event.kind is EventKind.CLEAR_GRADIENTS and (not event.owners or event.owners & step.owners)
        is_step = event.kind is EventKind.STEP and event.target == step.target
        is_unknown = event.hands_over and event.kind in {EventKind.CALL, EventKind.FORWARD}
        if is_clear or is_step or is_unknown:
            return True
    return False
