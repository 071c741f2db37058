"""Calls of losses that take scores, probabilities or their logarithms, as functions and as modules."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, tail_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables

_LOSSES = {
    "torch.nn.functional.cross_entropy": "cross_entropy",
    "torch.nn.functional.binary_cross_entropy": "binary_cross_entropy",
    "torch.nn.functional.binary_cross_entropy_with_logits": "binary_cross_entropy_with_logits",
    "torch.nn.functional.nll_loss": "nll_loss",
    "torch.nn.functional.kl_div": "kl_div",
    "torch.nn.CrossEntropyLoss": "cross_entropy",
    "torch.nn.BCELoss": "binary_cross_entropy",
    "torch.nn.BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "torch.nn.NLLLoss": "nll_loss",
    "torch.nn.KLDivLoss": "kl_div",
}
_MODULES = frozenset({tail_of(loss) for loss in _LOSSES if tail_of(loss)[0].isupper()})


def calls_of_losses(file: FileTables, index: ProjectIndex) -> Iterator[Call]:
    """Yield the calls of a file that may compute such a loss; `called_loss` tells which one."""
    names = index.once("names of losses", lambda: _names_of_losses(index))
    for tail in sorted({tail_of(name) for name in _LOSSES} | names):
        yield from file.calls_ending(tail)


def called_loss(call: Call, index: ProjectIndex) -> tuple[str, ast.Call]:
    """Return which loss a call computes (empty if none, or unknown), and the call that has its options.

    For a function that is the call itself, for a module the call that constructs it.
    """
    name = call.name.removesuffix("()")
    if name in _LOSSES:
        is_constructor = tail_of(name)[0].isupper() and not call.name.endswith("()")
        made = call.node.func if isinstance(call.node.func, ast.Call) else call.node
        return ("", call.node) if is_constructor else (_LOSSES[name], made)
    found = [
        (_LOSSES.get(resolve(dotted(origin.value.func), origin.function), ""), origin.value)
        for origin in index.origins(call.node.func, call.function, call.line)
        if isinstance(origin.value, ast.Call)
    ]
    return found[0] if len({loss for loss, _ in found}) == 1 else ("", call.node)


def _names_of_losses(index: ProjectIndex) -> frozenset[str]:
    """Return the last names of what loss modules are assigned or handed to anywhere."""
    found = {"criterion", "loss_fn", "loss_func", "loss_function"}
    for file in index.files.values():
        for function in file.functions if any(file.calls_ending(*_MODULES)) else ():
            for target, assignments in function.assignments.items():
                if any(
                    isinstance(assignment.value, ast.Call) and tail_of(dotted(assignment.value.func)) in _MODULES
                    for assignment in assignments
                ):
                    found.add(tail_of(target))
    return frozenset(found)
