"""ESP515: a gradient scaler scales the loss, and the step or the update that belongs to it is missing."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.conditions import are_alternatives
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.training import is_optimizer_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_SCALERS = frozenset({"torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"})
_SCALED = ".scale().backward"


class ScalerHalfUsed(Rule):
    """A loss scaled by `GradScaler.scale` whose optimizer is stepped without the scaler, or a scaler never updated.

    ## Why it costs
    After `scaler.scale(loss).backward()` the gradients are too large by the loss scale, 65536 to begin with.
    `optimizer.step()` uses them as they are; `scaler.step(optimizer)` divides them first and leaves out steps whose
    gradients overflowed. Without `scaler.update()` the scale never goes down after an overflow: each later step is
    left out, and the training stands still in silence.

    ## When it is right
    `scaler.unscale_(optimizer)` before a plain `optimizer.step()`. A scaler that any file of the project updates or
    steps is not reported for that.

    ## Sources
    PyTorch notes, "Automatic mixed precision examples", typical training; documentation of `torch.amp.GradScaler`.
    """

    code, name = "ESP515", "scaler-half-used"
    severity, category = Severity.CRITICAL, Category.COMPILE
    bad = (
        "import torch\n"
        "\n"
        "scaler = torch.amp.GradScaler()\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    scaler.scale(criterion(model(x), y)).backward()\n"
        "    scaler.step(optimizer)\n"
    )
    good = bad.replace("    scaler.step(optimizer)\n", "    scaler.step(optimizer)\n    scaler.update()\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the scaled losses whose scaler does not do the rest."""
        known = index.once("calls of scalers", lambda: _scaler_calls(index))
        for backward in file.calls_ending("backward"):
            scaler = _scaler_of(backward)
            if not scaler or not _is_made_by_torch(scaler, backward, index):
                continue
            later = known.get(tail_of(scaler), frozenset())
            if "step" not in later and "unscale_" not in later:
                plain = _plain_step(backward, index)
                if plain is not None:
                    yield self.hit(
                        plain.node,
                        f"the gradients still carry the loss scale (line {backward.line}), and this step uses them as "
                        "they are",
                        remedy=f"call `{scaler}.step({plain.receiver})` and then `{scaler}.update()`",
                        basis=SEEN,
                    )
            elif "step" in later and "update" not in later:
                yield from self._never_updated(scaler, backward)

    def _never_updated(self, scaler: str, backward: Call) -> Iterator[RuleMatch]:
        steps = [each for each in backward.function.calls if each.tail == "step" and each.receiver == scaler]
        for step in steps[:1]:
            yield self.hit(
                step.node,
                f"nothing calls `{scaler}.update()`: after the first overflow the scale stays too large, and every "
                "later step is left out",
                remedy=f"call `{scaler}.update()` after `{scaler}.step(...)`",
                basis=SEEN,
            )


def _scaler_calls(index: ProjectIndex) -> dict[str, frozenset[str]]:
    """Return the names of the methods that are called on each object, by the last name of the object."""
    found: dict[str, set[str]] = {}
    for file in index.files.values():
        for call in file.calls_ending("step", "update", "unscale_"):
            found.setdefault(tail_of(call.receiver), set()).add(call.tail)
    return {name: frozenset(tails) for name, tails in found.items()}


def _scaler_of(backward: Call) -> str:
    """Return the path of the scaler whose `scale` made what goes backward, in place or under a name."""
    if backward.path.endswith(_SCALED):
        return backward.path.removesuffix(_SCALED)
    made = backward.function.last_assignment(backward.receiver, backward.line)
    path = dotted(made.value) if made is not None and isinstance(made.value, ast.Call) else ""
    return path.removesuffix(".scale()") if path.endswith(".scale()") else ""


def _is_made_by_torch(scaler: str, backward: Call, index: ProjectIndex) -> bool:
    node = ast.parse(scaler, mode="eval").body if scaler.replace(".", "").isidentifier() else None
    origins = index.origins(node, backward.function, backward.line) if node is not None else ()
    made = [each for each in origins if isinstance(each.value, ast.Call)]
    return bool(made) and all(
        resolve(dotted(each.value.func), each.function) in _SCALERS for each in made if isinstance(each.value, ast.Call)
    )


def _plain_step(backward: Call, index: ProjectIndex) -> Call | None:
    """Return the first step of an optimizer after a backward, which is no other way than the backward's."""
    return next(
        (
            call
            for call in backward.function.calls
            if call.line > backward.line
            and call.tail == "step"
            and not call.node.args
            and is_optimizer_step(call, index)
            and not are_alternatives(call.block, backward.block)
        ),
        None,
    )
