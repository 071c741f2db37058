"""ESP101: an optimizer steps on gradients that still hold those of earlier steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.frameworks import clears_gradients_itself, repeats_as_training_step
from esper_agents.review.model.uncleared_gradients import cleared_backwards, discarded_gradients, uncleared_steps
from esper_agents.review.rounds import parts_of_way, ways_to_loops
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.training import (
    Cleared,
    backward_calls,
    backward_calls_in,
    cleared_before,
    clearings,
    clears_for,
    closures_of,
    counts_rounds,
    discarded_by,
    inner_functions,
    is_cleared_now_and_then,
    is_lbfgs,
    is_one_object,
    reaches_clearing,
    steps,
    steps_in,
)

if TYPE_CHECKING:
    import ast
    from collections.abc import Collection, Iterator, Sequence

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.events import Frame
    from esper_agents.review.model.ir import SourcePosition
    from esper_agents.review.model.query import ModelEvent, ModelMatch
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function
    from esper_agents.review.training import Step

_REMEDY = "call `optimizer.zero_grad()` once for every `optimizer.step()`, in the same loop"


class GradientsNotCleared(Rule):
    """A loop that sends a loss backward and steps an optimizer, and nothing in it clears the gradients.

    ## Why it costs
    `.backward()` adds to `.grad`. Without clearing, every step follows the sum of all gradients since the start:
    training behaves as if the learning rate and the momentum grew with every step, and nothing says so.

    ## When it is right
    Gradients are gathered over several batches on purpose: then `zero_grad()` stands beside `step()`, in the loop
    that steps. It counts wherever in that loop it stands, also in a function that the loop calls, as does setting
    `.grad` to None. Where what is cleared may be another object than the one that steps, the loop is reported as a
    warning. Schedulers are no optimizers, whatever their names. Engines that clear by themselves (DeepSpeed) and a
    backward outside any loop are not reported, save in a step that one function makes together with its optimizer and
    hands back: it is there to be repeated.

    ## Sources
    PyTorch documentation of `torch.optim.Optimizer.zero_grad`, and its recipe "Zeroing out gradients in PyTorch".
    """

    code, name = "ESP101", "gradients-not-cleared"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = "for x, y in loader:\n    loss = criterion(model(x), y)\n    loss.backward()\n    optimizer.step()\n"
    good = (
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    loss = criterion(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield one hit for each optimizer in each loop, or function that a loop calls, whose steps never clear."""
        cleared = cleared_backwards(index)
        for function in dict.fromkeys(call.function for call in backward_calls(file)):
            taken = tuple(steps(function, index))
            seen: set[tuple[Block, str]] = set()
            for step in taken:
                where = _round_of(step)
                backward = _backward_before(step, where)
                if backward is None or (where, step.optimizer) in seen or _clears_anyway(step, where):
                    continue
                others = _others(step, taken, index)
                yield from self._discarded(step, where, others)
                seen.add((where, step.optimizer))
                if (file.path, backward.line) in cleared:
                    continue
                if where is function.block:
                    yield from self._in_step_function(backward, step, others, index)
                else:
                    yield from self._in_loop(backward, step, where, others, index)
            yield from self._thrown_away(taken, index)
            if not taken:
                yield from self._apart(function, index)
        for call in file.calls_ending("step"):
            yield from self._in_closure(call, index)

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield what adds to the gradients of an optimizer in each round of a loop in which nothing clears them."""
        for found in uncleared_steps(index):
            run, backward = found.run, found.backward
            yield self.model_match(
                run.place(backward, None),
                "gradients are added up over all steps: nothing in the loop that repeats this and "
                f"{found.step.text!r} clears them",
                remedy=_REMEDY,
                confidence=Confidence.HIGH,
                regions=(*run.regions(backward), *run.regions(found.step)),
            )

        for found in discarded_gradients(index):
            run, clear, step = found.run, found.backward, found.step
            decided = any(counts_rounds(*test) for test in _tests_on_the_way(step, index))
            if not decided or any(True for _ in _tests_on_the_way(clear, index)):
                continue
            yield self.model_match(
                run.place(clear, None),
                f"gradients are cleared in every round, but `{step.text}` runs only every so many: "
                "those of the rounds between are thrown away",
                remedy="clear them after the step, under the same condition",
                regions=run.regions(clear),
            )

    def _discarded(self, step: Step, loop: Block, others: Collection[str]) -> Iterator[RuleMatch]:
        """Yield what clears in every round where the step comes every so many: it was to gather gradients."""
        for clear in () if others else discarded_by(step, loop):
            yield self.hit(
                clear.node,
                f"gradients are cleared in every round, but `{clear.receiver}` steps only every so many: "
                "those of the rounds between are thrown away",
                remedy="call `optimizer.zero_grad()` after `optimizer.step()`, under the same condition",
                basis=SEEN,
            )

    def _apart(self, function: Function, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the backward of a function whose caller steps in the same loop, without clearing anywhere in it."""
        callers = [call for call in index.callers(function) if call.block.loop is not None]
        around = [function.block, *(loop for call in callers for loop in call.block.loops())]
        cleared = max(_cleared(each, index) for each in around)
        for call in callers if cleared is not Cleared.YES else ():
            if call.block.loop and function in index.callees(call) and steps_in(call.block.loop, index):
                yield self.hit(
                    backward_calls_in(function)[0].node,
                    "gradients are added up over all steps, because nothing in the loop that calls this "
                    f"({call.function.file.path}:{call.line}) and steps the optimizer clears them",
                    remedy=_REMEDY,
                    confidence=Confidence.MODERATE,
                    basis=_basis(cleared, FOLLOWED),
                    severity=_severity(cleared),
                )
                return

    def _in_closure(self, step: Call, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the backward of a closure that an optimizer runs again and again, and that never clears."""
        for closure in closures_of(step, index):
            repeats = is_lbfgs(step, index)
            around = step.block.loop or step.function.block
            is_once = step.block.loop is None and not repeats
            cleared = reaches_clearing(closure, index)
            if not repeats:
                cleared = max(cleared, _cleared(around, index))
            if is_once or cleared is Cleared.YES:
                continue
            yield self.hit(
                backward_calls_in(closure)[0].node,
                f"gradients are added up over all calls of {closure.name!r}, because it does not clear them",
                remedy="call `optimizer.zero_grad()` first thing in the closure",
                basis=_basis(cleared, SEEN),
                severity=_severity(cleared),
            )

    def _thrown_away(self, taken: Sequence[Step], index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what clears the gradients after the backward that made them and before the step that wants them."""
        for step in taken:
            if (
                step.call is None
                or not step.optimizer
                or (step.call.node.args and step.call.receiver == step.optimizer)
            ):
                continue
            for clear in cleared_before(step.call, step.optimizer, index):
                yield self.hit(
                    clear.node,
                    f"the gradients are thrown away between `backward()` and `{step.call.path}()`, which has none left",
                    remedy="write `optimizer.zero_grad()`, `loss.backward()` and `optimizer.step()`, in this order",
                    basis=SEEN,
                )

    def _in_loop(
        self, backward: Call, step: Step, loop: Block, others: Collection[str], index: ProjectIndex
    ) -> Iterator[RuleMatch]:
        cleared = _cleared(loop, index, step, others)
        if cleared is Cleared.YES and (others or not is_cleared_now_and_then(step, loop, index)):
            return
        outer = [each for each in loop.loops() if each is not loop]
        outside = any(_cleared(each, index, step, others) is Cleared.YES for each in outer)
        extra = ": `zero_grad` stands only in the loop around it" if outside else ""
        yield self.hit(
            backward.node,
            f"gradients are added up over all steps, because nothing in this loop clears them{extra}",
            remedy=_REMEDY,
            basis=_basis(cleared, SEEN),
            severity=_severity(cleared),
        )

    def _in_step_function(
        self, backward: Call, step: Step, others: Collection[str], index: ProjectIndex
    ) -> Iterator[RuleMatch]:
        function = backward.function
        cleared = _cleared(function.block, index, step, others)
        if cleared is Cleared.YES:
            return
        if repeats_as_training_step(function, index):
            yield self.hit(
                backward.node,
                f"gradients are added up over all steps: {function.qualname!r} takes them itself and never clears them",
                remedy=_REMEDY,
                basis=_basis(cleared, SEEN),
                severity=_severity(cleared),
            )
            return
        ways = ways_to_loops(function, step.optimizer, index)
        on_the_way = max((_cleared(part, index) for way in ways for part in parts_of_way(way)), default=Cleared.NO)
        if ways and on_the_way is not Cleared.YES:
            cleared = max(cleared, on_the_way)
            call = ways[0][-1]
            yield self.hit(
                backward.node,
                f"gradients are added up over all steps: neither {function.qualname!r} nor the loop that calls it "
                f"({call.function.file.path}:{call.line}) clears them",
                remedy=_REMEDY,
                confidence=Confidence.MODERATE,
                basis=_basis(cleared, FOLLOWED),
                severity=_severity(cleared),
            )
        elif _keeps_its_optimizer(step, index):
            yield self.hit(
                backward.node,
                f"gradients are added up over all calls of {function.qualname!r}: it alone has the optimizer, "
                "and never clears them",
                remedy=_REMEDY,
                confidence=Confidence.MODERATE,
                basis=f"{INFERRED}: a step that is made and handed back is there to be repeated",
                severity=_severity(cleared),
            )


def _tests_on_the_way(event: ModelEvent, index: ProjectIndex) -> Iterator[tuple[ast.expr, Function, int]]:
    """Yield the tests that decide about an event, in its function or about the calls that lead to it from a loop."""
    frame: Frame | None = event.frame
    at: SourcePosition | None = event.at
    while frame is not None and at is not None:
        calls = index.files[frame.code.file.path].calls
        call = next((each for each in calls if (each.line, each.node.col_offset + 1) == (at.line, at.column)), None)
        if call is not None:
            around = call.block.loop or call.function.block
            yield from ((test, call.function, call.line) for test in tests_around(call.block, around))
            if call.block.loop is not None:
                return
        at, frame = frame.call_at, frame.parent


def _others(step: Step, taken: Sequence[Step], index: ProjectIndex) -> set[str]:
    """Return the other optimizers that step in a function; one under two names is no other."""
    if not step.optimizer:
        return set()
    others = {each.optimizer: each for each in taken if each.optimizer not in {step.optimizer, ""}}
    return {name for name, each in others.items() if not is_one_object(step, each, index)}


def _round_of(step: Step) -> Block:
    """Return what a step repeats with: the nearest loop round it that holds a backward as well, else the function."""
    function = step.block.function
    loops = (loop for loop in step.block.loops() if _backward_before(step, loop) is not None)
    return next(loops, function.block)


def _backward_before(step: Step, around: Block) -> Call | None:
    """Return the last backward above a step in a block, else the first in the block."""
    found = [call for call in backward_calls_in(step.block.function) if call.block.within(around)]
    above = [call for call in found if call.line <= step.line]
    return above[-1] if above else next(iter(found), None)


def _keeps_its_optimizer(step: Step, index: ProjectIndex) -> bool:
    """Return whether a step is a function that nothing in sight calls, handed back by the one that made its optimizer.

    Nobody else has that optimizer then, so that nobody else can clear by it.
    """
    function = step.block.function
    maker = function.outer.function if function.outer is not None else None
    if maker is None or maker.is_module or step.optimizer not in maker.assignments or index.callers(function):
        return False
    returned = {name for statement, _ in maker.returns if statement.value for name in names_in(statement.value)}
    return function.name in returned and step.optimizer not in returned


def _clears_anyway(step: Step, around: Block) -> bool:
    """Return whether an engine clears by itself, or every round makes anew what it steps: that is a trial."""
    if step.call is not None and clears_gradients_itself(step.call):
        return True
    made = step.block.function.assignments.get(step.optimizer, ())
    is_loop = around is not step.block.function.block
    return is_loop and any(each.block.within(around) and not each.is_unpacked for each in made)


def _cleared(around: Block, index: ProjectIndex, step: Step | None = None, others: Collection[str] = ()) -> Cleared:
    """Return whether a block clears the gradients that a step uses; of any that it clears without a step."""
    most = Cleared.NO
    for each in (around.function, *inner_functions(around.function)):
        for found in clearings(each, index):
            if not found.block.within(around):
                continue
            if step is not None:
                most = max(most, clears_for(found, step, others, index))
            else:
                most = max(most, Cleared.YES if found.is_sure else Cleared.MAYBE)
    return most


def _severity(cleared: Cleared) -> Severity | None:
    """Return how much it matters: what may be cleared under another name is a warning."""
    return Severity.WARNING if cleared is Cleared.MAYBE else None


def _basis(cleared: Cleared, known: str) -> str:
    is_open = cleared is Cleared.MAYBE
    return f"{INFERRED}: what is cleared here is another object, as far as the files show" if is_open else known
