"""ESP301: a loss is gathered over steps together with its autograd graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.model.kept_graphs import kept_graphs
from esper_agents.review.rule import ModelRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import ModelMatch

_REMEDY = "gather `loss.detach()`, and fetch the numbers once after the loop"
_ADDING = frozenset({"append", "appendleft", "extend", "add", "insert", "put"})


class LossKeptWithGraph(ModelRule):
    """A loss that is appended, added up or stored over the steps of a training loop without being detached.

    ## Why it costs
    The tensor holds its graph, and a graph holds what its operations saved. A list or a sum of losses therefore keeps
    something of every step alive: memory grows until the job runs out of it, often hours later.

    ## When it is right
    The sum itself is sent backward, or the store is emptied in every step. What went through `.detach()`, `.item()`,
    `float()` or `.data` holds no graph, nor does a sum made under `torch.no_grad()`.

    ## Sources
    PyTorch frequently asked questions, "My model reports cuda runtime error(2): out of memory", on not accumulating
    history across the training loop.
    """

    code, name = "ESP301", "loss-kept-with-graph"
    severity, category = Severity.WARNING, Category.MEMORY
    bad = (
        "losses = []\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    loss = criterion(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    losses.append(loss)\n"
    )
    good = (
        "losses = []\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    loss = criterion(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    losses.append(loss.detach())\n"
    )

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield stores of losses that were sent backward and are kept with their graph."""
        for kept in kept_graphs(index):
            if kept.is_loss:
                yield self.model_match(
                    kept.run.site(kept.store, kept.loop),
                    f"{_container(kept.store.text)!r} keeps the autograd graph of the loss of every step",
                    remedy=_REMEDY,
                )


def _container(text: str) -> str:
    """Return what keeps a value: of `self.history.append` the list."""
    receiver, _, method = text.rpartition(".")
    return receiver if receiver and method in _ADDING else text
