"""ESP301: a loss is gathered over steps together with its autograd graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.frameworks import repeats_as_training_step
from esper_agents.review.names import dotted
from esper_agents.review.rule import INFERRED, SEEN, Rule
from esper_agents.review.training import innermost_training_loops, loss_of
from esper_agents.review.values import keeps_graph, without_gradients

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Assignment, Block, Call, FileTables, Function

_REMEDY = "gather `loss.detach()`, and fetch the numbers once after the loop"


class LossKeptWithGraph(Rule):
    """A loss that is appended, added up or stored over the steps of a training loop without being detached.

    ## Why it costs
    The tensor holds its graph, and a graph holds what its operations saved. A list or a sum of losses therefore keeps
    something of every step alive: memory grows until the job runs out of it, often hours later.

    ## When it is right
    The sum itself is sent backward, or the store is emptied in every step. What went through `.detach()`, `.item()`,
    `float()` or `.data` holds no graph, nor does a sum made under `torch.no_grad()`.

    ## Sources
    PyTorch frequently asked questions, "My model reports cuda runtime error(2): out of memory", on not accumulating
    history across the training loop.
    """

    code, name = "ESP301", "loss-kept-with-graph"
    severity, category = Severity.WARNING, Category.MEMORY
    bad = (
        "losses = []\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    loss = criterion(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    losses.append(loss)\n"
    )
    good = (
        "losses = []\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    loss = criterion(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    losses.append(loss.detach())\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[Hit]:
        """Yield what gathers a loss in the training loops of the file, and in steps that a framework repeats."""
        for loop, backwards in innermost_training_loops(file).items():
            function = loop.function
            losses = {path for path in map(loss_of, backwards) if path}
            yield from self._gathered(function, loop, losses | _aliases(function, losses))
        for function in file.functions:
            if repeats_as_training_step(function, index):
                yield from self._gathered(function, function.block, _returned(function))

    def _gathered(self, function: Function, around: Block, losses: Collection[str]) -> Iterator[Hit]:
        used = _flowing_into(function, losses)
        for call in function.calls:
            if call.tail in {"append", "extend", "add"} and call.block.within(around) and call.node.args:
                yield from self._appended(call, around, losses, used)
        for target, assignments in function.assignments.items():
            if target in losses or target in used or _is_fresh(function, target, around):
                continue
            for each in assignments:
                if each.block.within(around) and _gathers(each, losses) and not without_gradients(each.block):
                    yield self._kept(each.statement, each.value, target)

    def _appended(self, call: Call, around: Block, losses: Collection[str], used: Collection[str]) -> Iterator[Hit]:
        store, value = call.receiver, call.node.args[0]
        if not store or store in used or _is_fresh(call.function, store, around):
            return
        if _still_keeps(call.function, value, call.line, losses):
            yield self._kept(call.node, value, store)

    def _kept(self, node: ast.AST, value: ast.expr, store: str) -> Hit:
        is_plain = isinstance(value, ast.Name | ast.Attribute | ast.BinOp)
        return self.hit(
            node,
            f"{store!r} keeps the autograd graph of the loss of every step",
            remedy=_REMEDY,
            confidence=Confidence.HIGH if is_plain else Confidence.MODERATE,
            basis=SEEN if is_plain else INFERRED,
        )


def _gathers(found: Assignment, losses: Collection[str]) -> bool:
    """Return whether an assignment adds a loss to what its target held, or stores it under a growing key."""
    function, line = found.block.function, found.line
    if not _still_keeps(function, found.value, line, losses):
        return False
    if found.is_augmented:
        return True
    if isinstance(found.node, ast.Subscript):
        return not _is_constant_key(found.node)
    value = found.value
    return isinstance(value, ast.BinOp) and found.target in {dotted(value.left), dotted(value.right)}


def _is_constant_key(node: ast.Subscript) -> bool:
    return isinstance(node.slice, ast.Constant)


def _still_keeps(function: Function, value: ast.expr, line: int, losses: Collection[str]) -> bool:
    """Return whether a value carries a loss's graph, unless the loss was detached on the way."""
    live = {name for name in losses if not _was_detached(function, name, line, losses)}
    return keeps_graph(value, live)


def _was_detached(function: Function, name: str, line: int, losses: Collection[str]) -> bool:
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


def _aliases(function: Function, losses: Collection[str]) -> set[str]:
    """Return the names that hold a loss under another name: `total = loss * weight` before it is gathered."""
    return {
        target
        for target, assignments in function.assignments.items()
        if target.isidentifier()
        and any(
            not each.is_augmented and isinstance(each.value, ast.Name) and each.value.id in losses
            for each in assignments
        )
    }


def _flowing_into(function: Function, losses: Collection[str]) -> set[str]:
    """Return the paths that go into what is sent backward: gathering into them is the point."""
    found = set(losses)
    while True:
        new = {
            name
            for target in found
            for each in function.assignments.get(target, ())
            for name in _read(each.value)
            if name not in found
        }
        if not new:
            return found - set(losses)
        found |= new


def _read(node: ast.expr) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute):
            yield dotted(each)


def _is_fresh(function: Function, store: str, around: Block) -> bool:
    """Return whether a store is made anew in every round of a loop."""
    return any(
        each.block is around and not each.is_augmented and store not in set(_read(each.value))
        for each in function.assignments.get(store, ())
    ) and not store.endswith("[]")


def _returned(function: Function) -> set[str]:
    """Return the names that a step hands back as its loss."""
    found = set[str]()
    for statement, _ in function.returns:
        value = statement.value
        if isinstance(value, ast.Name):
            found.add(value.id)
        elif isinstance(value, ast.Dict):
            found |= {dotted(each) for key, each in zip(value.keys, value.values, strict=True) if _is_loss_key(key)}
    return found - {""}


def _is_loss_key(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and key.value == "loss"
