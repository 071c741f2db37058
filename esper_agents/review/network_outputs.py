"""Outputs of networks in reinforcement learning, and whether a value still carries their graph."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

_NETWORK = pattern(
    r"(?:\w*_)?(?:q_?\d?|q_?net(?:work)?s?|qf\d?|critics?\d?|value_?(?:net(?:work)?|fn|function)?|target_?\w*|\w+_target\d?"
    r"|policy(?:_?net)?|actor(?:_critic)?|agent|net(?:work)?|model|dqn|vf|get_value|get_action_and_value|v_?net)(?:_\w+)?",
    re.IGNORECASE,
)
_WITHOUT_GRAPH = pattern(r"\.detach\(|\.item\(|\.numpy\(|\.data\b|\.tolist\(|no_grad|np\.|numpy\.|stop_gradient")
_ARITHMETIC = frozenset(
    {"log_prob", "entropy", "gather", "squeeze", "unsqueeze", "min", "max", "sum", "mean", "view", "exp"}
)
_STEPS = 3


def carries_graph(value: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int = _STEPS) -> bool:
    """Return whether a value is surely made of what a network returned with its graph.

    Args:
        value: The value.
        function: The function it stands in.
        line: Its line; names mean what they mean above it.
        index: The files of the review.
        steps: How many assignments are followed.
    """
    if _WITHOUT_GRAPH.search(ast.unparse(value)):
        return False
    calls = {each.node: each for each in function.calls}
    if any(calls[node].tail[:1].isupper() or calls[node].tail == "cast" for node in walk(value) if node in calls):
        return False
    for node in walk(value):
        call = calls.get(node)
        if call is not None and network_called(call, index):
            return True
        found = function.last_assignment(node.id, line) if isinstance(node, ast.Name) and steps else None
        if found is None or without_gradients(found.block) or isinstance(found.statement, ast.For):
            continue
        if carries_graph(found.value, function, found.line, index, steps - 1):
            return True
    return False


def network_called(call: Call, index: ProjectIndex) -> str:
    """Return the path of the network that a call runs; empty if it runs none, or one without gradients."""
    called = index.callees(call)
    if any(without_gradients(each.block) for each in called):
        return ""
    if any(each.name == "forward" for each in called):
        return call.path
    # An object that is called like a function, under a name that networks have.
    is_object = "_" in call.path or "." in call.path or call.path.islower()
    is_named = _NETWORK.fullmatch(tail_of(call.path)) is not None and call.tail not in _ARITHMETIC
    is_made = index.class_of(call.node.func, call.function, call.line) is not None
    return call.path if is_object and is_named and not called and (is_made or _is_held(call)) else ""


def _is_held(call: Call) -> bool:
    """Return whether what is called is an attribute of the object or a parameter, and no imported function."""
    root = dotted(call.node.func).partition(".")[0]
    return root == "self" or root in call.function.parameters or root in call.function.assignments
