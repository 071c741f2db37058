"""When code runs: every so many steps, only in debugging, or to decide how to go on."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.tables import Call, Function

_ASIDE = pattern(
    r"(?<![a-z])(debug|verbose|log|logging|logger|wandb|print|report|save|eval|valid|val|main|master|rank|last|first|dry)"
    r"(?![a-z])",
    re.IGNORECASE,
)
_PATHS = (ast.Name, ast.Attribute)


def tests_around(block: Block, outermost: Block) -> Iterator[ast.expr]:
    """Yield the tests of the `if`s between a block and one around it, innermost first."""
    for each in block.chain():
        if each is outermost:
            return
        if each.kind in {BlockKind.IF, BlockKind.ELSE} and isinstance(each.node, ast.If):
            yield each.node.test


def is_now_and_then(block: Block, outermost: Block) -> bool:
    """Return whether code runs only every so many rounds, when asked to log, or where an exception was caught."""
    if any(each.kind is BlockKind.EXCEPT for each in block.chain() if each.within(outermost)):
        return True
    return any(is_periodic(test) or _ASIDE.search(_words(test)) for test in tests_around(block, outermost))


def is_periodic(test: ast.expr) -> bool:
    """Return whether a test holds every so many rounds: it takes a remainder."""
    return any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod) for each in walk(test))


def _words(test: ast.expr) -> str:
    return " ".join(dotted(each) for each in walk(test) if isinstance(each, _PATHS))


def are_alternatives(one: Block, other: Block) -> bool:
    """Return whether two blocks stand in different arms of one `if`, so that never both run."""
    arms = {each.node: each.kind for each in one.chain() if isinstance(each.node, ast.If)}
    return any(
        arms.get(each.node, each.kind) is not each.kind for each in other.chain() if isinstance(each.node, ast.If)
    )


def steers(call: Call) -> bool:
    """Return whether a call's value decides how to go on: in a test, or through a name that a test reads."""
    statement = call.statement
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        return True
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        name = dotted(statement.targets[0])
        return bool(name) and any(name in names_in(test) for test in _later_tests(call.function))
    return False


def tests_of(call: Call) -> list[ast.expr]:
    """Return the tests that read a call's value: the one it stands in, or those of the name to which it is bound."""
    statement = call.statement
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        return [statement.test]
    name = dotted(statement.targets[0]) if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else ""
    return [test for test in _later_tests(call.function) if name in names_in(test)] if name else []


def _later_tests(function: Function) -> Iterator[ast.expr]:
    for block in function.blocks:
        if isinstance(block.node, ast.If | ast.While):
            yield block.node.test


def names_in(node: ast.AST) -> frozenset[str]:
    """Return the paths of all names and attributes read in a part of the tree."""
    return frozenset(dotted(each) for each in walk(node) if isinstance(each, _PATHS))
