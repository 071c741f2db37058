"""Gradient accumulation: division of the loss, last window, clearing, clipping, schedule and scaler."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.conditions import is_periodic, tests_around
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.frameworks import runs_the_loop
from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.training import (
    Step,
    clears_gradients,
    discarded_by,
    innermost_training_loops,
    losses_of,
    steps,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.blocks import Block
    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables

_CLIPPING = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"})
_SUMMED = pattern(r"reduction\s*=\s*['\"]sum['\"]")
_NUMBER = pattern(r"accum|window|every|freq|micro|virtual|update")
_WINDOW = pattern(r"accum|grad_acc|micro_?batch")
_BATCHES = pattern(r"(?i)load|batch|data|dl\b")
_ASIDE = pattern(r"isfinite|isnan|scaler|amp|fp16|train|half|mixed")
_LAST = pattern(r"\blen\(|num_batches|steps_per_epoch|is_last|last_batch|n_batches|total_steps|num_steps")


class GradientAccumulation(FactQuery):
    """Loops that add up gradients over several batches, and what each of their lines does with the window."""

    name = "gradient-accumulation"
    topics = ("gradient accumulation",)
    claim = "accumulated gradients differ from those of one large batch"
    category = Category.SILENT_CORRECTNESS
    rules = ("ESP101", "ESP503")
    unseen = "batch norm: it still sees each small batch"
    bad = (
        "def fit(model, loader, optimizer, n):\n"
        "    for i, x in enumerate(loader):\n"
        "        loss = model(x)\n"
        "        loss.backward()\n"
        "        if (i + 1) % n == 0:\n"
        "            optimizer.step()\n"
        "            optimizer.zero_grad()\n"
    )
    good = bad.replace("loss = model(x)", "loss = model(x) / n").replace(
        "% n == 0:", "% n == 0 or i + 1 == len(loader):"
    )

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the facts about each accumulating loop; about each plain one if nothing accumulates."""
        found = [
            (file, loop, sent, step)
            for file in files
            for loop, sent in innermost_training_loops(file).items()
            if (step := _periodic_step(loop, index)) is not None
        ]
        for file, loop, sent, step in found:
            yield from self._scaled(file, loop, sent, step)
            yield from self._window(file, loop, step)
            yield from self._others(file, loop, step)
        if not found:
            for file in files:
                if not runs_the_loop(file):
                    yield from self._plain(file, index)

    def _plain(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield what changes in loops that step after every batch."""
        for loop, sent in innermost_training_loops(file).items():
            inside = [each for each in steps(loop.function, index) if each.call is not None and each.block.within(loop)]
            is_rare = any(_tests(each, loop) for each in inside)
            if not inside or len(sent) != 1 or is_rare or _WINDOW.search(ast.unparse(loop.node)):
                continue
            # Loops of other kinds, such as over updates of a policy, seldom want larger batches.
            if not isinstance(loop.node, ast.For) or not _BATCHES.search(ast.unparse(loop.node.iter)):
                continue
            counter, done, loader = _position(loop)
            loss = ", ".join(sorted(losses_of(sent[0]))) or "the loss"
            text = f"to accumulate over n batches, divide `{loss}` by n here: their gradients add up"
            yield self.fact(file, sent[0].node, Assessment.SHOULD_CHECK, text, _divided(loss, "n"))
            step = inside[0]
            text = f"`{step.optimizer}` steps after every batch: nothing is accumulated"
            remedy = "step after every n-th batch, and after the last one"
            if counter:
                remedy = f"step under `if ({done}) % n == 0 or {done} == len({loader}):`"
            node = step.call.node if step.call is not None else loop.node
            yield self.fact(file, node, Assessment.SHOULD_CHECK, text, remedy)
            for clear in (call for call in loop.function.calls if call.block.within(loop) and clears_gradients(call)):
                text = f"`{clear.path}()` runs for every batch; with accumulation it would discard those of the window"
                remedy = "call it right after the step, under the same test"
                yield self.fact(file, clear.node, Assessment.SHOULD_CHECK, text, remedy)

    def _scaled(self, file: FileTables, loop: Block, sent: Sequence[Call], step: Step) -> Iterator[Fact]:
        function = loop.function
        divisors = _divisors(step, loop)
        body = list(walk(loop.node))
        divides = [
            node
            for node in body
            if (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult))
            or (isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult))
        ]
        by_window = [
            node
            for node in divides
            if any(
                ast.unparse(node.right if isinstance(node, ast.BinOp) else node.value) == divisor
                for divisor in divisors
            )
            or _NUMBER.search(ast.unparse(node))
        ]
        for call in sent:
            paths = losses_of(call)
            own = [each for path in paths for each in function.assignments.get(path, ())]
            nodes = {part for each in own for part in (*walk(each.value), each.statement)} | set(walk(call.node))
            if any(node in nodes for node in by_window):
                yield self.fact(file, call.node, Assessment.FINE, "the loss is divided by the number of batches")
                continue
            if by_window or _SUMMED.search(file.text):
                continue
            is_far = not own and not any(node in nodes for node in divides)
            loss = ", ".join(sorted(paths)) or "the loss"
            shown = min(divisors) if divisors else "n"
            text = f"`{loss}` is not divided by `{shown}`, so the gradient is `{shown}` times that of one large batch"
            if not divisors:
                continue
            if is_far or any(node in nodes for node in divides):
                text = (
                    f"no division of `{loss}` by `{shown}` is in this function; without one the gradient is too large"
                )
                yield self.fact(
                    file, call.node, Assessment.SHOULD_CHECK, text, f"write `({loss} / {shown}).backward()`"
                )
            else:
                yield self.problem(file, call.node, text, _divided(loss, shown))

    def _window(self, file: FileTables, loop: Block, step: Step) -> Iterator[Fact]:
        """Yield how windows begin and end."""
        test = next(each for each in tests_around(step.block, loop) if _is_window(each))
        node = step.call.node if step.call is not None else test
        later = [
            call
            for call in loop.function.calls
            if call.tail == "step"
            and call.receiver == step.optimizer
            and call.line > (getattr(loop.node, "end_lineno", 0))
        ]
        counter, done, loader = _position(loop)
        is_own = is_periodic(test) and counter in {dotted(each) for each in walk(test) if isinstance(each, ast.Name)}
        if is_own and not _LAST.search(ast.unparse(test)) and not later and not isinstance(loop.node, ast.While):
            fate = "are lost" if _is_cleared_outside(loop) else "mix into the next epoch"
            text = f"batches after an epoch's last full window do not step; their gradients {fate}"
            remedy = f"write `if {ast.unparse(test)[:60]} or {done} == len({loader}):`"
            yield self.fact(file, test, Assessment.SHOULD_CHECK, text, remedy)
        if counter := _starts_early(test, loop):
            text = f"`{counter}` counts from 0, so the first step comes after one batch, not after a window"
            yield self.fact(file, node, Assessment.SHOULD_CHECK, text, f"test `({counter} + 1) % n == 0`")

    def _others(self, file: FileTables, loop: Block, step: Step) -> Iterator[Fact]:
        """Yield what runs for every batch and belongs to the step."""
        discarded = discarded_by(step, loop)
        for call in discarded:
            text = f"`{call.path}()` runs for every batch, so a step uses the gradients of its last batch alone"
            remedy = "call it right after the step, under the same test"
            yield self.problem(file, call.node, text, remedy)
        for call in (each for each in loop.function.calls if each.block.within(loop)):
            if any(_is_window(test) for test in tests_around(call.block, loop)) or call.block.loop is not loop:
                continue
            if call.tail in _CLIPPING and call.line < step.line:
                text = "this clips the sum after every batch, so early batches of a window lose weight"
                yield self.problem(file, call.node, text, "clip once, right before the step")
            elif call.tail == "update" and "scaler" in call.receiver.lower():
                text = "the scale changes within a window, so its gradients have different scales"
                yield self.problem(file, call.node, text, "update right after the step")
            elif call.tail == "step" and "sched" in call.receiver.lower() and not any(tests_around(call.block, loop)):
                text = f"`{call.receiver}` steps for every batch, though the optimizer steps once a window"
                remedy = "step it after the optimizer, unless its length counts batches"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)


def _periodic_step(loop: Block, index: ProjectIndex) -> Step | None:
    """Return the step that a loop takes only every so many batches; None if it steps for each."""
    inside = [step for step in steps(loop.function, index) if step.block.within(loop)]
    rare = [each for each in inside if any(_is_window(test) for test in tests_around(each.block, loop))]
    return rare[0] if rare and len(rare) == len(inside) and rare[0].optimizer else None


def _tests(step: Step, loop: Block) -> list[ast.expr]:
    """Return the tests around a step in a loop, those that look at the loss or at the scaler omitted."""
    return [each for each in tests_around(step.block, loop) if not _ASIDE.search(ast.unparse(each))]


def _is_cleared_outside(loop: Block) -> bool:
    """Return whether gradients are cleared each time that a loop begins or has ended."""
    around = loop.parent.loop if loop.parent else None
    clears = [call for call in loop.function.calls if clears_gradients(call) and not call.block.within(loop)]
    return any(call.block.loop is around and loop.within(call.block) for call in clears)


def _is_window(test: ast.expr) -> bool:
    """Return whether a test holds once a window: it takes a remainder, or names the length of the window."""
    return is_periodic(test) or _WINDOW.search(ast.unparse(test)) is not None


def _position(loop: Block) -> tuple[str, str, str]:
    """Return the counter of a loop over batches, the number of batches so far, and what it goes over, as written.

    All are empty without a counter.
    """
    node = loop.node
    if not (isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Tuple)):
        return "", "", ""
    first = _first_count(node.iter)
    rounds = dotted(node.iter.args[0]) if first is not None else ""
    counter = dotted(node.target.elts[0])
    if not rounds or "(" in rounds:
        return "", "", ""
    return counter, {0: f"{counter} + 1", 1: counter}.get(first or 0, f"{counter} - {(first or 0) - 1}"), rounds


def _first_count(rounds: ast.Call) -> int | None:
    """Return the number from which `enumerate` counts; None for other calls and for a number that is not known."""
    starts = [*rounds.args[1:], *(each.value for each in rounds.keywords if each.arg == "start")]
    if dotted(rounds.func) != "enumerate" or not rounds.args or len(starts) > 1:
        return None
    start = starts[0] if starts else ast.Constant(0)
    return start.value if isinstance(start, ast.Constant) and type(start.value) is int else None


def _divided(loss: str, number: str) -> str:
    return f"write `{loss} = {loss} / {number}` before it" if loss.isidentifier() else f"divide it by `{number}`"


def _divisors(step: Step, loop: Block) -> set[str]:
    """Return what the count of batches is divided by in the test around a step."""
    return {
        ast.unparse(node.right)
        for test in tests_around(step.block, loop)
        for node in walk(test)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
    }


def _starts_early(test: ast.expr, loop: Block) -> str:
    """Return the counter from 0 whose first value already steps; empty if there is none."""
    target = loop.node.target if isinstance(loop.node, ast.For) else None
    rounds = loop.node.iter if isinstance(loop.node, ast.For) else None
    is_counted = isinstance(rounds, ast.Call) and _first_count(rounds) == 0
    if not is_counted or not isinstance(target, ast.Tuple):
        return ""
    counter = dotted(target.elts[0])
    is_zero = (
        isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and ast.unparse(test.comparators[0]) == "0"
    )
    left = test.left if isinstance(test, ast.Compare) and is_zero else None
    is_bare = isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and dotted(left.left) == counter
    return counter if is_bare and counter else ""
