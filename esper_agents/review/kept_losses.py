"""Which names hold a loss that is sent backward, with its autograd graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.training import backward_calls, innermost_training_loops, is_backward, losses_of
from esper_agents.review.values import graphs_in, item_path, keeps_graph

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_STORES = (ast.Dict, ast.List, ast.DictComp, ast.ListComp, ast.Call)
# Where a function hands back a loss by itself.
_WHOLE = "the whole"
_DRAWN = ("", ".values()", ".items()")


def losses_in_loops(file: FileTables, index: ProjectIndex) -> dict[Block, set[str]]:
    """Return the losses that each loop sends backward, itself or in a step function that hands the loss back."""
    found = {
        loop: {path for backward in backwards for path in losses_of(backward)}
        for loop, backwards in innermost_training_loops(file).items()
    }
    steps = index.once("functions that hand back their loss", lambda: _hands_back(index))
    for tail in sorted({step.name for step in steps} & file.by_tail.keys()):
        for call in file.calls_ending(tail):
            parts = [part for callee in index.callees(call) for part in steps.get(callee, ())]
            if call.block.loop is not None and parts:
                found.setdefault(call.block.loop, set()).update(_received(call, parts))
    return found


def _received(call: Call, parts: Collection[object]) -> set[str]:
    """Return what holds the loss that a call hands back: the call itself, a name, or a part of one."""
    names = set[str]()
    if _WHOLE in parts:
        names.add(dotted(call.node))
    if not isinstance(call.statement, ast.Assign):
        return names
    picked = call.statement.value
    if isinstance(picked, ast.Subscript) and picked.value is call.node and isinstance(picked.slice, ast.Constant):
        bound = {dotted(each) for each in call.statement.targets if isinstance(each, ast.Name)}
        return names | (bound if picked.slice.value in parts else set())
    if picked is not call.node:
        return names
    for target in call.statement.targets:
        if isinstance(target, ast.Tuple | ast.List):
            names |= {dotted(each) for place, each in enumerate(target.elts) if place in parts}
        elif isinstance(target, ast.Name):
            names |= {target.id} if _WHOLE in parts else {f"{target.id}[{part!r}]" for part in parts}
    return names - {""}


def losses_of_steps(file: FileTables, index: ProjectIndex) -> dict[Function, set[str]]:
    """Return the losses of the functions that send one backward outside loops, and that a loop calls."""
    found: dict[Function, set[str]] = {}
    for call in backward_calls(file):
        if call.block.loop is None and any(caller.block.loop is not None for caller in index.callers(call.function)):
            found.setdefault(call.function, set()).update(losses_of(call))
    return found


def _hands_back(index: ProjectIndex) -> dict[Function, set[object]]:
    """Return the functions that send a loss backward and return it with its graph, each with where it stands in there.

    That is a place in a tuple, a key of a dictionary, or the whole.
    """
    found: dict[Function, set[object]] = {}
    for call in index.calls_ending("backward", "manual_backward"):
        for each, _ in call.function.returns if is_backward(call) else ():
            losses = losses_of(call)
            parts = {
                place
                for place, value in _parts_of(each.value)
                if isinstance(value, ast.Name)
                and value.id in losses
                and not was_detached(call.function, value.id, each.lineno, losses)
            }
            if parts:
                found.setdefault(call.function, set()).update(parts)
    return found


def _parts_of(value: ast.expr | None) -> Iterator[tuple[object, ast.expr]]:
    match value:
        case ast.Tuple():
            yield from enumerate(value.elts)
        case ast.Dict():
            keys = ((key, each) for key, each in zip(value.keys, value.values, strict=True))
            yield from ((key.value, each) for key, each in keys if isinstance(key, ast.Constant))
        case ast.expr():
            yield _WHOLE, value
        case None:
            pass


def components(function: Function, loop: Block, losses: Collection[str]) -> set[str]:
    """Return what a loss is the sum of, as far as each round makes it anew by a call: `loss = rec + beta * kl`."""
    made_of = [each.value for loss in losses for each in function.assignments.get(loss, ()) if each.block.within(loop)]
    summed = {path for value in made_of if isinstance(value, ast.BinOp) for path in graphs_in(value)}
    drawn = {dotted(value) for value in made_of if isinstance(value, ast.Attribute)}
    drawn |= {item_path(value) for value in made_of}
    drawn |= {path for path in summed if "loss" in tail_of(path) and root_of(path) != path}
    return (
        _parts_of_sums(function, loop, losses)
        | {path for path in summed if _is_made_in(function, loop, path)}
        | {path for path in drawn if _is_made_in(function, loop, root_of(path))}
    )


def _is_made_in(function: Function, loop: Block, path: str) -> bool:
    """Return whether each round of a loop makes what a path holds anew, by a call or from others."""
    made = function.assignments.get(path, ())
    return bool(made) and all(
        isinstance(each.value, ast.Call | ast.BinOp) and each.block.within(loop) and not _counts(each.value)
        for each in made
    )


def _counts(value: ast.expr) -> bool:
    """Return whether a value is a number of things, which has no gradient: `(labels != ignored).sum()`."""
    inner = value
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        if inner.func.attr in {"numel", "size", "count_nonzero"}:
            return True
        inner = inner.func.value
    return isinstance(inner, ast.Compare) or (isinstance(inner, ast.Call) and dotted(inner.func) in {"len", "int"})


def _parts_of_sums(function: Function, loop: Block, losses: Collection[str]) -> set[str]:
    """Return what loops draw from a list or dictionary whose sum is a loss: `v` of `for k, v in losses.items()`."""
    stores = {
        name
        for loss in losses
        for each in function.assignments.get(loss, ())
        if isinstance(each.value, ast.Call) and tail_of(dotted(each.value)) == "sum"
        for name in names_read(each.value)
        if any(
            isinstance(made.value, _STORES) and made.block.within(loop) for made in function.assignments.get(name, ())
        )
    }
    drawn = [
        block for block in function.blocks if block.targets and isinstance(block.node, ast.For) and block.within(loop)
    ]
    return {f"{store}[]" for store in stores} | {
        each.targets[-1]
        for each in drawn
        if isinstance(each.node, ast.For) and dotted(each.node.iter) in {f"{s}{end}" for s in stores for end in _DRAWN}
    }


def was_detached(function: Function, name: str, line: int, losses: Collection[str]) -> bool:
    """Return whether the last binding of a name above a line let go of the graph of a loss."""
    last = function.last_assignment(name, line)
    if last is None or last.is_augmented:
        return False
    value = last.value
    if isinstance(value, ast.Call) and dotted(value.func) in {"float", "int"}:
        return True
    letting_go = isinstance(value, ast.Call | ast.Attribute) and dotted(value).rstrip("()").rsplit(".", 1)[-1] in {
        "detach",
        "item",
        "data",
        "numpy",
        "tolist",
        "detach_",
    }
    return letting_go and not keeps_graph(value, losses)


def names_read(node: ast.expr) -> Iterator[str]:
    """Yield the paths of all names and attributes in an expression."""
    for each in walk(node):
        if isinstance(each, ast.Name | ast.Attribute):
            yield dotted(each)
