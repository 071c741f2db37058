"""ESP425: `next(iter(loader))` in a loop makes a new iterator for each batch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import INFERRED, SEEN, Rule
from esper_agents.review.training import innermost_training_loops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_LOADER = "torch.utils.data.DataLoader"


class IteratorMadeEachStep(Rule):
    """`next(iter(loader))` in a loop: each step starts the loader again, and takes its first batch.

    ## Why it costs
    A new iterator shuffles the whole index again and, with workers, starts and ends all processes for one batch.
    Without shuffling every step gets the same first batch, and the rest of the data is never seen.

    ## When it is right
    One batch is wanted, outside of a loop or for each trial: a loop that makes its optimizer again. A loop that makes
    the iterator once and calls `next` on it is not reported.

    ## Sources
    PyTorch documentation of `torch.utils.data`: worker processes are created each time an iterator is created.
    """

    code, name = "ESP425", "iterator-made-each-step"
    severity, category = Severity.WARNING, Category.PERFORMANCE
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, data, optimizer, steps):\n"
        "    loader = torch.utils.data.DataLoader(data, 32, shuffle=True)\n"
        "    for step in range(steps):\n"
        "        x, y = next(iter(loader))\n"
        "        optimizer.zero_grad()\n"
        "        torch.nn.functional.mse_loss(model(x), y).backward()\n"
        "        optimizer.step()\n"
    )
    good = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, data, optimizer):\n"
        "    loader = torch.utils.data.DataLoader(data, 32, shuffle=True)\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        torch.nn.functional.mse_loss(model(x), y).backward()\n"
        "        optimizer.step()\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the iterators over loaders that a loop makes for one batch."""
        loops = innermost_training_loops(file)
        for call in file.calls_ending("next"):
            source = _iterated(call)
            if source is None or call.block.loop is None or call.block.loop.kind is BlockKind.COMPREHENSION:
                continue
            if _is_trial(call):
                continue
            is_loader = _is_loader(source, call, index)
            if is_loader or any(call.block.within(loop) for loop in loops):
                yield self.hit(
                    call.node,
                    f"each round makes a new iterator over `{ast.unparse(source)}` and takes its first batch: the "
                    "loader starts again for every step",
                    remedy="loop over the loader, or make the iterator once before the loop",
                    confidence=Confidence.HIGH if is_loader else Confidence.MODERATE,
                    basis=SEEN if is_loader else f"{INFERRED}: that it is a loader, since a training reads it",
                )


def _iterated(call: Call) -> ast.expr | None:
    """Return what `next(iter(...))` iterates over."""
    match call.node:
        case ast.Call(func=ast.Name(id="next"), args=[ast.Call(func=ast.Name(id="iter"), args=[source]), *_]):
            return source if isinstance(source, ast.Name | ast.Attribute) else None
        case _:
            return None


def _is_trial(call: Call) -> bool:
    """Return whether each round of the loop around makes its optimizer again: one batch is enough for a trial."""
    loop = call.block.loop
    return any(each.block.loop is loop and each.name.startswith("torch.optim.") for each in call.function.calls)


def _is_loader(source: ast.expr, call: Call, index: ProjectIndex) -> bool:
    origins = index.origins(source, call.function, call.line)
    return bool(origins) and all(
        isinstance(each.value, ast.Call) and resolve(dotted(each.value.func), each.function) == _LOADER
        for each in origins
    )
