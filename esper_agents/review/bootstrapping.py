"""Bootstrapped targets of reinforcement learning: a reward plus a discounted value."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.tables import Assignment, Call

_GAMMA = pattern(r"gamma|gammas|discount|discount_factor|discount_rate", re.IGNORECASE)
_REWARD = pattern(r"(?:\w+_)?(?:rewards?|rews?)(?:_\w+)?|r|rs", re.IGNORECASE)
_CUTTING = frozenset({"detach", "item", "tolist", "numpy"})
_SHAPING = frozenset({"detach", "squeeze", "unsqueeze", "view", "reshape", "float", "to"})


def is_bootstrapped(found: Assignment) -> bool:
    """Return whether an assignment binds a reward plus a discounted value of something else."""
    return not found.is_augmented and not found.is_unpacked and is_target(found.value, found.target.rstrip("[]"))


def is_target(value: ast.expr, name: str = "", *, is_computed: bool = False) -> bool:
    """Return whether a value is a reward plus a discounted value of something else.

    Args:
        value: The value.
        is_computed: Whether it is known that a network computes what is discounted, whatever its name.
        name: The name that it is bound to: `R = r + gamma * R` adds up rewards and takes no value of a network.
    """
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SHAPING:
        value = value.func.value
    if not isinstance(value, ast.BinOp):
        return False
    sums = [each for each in walk(value) if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add)]
    products = [each for each in walk(value) if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult)]
    discounted = [product for product in products if any(_GAMMA.fullmatch(each) for each in last_names(product))]
    rewarded = any(_REWARD.fullmatch(each) for part in sums for each in last_names(part.left) + last_names(part.right))
    is_return = any(
        name in {dotted(each) for each in walk(one) if isinstance(each, ast.Name)} for one in discounted if name
    )
    others = [each for part in discounted for each in last_names(part) if not _GAMMA.fullmatch(each)]
    is_value = any(re.search(r"(?i)^q|val|target|critic|next|boot|^v\d?$|net|max", each) for each in others)
    return bool(sums) and bool(discounted) and rewarded and not is_return and (is_value or is_computed)


def last_names(node: ast.AST) -> list[str]:
    """Return the last parts of the names and attributes in an expression."""
    return [tail_of(dotted(each)) for each in walk(node) if isinstance(each, ast.Name | ast.Attribute)]


def undetached(value: ast.expr) -> Iterator[ast.AST]:
    """Yield the parts of a value, without what `detach` is called on."""
    queue: list[ast.AST] = [value]
    for node in queue:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CUTTING:
            continue
        yield node
        queue += list(ast.iter_child_nodes(node))


def is_environment_step(call: Call) -> bool:
    """Return whether a call steps an environment: it returns observation, reward, flags and information."""
    target = call.statement.targets[0] if isinstance(call.statement, ast.Assign) else None
    return isinstance(target, ast.Tuple) and len(target.elts) in {4, 5}
