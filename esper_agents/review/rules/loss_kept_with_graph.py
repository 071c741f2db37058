"""ESP301: a loss is gathered over steps together with its autograd graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.frameworks import repeats_as_training_step
from esper_agents.review.kept_losses import components, losses_in_loops, losses_of_steps, names_read, was_detached
from esper_agents.review.meters import adds_up
from esper_agents.review.model.kept_graphs import kept_graphs
from esper_agents.review.names import dotted
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.values import graphs_in, keeps_graph, without_gradients

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import ModelMatch
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_ADDING = frozenset({"append", "extend", "add", "add_", "appendleft", "insert", "put"})
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

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what gathers a loss in the training loops of the file, and in steps that a framework repeats."""
        for loop, losses in losses_in_loops(file, index).items():
            function = loop.function
            known = losses | components(function, loop, losses)
            yield from self._gathered(function, loop, known | _aliases(function, known), losses, index)
            yield from self._handed_to_meters(loop, known | _aliases(function, known), index)
        for function, losses in losses_of_steps(file, index).items():
            known = losses | _aliases(function, losses)
            yield from self._gathered(function, function.block, known, losses, index)
            yield from self._handed_to_meters(function.block, known, index)
        for function in file.functions:
            if repeats_as_training_step(function, index):
                losses = _returned(function)
                known = losses | _aliases(function, losses)
                yield from self._gathered(function, function.block, known, losses, index)

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield stores of losses that were sent backward and are kept with their graph."""
        for kept in kept_graphs(index):
            if kept.is_loss:
                yield self.model_match(
                    kept.run.site(kept.store, kept.loop),
                    f"{kept.store.text!r} keeps the autograd graph of the loss of every step",
                    remedy=_REMEDY,
                )

    def _handed_to_meters(self, loop: Block, losses: Collection[str], index: ProjectIndex) -> Iterator[RuleMatch]:
        for call in loop.function.calls:
            if not call.receiver or not call.block.within(loop) or without_gradients(call.block):
                continue
            for value in (*call.node.args, *(keyword.value for keyword in call.node.keywords)):
                if _still_keeps(call.function, value, call.line, losses) and adds_up(call, value, index):
                    yield self.hit(
                        call.node,
                        f"{call.receiver!r} adds up the loss of every step together with its autograd graph",
                        remedy="hand over `loss.detach()`, or let the meter detach what it is given",
                        confidence=Confidence.HIGH,
                        basis=FOLLOWED,
                    )

    def _gathered(
        self, function: Function, around: Block, losses: Collection[str], sent: Collection[str], index: ProjectIndex
    ) -> Iterator[RuleMatch]:
        used = _flowing_into(function, sent) - set(losses)
        for call in function.calls:
            is_plain = call.tail in _ADDING and call.block.within(around) and bool(call.node.args)
            # A method of these files is judged by what it does with what it is given.
            if is_plain and not index.possible_callees(call):
                yield from self._appended(call, around, losses, used)
        for target, assignments in function.assignments.items():
            if target in losses or target in used or _is_fresh(function, target, around):
                continue
            if _starts_anew_with_step(function, target, around):
                continue
            for assignment in assignments:
                if (
                    assignment.block.within(around)
                    and _gathers(assignment, losses)
                    and not without_gradients(assignment.block)
                ):
                    yield self._kept(assignment.statement, assignment.value, target)

    def _appended(
        self, call: Call, around: Block, losses: Collection[str], used: Collection[str]
    ) -> Iterator[RuleMatch]:
        store, value = call.receiver, call.node.args[-1]
        if not store or store in used or store in losses or _is_fresh(call.function, store, around):
            return
        if store in call.function.file.imports or (call.tail == "add_" and without_gradients(call.block)):
            return
        if _still_keeps(call.function, value, call.line, losses):
            yield self._kept(call.node, value, store)

    def _kept(self, node: ast.AST, value: ast.expr, store: str) -> RuleMatch:
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
    return _joins(found.value, found.target, losses)


def _joins(value: ast.expr, target: str, losses: Collection[str]) -> bool:
    """Return whether a value carries the graphs of a loss and of what its target held: both arms of a choice do not."""
    if isinstance(value, ast.IfExp):
        return _joins(value.body, target, losses) or _joins(value.orelse, target, losses)
    return isinstance(value, ast.BinOp | ast.Call) and target in graphs_in(value) and keeps_graph(value, losses)


def _is_constant_key(node: ast.Subscript) -> bool:
    return isinstance(node.slice, ast.Constant)


def _still_keeps(function: Function, value: ast.expr, line: int, losses: Collection[str]) -> bool:
    """Return whether a value carries a loss's graph, unless the loss was detached on the way."""
    live = {name for name in losses if not was_detached(function, name, line, losses)}
    return keeps_graph(value, live)


def _aliases(function: Function, losses: Collection[str]) -> set[str]:
    """Return the names that hold a loss under another name: `total = loss * weight` before it is gathered."""
    return {
        target
        for target, assignments in function.assignments.items()
        if target.isidentifier()
        and any(
            not assignment.is_augmented
            and keeps_graph(assignment.value, losses)
            and target not in graphs_in(assignment.value)
            for assignment in assignments
        )
    }


def _flowing_into(function: Function, losses: Collection[str]) -> set[str]:
    """Return the paths that go into what is sent backward: gathering into them is the point."""
    reads = function.file.once(("read by assignments", function), lambda: _reads(function))
    found = set(losses)
    edge = list(losses)
    while edge:
        fresh = reads.get(edge.pop(), frozenset()) - found
        found |= fresh
        edge += fresh
    return found - set(losses)


def _reads(function: Function) -> dict[str, frozenset[str]]:
    """Return what each path of a function is made of, by what is read where it is assigned."""
    return {
        target: frozenset(name for assignment in assignments for name in names_read(assignment.value))
        for target, assignments in function.assignments.items()
    }


def _is_fresh(function: Function, store: str, around: Block) -> bool:
    """Return whether a store is made anew in every round of a loop."""
    return any(
        each.block is around and not each.is_augmented and store not in set(names_read(each.value))
        for each in function.assignments.get(store, ())
    ) and not store.endswith("[]")


def _starts_anew_with_step(function: Function, store: str, around: Block) -> bool:
    """Return whether a sum goes back to a number where the optimizer steps: it holds one step's batches at most."""
    resets = [
        each.block
        for each in function.assignments.get(store, ())
        if isinstance(each.value, ast.Constant) and each.block.within(around) and each.block.kind is BlockKind.IF
    ]
    steps = [call.block for call in function.calls if call.tail == "step" and "opt" in call.receiver.lower()]
    return any(step.within(reset) for reset in resets for step in steps)


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
