"""Which batches that a loop draws are still on the host."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.devices import made_by, moves
from esper_agents.review.frameworks import places_batches
from esper_agents.review.names import dotted, root_of
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Function

_LOADER = pattern(r"loader|dataloader|_dl$|_iter$|batches", re.IGNORECASE)


def names_loader(over: ast.expr) -> bool:
    """Return whether what a loop goes over is named like a loader."""
    return _LOADER.search(ast.unparse(over)) is not None


def is_drawn_on_host(found: Assignment, function: Function, index: ProjectIndex) -> bool:
    """Return whether what a loop binds is a batch, or a part of one, that a loader gives on the host.

    That is known where the loop moves another part of it, and where the loader is a plain one in sight.
    """
    if places_batches(function.file):
        return False
    return (names_loader(found.value) and _moves_a_part(found, function, index)) or _is_plain_loader(
        found.value, function, found.line, index
    )


def _moves_a_part(found: Assignment, function: Function, index: ProjectIndex) -> bool:
    moving = [call for call in moves(function, index) if call.block.within(found.block)]
    moved = {root_of(call.receiver) for call in moving}
    moved |= {dotted(each.value) for name in moved for each in function.assignments.get(name, ())}
    return bool(moved & set(found.block.targets))


def _is_plain_loader(over: ast.expr, function: Function, line: int, index: ProjectIndex) -> bool:
    """Return whether an expression is a `DataLoader` in sight that collates in the usual way."""
    while isinstance(over, ast.Call) and dotted(over.func) in {"enumerate", "tqdm", "tqdm.tqdm", "iter"} and over.args:
        over = over.args[0]
    origins = index.origins(over, function, line)
    return bool(origins) and all(
        isinstance(origin.value, ast.Call)
        and made_by(origin.value, origin.function) == "torch.utils.data.DataLoader"
        and not {"collate_fn", None} & {keyword.arg for keyword in origin.value.keywords}
        for origin in origins
    )
