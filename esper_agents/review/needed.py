"""Whether a value that is fetched from the device decides what comes next: a test, a size, an action."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.conditions import names_in, steers
from esper_agents.review.fetches import bound_to
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.hot import Hot
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

_WORLD = pattern(r"(?:^|[._])(?:env|envs|environment|gym|game|simulator|sim|board|world)(?:[._\[(]|$)", re.IGNORECASE)
_CHOOSING = pattern(r"(?:\w+_)?(?:act|action|actions|sample|choose|select|explore|policy)(?:_\w+)?")
_SIZED = frozenset({"range", "arange", "zeros", "ones", "empty", "full", "rand", "randn", "view", "reshape", "expand"})
_DECIDING = frozenset({"int", "bool"})


def is_needed(call: Call, hot: Hot | None, index: ProjectIndex) -> bool:
    """Return whether a fetched value decides something at once."""
    return steers(call) or is_answer(call) or makes_a_size(call, index) or _acts(call, hot)


def is_answer(call: Call) -> bool:
    """Return whether a function gives the value back as a count or a decision: `return x.item() == 0`."""
    statement, node = call.statement, call.function.node
    if not isinstance(statement, ast.Return) or statement.value is None or isinstance(node, ast.Module):
        return False
    is_compared = isinstance(statement.value, ast.Compare | ast.BoolOp)
    return is_compared or (node.returns is not None and dotted(node.returns) in _DECIDING)


def makes_a_size(call: Call, index: ProjectIndex) -> bool:
    """Return whether a value is a number of rounds, a size or an index of what follows."""
    if isinstance(call.parent, ast.Slice | ast.Subscript):
        return True
    if isinstance(call.parent, ast.Call) and tail_of(dotted(call.parent.func)) in _SIZED:
        return True
    name = bound_to(call)
    return bool(name) and (
        any(
            each.tail in _SIZED and any(name in names_in(argument) for argument in each.node.args)
            for each in call.function.calls
        )
        or name in _names_in_slices(call.function, index)
    )


def _names_in_slices(function: Function, index: ProjectIndex) -> frozenset[str]:
    return index.once(
        ("names in slices", function),
        lambda: frozenset(name for part in _slices(function) for name in names_in(part)),
    )


def _slices(function: Function) -> Iterator[ast.expr]:
    for each in walk(function.node):
        if isinstance(each, ast.Subscript):
            yield each.slice


def _acts(call: Call, hot: Hot | None) -> bool:
    """Return whether a value goes to an environment, which takes no tensors: `env.step(action.item())`."""
    function = call.function
    if _CHOOSING.fullmatch(function.name) and function.name != "sample_loss":
        return True
    around = call.block.loop or (hot.around if hot is not None else function.block)
    return any(
        each.tail in {"step", "act", "push"} and _WORLD.search(each.receiver) and each.block.within(around)
        for each in function.calls
    )
