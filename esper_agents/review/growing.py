"""Loops in which something grows: how many rounds they have by the look of it, and what else they do with it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.names import dotted, root_of, walk
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.blocks import Block
    from esper_agents.review.tables import Call

# A loop over few things by their name; its rounds do not grow with the data.
_FEW = pattern(
    r"(?:\w+_)?(?:layers?|blocks?|stages?|levels?|heads?|scales?|branches|modules?|pyramids?|towers?|experts?|convs?"
    r"|hops?|passes|keyframes?|references?|conditions?|controls?|modalities|languages?)(?:_\w+)?|reference_\w+"
)
_SMALL = 16


def is_short(loop: Block) -> bool:
    """Return whether a loop has few rounds by the look of it: `range(4)`, a literal, or the layers of a model."""
    rounds = loop.node.iter if isinstance(loop.node, ast.For | ast.AsyncFor) else None
    if isinstance(rounds, ast.Tuple | ast.List):
        return True
    if isinstance(rounds, ast.Call) and dotted(rounds.func).rpartition(".")[2] in {"items", "keys", "values"}:
        return True
    if _calls_its_element(loop):
        return True
    if rounds is not None and any(_FEW.fullmatch(path.rpartition(".")[2]) for path in names_in(rounds)):
        return True
    if loop.function.owner is not None and loop.function.name.startswith("forward") and rounds is not None:
        return any(path.startswith("self.") for path in names_in(rounds))
    is_range = isinstance(rounds, ast.Call) and dotted(rounds.func) == "range"
    return is_range and all(_is_small(arg) for arg in rounds.args)  # type: ignore[union-attr]


def _calls_its_element(loop: Block) -> bool:
    """Return whether what a loop goes over is called: its elements are layers or functions."""
    return any(call.path in loop.targets and call.block.within(loop) for call in loop.function.calls)


def _is_small(size: ast.expr) -> bool:
    return isinstance(size, ast.Constant) and isinstance(size.value, int) and size.value <= _SMALL


def is_first_round(block: Block, loop: Block, target: str) -> bool:
    """Return whether code runs only while nothing was gathered yet: under `if out is None` or `if i == 0`."""
    return any(asks_for_the_first(test, target, loop) for test in tests_around(block, loop))


def asks_for_the_first(test: ast.expr, target: str, loop: Block) -> bool:
    """Return whether a test asks if anything was gathered yet."""
    match test:
        case ast.Name():
            return "first" in test.id or test.id == target
        case ast.UnaryOp():
            return asks_for_the_first(test.operand, target, loop)
        case ast.Call(func=ast.Name(id="len"), args=[value]):
            return dotted(value) == target
        case ast.Compare():
            return _compares_with_the_first(test, target, loop)
        case _:
            return False


def _compares_with_the_first(test: ast.Compare, target: str, loop: Block) -> bool:
    other = test.comparators[0]
    match test.ops[0]:
        case ast.Is() | ast.IsNot():
            return dotted(test.left) == target
        case ast.In() | ast.NotIn():
            return f"{dotted(other).removesuffix('.keys()')}[]" == target
        case _:
            is_low = isinstance(other, ast.Constant) and other.value in {0, 1}
            counts = dotted(test.left) in loop.targets or asks_for_the_first(test.left, target, loop)
            return is_low and (counts or dotted(test.left) == f"{target}.shape[]")


def reads(statement: ast.AST, target: str) -> bool:
    """Return whether a statement reads a path, by more than asking for its size in a line that is printed."""
    if (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and dotted(statement.value.func) == "print"
    ):
        sized = {each.value for each in walk(statement) if isinstance(each, ast.Attribute) and each.attr == "shape"}
        sized |= {
            argument
            for each in walk(statement)
            if isinstance(each, ast.Call) and dotted(each.func) == "len"
            for argument in each.args
        }
    else:
        sized = set()
    return any(
        isinstance(each, ast.Name | ast.Attribute)
        and isinstance(each.ctx, ast.Load)
        and dotted(each) == target
        and each not in sized
        for each in walk(statement)
    )


def frees_what_it_takes(loop: Block) -> bool:
    """Return whether a loop lets go of the parts while it joins them, to hold less at once: `parts[i] = None`."""
    if any(call.name == "gc.collect" and call.block.within(loop) for call in loop.function.calls):
        return True
    return any(
        target.endswith("[]")
        and any(assignment.block.within(loop) and _is_nothing(assignment.value) for assignment in assignments)
        and root_of(target) in names_in(loop.node)
        for target, assignments in loop.function.assignments.items()
    )


def _is_nothing(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return value.value in {None, 0}
    return isinstance(value, ast.Call) and dotted(value.func) == "torch.Tensor" and len(value.args) == 1


def is_read_by_method(target: str, loop: Block) -> bool:
    """Return whether a loop calls a method of the same object that reads the attribute."""
    owner = loop.function.owner
    if owner is None or not target.startswith("self."):
        return False
    called = {call.tail for call in loop.function.calls if call.receiver == "self" and call.block.within(loop)}
    return any(target in names_in(owner.methods[name].node) for name in called & owner.methods.keys())


def adds_a_number(call: Call, target: str) -> bool:
    """Return whether what is added is surely one number: `np.append(scores, loss.item())`."""
    added = call.node.args[1] if call.tail == "append" and len(call.node.args) > 1 else None
    match added:
        case ast.Constant() | ast.Compare():
            return True
        case ast.Call(func=ast.Attribute(attr="item" | "mean" | "sum" | "max" | "min"), args=[]):
            return True
        case ast.Call(func=func):
            return dotted(func) in {"float", "int", "len", "sum", "max", "min", "np.mean", "numpy.mean", "time.time"}
        case ast.BinOp() | ast.IfExp():
            return target not in names_in(added)
        case _:
            return False
