"""What a training step looks like: where gradients are made, used and cleared."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import is_periodic, tests_around
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.values import graphs_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.flow import Reach
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_BACKWARD = ("backward", "manual_backward")
_IN_PLACE = frozenset({"add_", "sub_"})
_CLEARING = pattern(r"(zero|clear|reset)_?(the_)?grad", re.IGNORECASE)
_OPTIMIZER = pattern(r"opt(im|imi[sz]er)?s?(_|\d|$)|optim|scaler|solver|adam|sgd", re.IGNORECASE)
_NO_NUMBER = pattern(r"isnan|isinf|isfinite")
_CAMEL = pattern(r"^opt[A-Z]")
_NOT_OPTIMIZER = pattern(r"sched|options?$", re.IGNORECASE)


def backward_calls(file: FileTables) -> Iterator[Call]:
    """Yield the calls that send a loss backward: `loss.backward()`, `accelerator.backward(loss)` and their like."""
    yield from file.once("backward calls", lambda: list(filter(is_backward, file.calls_ending(*_BACKWARD))))


def backward_calls_in(function: Function) -> list[Call]:
    """Return the calls of a function, those it defines left out, that send a loss backward."""
    return function.file.once(("backward calls", function), lambda: list(filter(is_backward, function.calls)))


def is_backward(call: Call) -> bool:
    """Return whether a call sends a loss backward; a `backward` that passes on to another is no such call."""
    is_plain = not isinstance(call.node.func, ast.Attribute)
    passes_on = is_plain or call.receiver == "super()" or call.function.name in _BACKWARD
    return call.tail in _BACKWARD and not passes_on


def loss_of(backward: Call) -> str:
    """Return the path of what a backward call sends backward; empty where it is no name."""
    first = backward.argument(0)
    if first is not None and backward.tail == "manual_backward":
        return dotted(first)
    if first is not None and re.search(r"accelerator|fabric|engine|booster", backward.receiver):
        return dotted(first)
    if backward.receiver.endswith(".scale()") and isinstance(backward.node.func, ast.Attribute):
        scaled = backward.node.func.value
        return dotted(scaled.args[0]) if isinstance(scaled, ast.Call) and scaled.args else ""
    return backward.receiver


def losses_of(backward: Call) -> set[str]:
    """Return the paths of what a backward call sends backward: both names of `(a + b).backward()`."""
    found = loss_of(backward)
    if found and "(" not in found:
        return {found}
    sent = backward.node.func.value if isinstance(backward.node.func, ast.Attribute) else None
    if isinstance(sent, ast.Call) and tail_of(dotted(sent.func)) == "scale" and sent.args:
        sent = sent.args[0]
    elif backward.argument(0) is not None and re.search(r"accelerator|fabric|engine|booster|^self$", backward.receiver):
        sent = backward.argument(0)
    paths = graphs_in(sent) if sent is not None else set()
    return {each for each in paths if each in backward.function.assignments} or paths


def innermost_training_loops(file: FileTables) -> dict[Block, list[Call]]:
    """Return each loop that itself sends a loss backward, inner loops aside, with the calls that do it."""
    return file.once("innermost training loops", lambda: _innermost_training_loops(file))


def _innermost_training_loops(file: FileTables) -> dict[Block, list[Call]]:
    found: dict[Block, list[Call]] = {}
    for call in backward_calls(file):
        if call.block.loop is not None:
            found.setdefault(call.block.loop, []).append(call)
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """A place where gradients are used up: an optimizer steps, or parameters are changed by hand.

    Attributes:
        call: The call, where it is one.
        block: Where it stands.
        line: The line.
        optimizer: The optimizer, as written; empty for an update by hand.
    """

    call: Call | None
    block: Block
    line: int
    optimizer: str


def steps(function: Function, index: ProjectIndex) -> Iterator[Step]:
    """Yield the steps that a function itself takes."""
    for call in function.calls:
        if is_optimizer_step(call, index):
            handed = call.argument(0) if "scaler" in call.receiver.lower() else None
            optimizer = call.receiver if handed is None else dotted(handed)
            yield Step(call, call.block, call.line, optimizer)
        elif call.tail in _IN_PLACE and any(_reads_grad(each) for each in (*call.node.args, *call.node.keywords)):
            yield Step(None, call.block, call.line, "")
    for target, assignments in function.assignments.items():
        for each in assignments:
            if each.is_augmented and "grad" not in target and _reads_grad(each.value):
                yield Step(None, each.block, each.line, "")


def _reads_grad(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "grad" for each in walk(node))


def is_optimizer_step(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call lets an optimizer use the gradients."""
    if call.tail != "step" or not call.receiver:
        return False
    last = tail_of(call.receiver)
    if _NOT_OPTIMIZER.search(last):
        return False
    if _OPTIMIZER.search(last) or _CAMEL.search(last) or _is_drawn_from_optimizers(call):
        return True
    found = index.binding(call.receiver, call.function, call.line)
    if found is None or not isinstance(found.value, ast.Call):
        return False
    made_by = _made_by(found.value, call)
    return ".optim." in f".{made_by}" or made_by in {"self.optimizers", "self.configure_optimizers"}


def _is_drawn_from_optimizers(call: Call) -> bool:
    """Return whether a loop draws what a method is called on from what is named for optimizers."""
    around = (each for each in call.block.loops() if call.receiver in each.targets)
    return any(
        isinstance(each.node, ast.For) and _OPTIMIZER.search(tail_of(dotted(each.node.iter).removesuffix(".values()")))
        for each in around
    )


def closures_of(step: Call, index: ProjectIndex) -> Iterator[Function]:
    """Yield the function of these files that a `step(closure)` runs, where it sends a loss backward."""
    handed = step.argument(0, "closure")
    found = index.local_function(dotted(handed), step.function) if handed is not None else None
    if found is not None and backward_calls_in(found):
        yield found


def is_lbfgs(step: Call, index: ProjectIndex) -> bool:
    """Return whether an optimizer runs its closure several times in each step."""
    found = index.binding(step.receiver, step.function, step.line)
    return found is not None and isinstance(found.value, ast.Call) and tail_of(dotted(found.value.func)) == "LBFGS"


def steps_in(block: Block, index: ProjectIndex) -> bool:
    """Return whether an optimizer steps in a block, directly or in a function that it surely calls."""
    inside = [call for call in block.function.calls if call.block.within(block)]
    return any(
        is_optimizer_step(call, index) or any(next(steps(each, index), None) for each in index.callees(call))
        for call in inside
    )


def discarded_by(step: Step, loop: Block) -> list[Call]:
    """Return what clears gradients in every round of a loop whose optimizer steps only every so many rounds."""
    if step.call is None or not any(is_periodic(test) for test in tests_around(step.block, loop)):
        return []
    inside = [call for call in loop.function.calls if call.block.within(loop)]
    sent = [call for call in inside if is_backward(call)]
    clears = [call for call in inside if call.tail == "zero_grad" and call.receiver == step.optimizer]
    whole = [call for call in (*sent, *clears) if call.block.loop is loop and not any(tests_around(call.block, loop))]
    return clears if clears and sent and len(whole) == len(sent) + len(clears) else []


def is_cleared_now_and_then(step: Step, loop: Block, index: ProjectIndex) -> bool:
    """Return whether an optimizer steps in every round, while gradients are cleared in some only."""
    if step.call is None or any(tests_around(step.block, loop)) or step.block.loop is not loop:
        return False
    inside = [call for call in loop.function.calls if call.block.within(loop)]
    clears = [call for call in inside if clears_gradients(call)]
    others = [call for call in inside if call.tail != "step" and call not in clears and not is_backward(call)]
    if any(reaches_clearing(each, index) for call in others for each in index.possible_callees(call)):
        return False
    if not clears or cleared_by_assignment(loop.function) or not all(_is_rare(each.block, loop) for each in clears):
        return False
    return step.call in index.flow(loop.function).first_after(step.call, [*clears, step.call]).events


def _is_rare(block: Block, loop: Block) -> bool:
    """Return whether a block runs every so many rounds, or only where a loss is no number."""
    if any(each.kind is BlockKind.EXCEPT for each in block.chain() if each.within(loop)):
        return True
    return any(is_periodic(test) or _NO_NUMBER.search(ast.unparse(test)) for test in tests_around(block, loop))


def _made_by(value: ast.Call, call: Call) -> str:
    path = dotted(value.func)
    root = path.partition(".")[0]
    return call.function.file.imports.get(root, root) + path[len(root) :]


def clears_gradients(call: Call) -> bool:
    """Return whether a call's own name says that it clears gradients: `zero_grad`, `p.grad.zero_`."""
    if _CLEARING.search(call.tail):
        return True
    return call.tail in {"zero_", "fill_", "_foreach_zero_"} and "grad" in (call.receiver or dotted_arguments(call))


def dotted_arguments(call: Call) -> str:
    """Return the paths of a call's plain arguments, joined."""
    return " ".join(dotted(each) for each in call.node.args)


def cleared_by_assignment(function: Function) -> list[Block]:
    """Return the blocks in which a function assigns to a `.grad`."""
    return [
        each.block
        for path, assignments in function.assignments.items()
        if path.endswith(".grad")
        for each in assignments
        if not each.is_augmented
    ]


def reaches_clearing(function: Function, index: ProjectIndex) -> bool:
    """Return whether a function clears gradients, itself or through what it calls."""
    return any(_CLEARING.search(tail) for tail in index.reached(function)) or bool(cleared_by_assignment(function))


def cleared_before(step: Call, optimizer: str, index: ProjectIndex) -> list[Call]:
    """Return the calls that clear an optimizer's gradients after they were made and before it steps, on every way.

    Empty where some way leads from a backward to the step without one.
    """
    function, flow = step.function, index.flow(step.function)
    clears = [call for call in function.calls if call.tail == "zero_grad" and call.receiver == optimizer]
    if not clears:
        return []
    made = [call for call in function.calls if is_backward(call) or may_send_backward(call, index)]
    nearest = flow.last_before(step, [*clears, *made])
    last = [call for call in clears if call in nearest.events]
    if nearest.is_open or len(last) != len(nearest.events):
        return []
    stepping = [call for call in function.calls if call.tail == "step" and call.receiver == step.receiver]
    before = [flow.last_before(call, [*made, *stepping]) for call in last]
    comes_late = any(
        is_backward(call) and call.line > step.line and call.block.loop is step.block.loop for call in made
    )
    return last if last and all(_are_made(each, made, comes_late=comes_late) for each in before) else []


def _are_made(reach: Reach, made: list[Call], *, comes_late: bool) -> bool:
    """Return whether what was made last is gradients, be it in the round before."""
    is_sure = comes_late or (bool(reach.events) and not reach.is_open)
    return is_sure and all(each in made for each in reach.events)


def may_send_backward(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call may send a loss backward in a function of these files."""
    return any("backward" in index.reached(each) for each in index.possible_callees(call))
