"""ESP303: outputs or activations of every batch are kept with their graph."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.definitions import owner_of
from esper_agents.review.gathered import Put
from esper_agents.review.graded_evaluations import evaluations_with_gradients
from esper_agents.review.hooks import forward_hooks, gathering_lambdas
from esper_agents.review.hot import hot_around, hot_blocks, is_rare
from esper_agents.review.model.kept_graphs import kept_graphs
from esper_agents.review.models import forward_calls_in
from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.sample_loops import overs
from esper_agents.review.stores import is_emptied, is_made_in, is_read_in, starts_in_init
from esper_agents.review.training import backward_calls_in, loss_of
from esper_agents.review.unpacked import part_assigned
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import ModelMatch
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables, Function

# Modules that keep what passes on purpose.
_RECORDING = pattern(r"record|observe|logger|track|histor|captur|probe|monitor|buffer|memory", re.IGNORECASE)
_LET_GO = pattern(r"\.(?:detach|item|tolist|numpy)\(\)(?:\.\w+\(\))*$")


class IntermediatesKept(Rule):
    """Outputs, features or activations of every batch gathered in a list, with their graph and on the device.

    ## Why it costs
    Each of them holds its autograd graph, and with it all activations that a backward would need; even without the
    graph whole outputs fill the device where a number would do. Memory grows with every batch until it is used up.

    ## When it is right
    The list goes into the loss, or is emptied in every step. What is detached, or gathered without gradients to be
    joined for an evaluation, is not reported; an evaluation with gradients on is told of by itself, and this is advice.

    ## Sources
    PyTorch frequently asked questions, "My model reports cuda runtime error(2): out of memory"; documentation of
    `torch.nn.Module.register_forward_hook`.
    """

    code, name = "ESP303", "intermediates-kept"
    severity, category = Severity.WARNING, Category.MEMORY
    bad = (
        "outputs = []\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    output = model(x)\n"
        "    criterion(output, y).backward()\n"
        "    optimizer.step()\n"
        "    outputs.append(output)\n"
    )
    good = (
        "outputs = []\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    output = model(x)\n"
        "    criterion(output, y).backward()\n"
        "    optimizer.step()\n"
        "    outputs.append(output.detach().cpu())\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what gathers outputs in training steps, in hooks and in a model's own `forward`."""
        hooks = forward_hooks(file, index)
        for call in file.calls_ending("append", "extend"):
            if not call.receiver or len(call.node.args) != 1 or without_gradients(call.block):
                continue
            put = Put(call.node, call.receiver, call.node.args[0], call.block, call.line)
            if call.function in hooks:
                yield from self._from_outputs(put, hooks[call.function], "the hook", index)
            elif call.function.name == "forward" and put.is_own:
                yield from self._in_forward(put, index)
            else:
                yield from self._in_step(put, index)
                yield from self._in_evaluation(put, index)
        for function, outputs in hooks.items():
            for put in _joined_lists(function):
                yield from self._from_outputs(put, outputs, "the hook", index)
        for gather, names in gathering_lambdas(file):
            put = Put(gather.node, gather.receiver, gather.node.args[0], gather.block, 0)
            yield from self._from_outputs(put, names, "the hook", index)
        for put in _assigned(file, index):
            yield from self._in_step(put, index)
            yield from self._in_evaluation(put, index)
        for put in _stored_in_forward(file):
            yield from self._in_forward(put, index)

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield stores of intermediate values whose loss was sent backward."""
        for kept in kept_graphs(index):
            if not kept.is_loss and not kept.store.is_conditional:
                yield self.model_match(
                    kept.run.place(kept.store, None),
                    f"{kept.store.text!r} keeps a value of every step with its autograd graph",
                    remedy="store `value.detach().cpu()`, or the numbers you need of it",
                    severity=None if kept.is_trained else Severity.SUGGESTION,
                )

    def _from_outputs(self, put: Put, names: frozenset[str], who: str, index: ProjectIndex) -> Iterator[RuleMatch]:
        if put.keeps(names) and not is_emptied(put.store, put.function, index):
            yield self._found(put, who, SEEN)

    def _in_forward(self, put: Put, index: ProjectIndex) -> Iterator[RuleMatch]:
        owner = owner_of(put.function)
        if owner is None or _RECORDING.search(owner.name):
            return
        if index.is_module(owner) and starts_in_init(put.store, owner):
            inputs = frozenset(name for name in put.function.parameters if name != "self")
            yield from self._from_outputs(put, inputs | _computed(put.function), "every forward", index)

    def _in_step(self, put: Put, index: ProjectIndex) -> Iterator[RuleMatch]:
        hot = hot_around(put.block, index)
        if hot is None or is_rare(put.block, hot.around, put.line) or is_made_in(put.store, put.function, hot.around):
            return
        outputs = _outputs(put.function, index)
        is_output = put.is_made_by({each.node for each in forward_calls_in(put.function, index)})
        if not is_output and not put.keeps(outputs):
            return
        is_store = hot.basis == SEEN or put.is_own
        if is_store and not _is_used(put, hot.around) and not is_emptied(put.store, put.function, index):
            yield self._found(put, "every training step", hot.basis)

    def _in_evaluation(self, put: Put, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what gathers outputs in a loop that evaluates with gradients on."""
        graded = evaluations_with_gradients(put.function.file, index)
        around = next((loop for loop in put.block.loops() if loop in graded), None)
        if around is None or hot_around(put.block, index) is not None or is_made_in(put.store, put.function, around):
            return
        is_output = put.is_made_by({each.node for each in forward_calls_in(put.function, index)})
        keeps = is_output or put.keeps(_outputs(put.function, index))
        if keeps and not is_rare(put.block, around, put.line) and not is_emptied(put.store, put.function, index):
            # Evaluating without gradients mends this as well, and that is said by itself.
            yield self._found(put, "every batch of the evaluation", FOLLOWED, Severity.SUGGESTION)

    def _found(self, put: Put, who: str, basis: str, severity: Severity | None = None) -> RuleMatch:
        return self.hit(
            put.node,
            f"{who} adds to {put.store!r} a tensor with its graph, which stays on the device",
            remedy="keep `output.detach().cpu()` of what is needed, or only the number that is made of it",
            confidence=Confidence.MODERATE if basis == FOLLOWED else Confidence.HIGH,
            basis=basis,
            severity=severity,
        )


def _joined_lists(function: Function) -> Iterator[Put]:
    """Yield what a function adds by `store += [output]`."""
    for target, assignments in function.assignments.items():
        for assignment in assignments:
            if assignment.is_augmented and isinstance(assignment.value, ast.List):
                yield Put(assignment.statement, target, assignment.value, assignment.block, assignment.line)


def _assigned(file: FileTables, index: ProjectIndex) -> Iterator[Put]:
    """Yield what training steps and evaluations add by `store += [output]` and by `store[step] = output`."""
    hot = (hot_block.around.function for hot_block in hot_blocks(index).values())
    graded = (gradient.function for gradient in evaluations_with_gradients(file, index))
    functions = dict.fromkeys(each for each in (*hot, *graded) if each.file is file)
    for function in functions:
        yield from _joined_lists(function)
        for assignments in function.assignments.values():
            for assignment in assignments:
                if isinstance(assignment.node, ast.Subscript) and not isinstance(
                    assignment.node.slice, ast.Constant | ast.Slice
                ):
                    yield Put(
                        assignment.statement,
                        dotted(assignment.node.value),
                        assignment.value,
                        assignment.block,
                        assignment.line,
                    )


def _stored_in_forward(file: FileTables) -> Iterator[Put]:
    """Yield what the `forward` of a class stores under a key that it counts up: `self.seen[self.calls] = output`."""
    for owner in file.classes:
        function = owner.methods.get("forward")
        for target, assignments in function.assignments.items() if function is not None else ():
            if not target.startswith("self.") or not target.endswith("[]"):
                continue
            for assignment in assignments:
                key = dotted(assignment.node.slice) if isinstance(assignment.node, ast.Subscript) else ""
                if key.startswith("self.") and any(one.is_augmented for one in owner.attributes.get(key, ())):
                    yield Put(
                        assignment.statement,
                        target.removesuffix("[]"),
                        assignment.value,
                        assignment.block,
                        assignment.line,
                    )


def _computed(function: Function) -> frozenset[str]:
    """Return what a forward computes by the layers of its own model."""
    return frozenset(
        target
        for target, assignments in function.assignments.items()
        if any(
            isinstance(assignment.value, ast.Call) and dotted(assignment.value.func).startswith("self.")
            for assignment in assignments
        )
    )


def _outputs(function: Function, index: ProjectIndex) -> frozenset[str]:
    """Return the names that hold what a model gave back, losses aside: those are another rule's."""
    calls = {call.node for call in forward_calls_in(function, index)}
    losses = {loss_of(call) for call in backward_calls_in(function)}
    whole = {
        target
        for target, assignments in function.assignments.items()
        if any(assignment.value in calls and not _is_let_go(assignment, index) for assignment in assignments)
        and target not in losses
        and not target.endswith("[]")
    }
    rows = (
        over.element
        for block in function.blocks
        if block.kind is BlockKind.FOR
        for over in overs(block)
        if over.path in whole
    )
    return frozenset(whole | set(rows) - {""})


def _is_let_go(assignment: Assignment, index: ProjectIndex) -> bool:
    """Return whether a function of the project returns what a name takes without its graph: `loss, kept.detach()`."""
    parts = [each.value for each in part_assigned(assignment, index)]
    return bool(parts) and all(_LET_GO.search(ast.unparse(part)) is not None for part in parts)


def _is_used(put: Put, around: Block) -> bool:
    """Return whether the step reads the store, or its loss is made of it."""
    if is_read_in(put.store, around, put.node):
        return True
    seen: set[str] = set()
    edge = {loss_of(each) for each in backward_calls_in(put.function)}
    while edge:
        seen |= edge
        made = [each.value for target in edge for each in put.function.assignments.get(target, ())]
        read = (each for value in made for each in walk(value) if isinstance(each, ast.Name | ast.Attribute))
        edge = {dotted(each) for each in read} - seen
    return put.store in seen
