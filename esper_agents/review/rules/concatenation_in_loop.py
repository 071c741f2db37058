"""ESP401: a tensor or an array grows by concatenation in every round of a loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import names_in
from esper_agents.review.growing import (
    adds_a_number,
    asks_for_the_first,
    frees_what_it_takes,
    is_first_round,
    is_read_by_method,
    is_short,
    reads,
)
from esper_agents.review.names import dotted, root_of, walk
from esper_agents.review.rule import FileRule, RuntimeExpectation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.blocks import Block
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_NAMES = ("append", "cat", "column_stack", "concat", "concatenate", "dstack", "hstack", "row_stack", "vstack")
_JOINING = frozenset(f"{package}.{name}" for package in ("torch", "numpy", "np") for name in _NAMES)
# What leaves the parts as they are on the way into the concatenation, and the whole on the way out.
_PASSING = frozenset(
    {"unsqueeze", "squeeze", "view", "reshape", "detach", "cpu", "cuda", "to", "flatten", "contiguous", "numpy"}
)


class ConcatenationInLoop(FileRule):
    """A `torch.cat`, `np.append` or one of their kind in a loop whose result replaces one of its own parts.

    ## Why it costs
    Every round copies all that was gathered before: n rounds move on the order of n squared elements, and both the old
    and the new tensor are alive at once. A list that is joined once after the loop moves every element once.

    ## When it is right
    Each round needs what was gathered so far, as in generation token by token: a loop that reads the tensor elsewhere
    is not reported, nor is one over a short literal range or over the layers of a model.

    ## Sources
    PyTorch documentation of `torch.cat`, which returns a new tensor; NumPy documentation of `numpy.append`, which
    returns a copy.
    """

    code, name = "ESP401", "concatenation-in-loop"
    severity, category = Severity.WARNING, Category.PERFORMANCE
    shown = RuntimeExpectation.REPEATS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def collect(model, loader):\n"
        "    features = torch.empty(0, 128)\n"
        "    for x in loader:\n"
        "        features = torch.cat([features, model(x)])\n"
        "    return features\n"
    )
    good = (
        "import torch\n"
        "\n"
        "\n"
        "def collect(model, loader):\n"
        "    features = []\n"
        "    for x in loader:\n"
        "        features.append(model(x))\n"
        "    return torch.cat(features)\n"
    )

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the concatenations that a loop feeds to itself, the first of each tensor."""
        found: dict[tuple[Block, str], list[Call]] = {}
        for call in sorted(file.calls_ending(*_NAMES), key=lambda each: (each.line, each.node.col_offset)):
            if call.block.loop is None or call.name not in _JOINING or _is_aside(call):
                continue
            target = _replaced(call)
            loop = _growing_loop(call, target) if target else None
            if loop is not None and not _is_read_elsewhere(call, loop, target) and not frees_what_it_takes(loop):
                found.setdefault((loop, _entry(call) or target), []).append(call)
        for (_, target), calls in found.items():
            yield self._grown(calls, target)

    def _grown(self, calls: Sequence[Call], target: str) -> RuleMatch:
        is_little = all(adds_a_number(call, target) for call in calls)
        return self.hit(
            calls[0].node,
            f"{target!r} is copied as a whole in every round of the loop",
            remedy="append the parts to a list and join them once after the loop",
            severity=Severity.SUGGESTION if is_little else None,
        )


def _is_aside(call: Call) -> bool:
    """Return whether a function runs once, or is compiled as a script, where loops carry tensors only."""
    is_scripted = any(path.startswith("torch.jit.") for path in call.function.decorators)
    return is_scripted or call.function.name == "__init__"


def _replaced(call: Call) -> str:
    """Return the path that the result replaces and that is one of the parts as well; empty otherwise."""
    statement = call.statement
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return ""
    if _within(statement.value) is not call.node:
        return ""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    parts = {_text(part) for part in _parts(call)}
    return dotted(target) if _text(target) in parts else ""


def _within(value: ast.expr) -> ast.expr:
    """Return the concatenation inside `a if first else torch.cat(...)`, and before a `.detach()` that follows it."""
    while True:
        if isinstance(value, ast.IfExp):
            value = value.orelse if isinstance(value.orelse, ast.Call) and _is_joining(value.orelse) else value.body
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _PASSING:
            value = value.func.value
        else:
            return value


def _is_joining(value: ast.Call) -> bool:
    return dotted(value.func).rpartition(".")[2] in _NAMES


def _parts(call: Call) -> Iterator[ast.expr]:
    """Yield the parts that are joined, what reshapes them left out."""
    first = call.argument(0, "tensors") or call.argument(-1, "arrays")
    listed = [*call.node.args[:2]] if call.tail == "append" else [first] if first is not None else []
    for each in listed:
        yield from _listed(each)


def _listed(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.List() | ast.Tuple():
            for elt in node.elts:
                yield from _listed(elt)
        case ast.BinOp(op=ast.Add()):
            yield from _listed(node.left)
            yield from _listed(node.right)
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _PASSING:
            yield from _listed(value)
        case ast.Starred():
            return
        case _:
            yield node


def _text(node: ast.expr) -> str:
    """Return a name, attribute or element as source, and nothing for all else."""
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else ""


def _growing_loop(call: Call, target: str) -> Block | None:
    """Return the innermost loop over which the tensor grows: one of many rounds that neither makes nor picks it."""
    picking = _picked_by(call)
    holder = root_of(target) if target != root_of(target) else ""
    for loop in call.block.loops():
        if loop.kind is BlockKind.COMPREHENSION or _is_made_inside(call, loop, target):
            return None
        if any(each.block.within(loop) for each in call.function.assignments.get(holder, ())):
            return None
        bound = set(loop.targets) | {
            name
            for name in picking
            for each in call.function.assignments.get(name, ())
            if each.block.within(loop) and not isinstance(each.statement, ast.For)
        }
        if not picking & bound and not is_short(loop):
            return loop
    return None


def _picked_by(call: Call) -> set[str]:
    """Return the names that pick which element of a store is replaced."""
    statement = call.statement
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return {
        each.id
        for part in (walk(target) if target is not None else ())
        if isinstance(part, ast.Subscript)
        for each in walk(part.slice)
        if isinstance(each, ast.Name)
    }


def _is_made_inside(call: Call, loop: Block, target: str) -> bool:
    entry = _entry(call)
    return any(
        each.statement is not call.statement
        and (not entry or ast.unparse(each.node) == entry)
        and each.block.within(loop)
        and target not in names_in(each.value)
        and not is_first_round(each.block, loop, target)
        for each in call.function.assignments.get(target, ())
    )


def _is_read_elsewhere(call: Call, loop: Block, target: str) -> bool:
    """Return whether the loop reads the tensor in another statement, so that it cannot wait until the end."""
    entry = _entry(call)
    growing = {each.statement for each in call.function.calls if each.tail in _NAMES and _replaced(each) == target}
    for statement in walk(loop.node):
        is_leaf = isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Assert)
        is_other = is_leaf and statement is not call.statement and (bool(entry) or statement not in growing)
        if is_other and (entry in ast.unparse(statement) if entry else reads(statement, target)):
            return True
        is_test = isinstance(statement, ast.If | ast.While) and not asks_for_the_first(statement.test, target, loop)
        if is_test and target in names_in(statement.test):
            return True
    return is_read_by_method(target, loop) or _is_read_in_growing(call, target)


def _entry(call: Call) -> str:
    """Return the entry of a dict that a concatenation replaces, as written: other entries are other tensors."""
    statement = call.statement
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    is_named = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant)
    return ast.unparse(target) if target is not None and is_named else ""


def _is_read_in_growing(call: Call, target: str) -> bool:
    """Return whether the part that is added is itself computed from what was gathered: `cat([ids, model(ids)])`."""
    own = sum(1 for part in _parts(call) if _text(part) == target or dotted(part) == target)
    read = sum(1 for each in walk(call.node) if isinstance(each, ast.Name | ast.Attribute) and dotted(each) == target)
    return read > own
