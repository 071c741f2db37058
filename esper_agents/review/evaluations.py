"""Where a model is evaluated: its outputs are measured, kept or shown, and nothing is trained on them."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import is_now_and_then, names_in, tests_around
from esper_agents.review.model_parts import parts_called_outside
from esper_agents.review.models import forward_calls, forward_calls_in, gradients_off_around, is_evaluating
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.tables import Purpose
from esper_agents.review.training import backward_calls_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

# What runs a model without gradients and measures nothing: it gathers experience or statistics, or what training needs.
_FOR_TRAINING = pattern(
    r"rollout|explor|experience|trajector|bn_|_bn|calibrat|warm_?up|teacher|target|dropout|monte|mc_|uncertain|pseudo"
    r"|\bstep\b|train|feature|embed|act\b|action|ema\b|label|distill|precise|profile|bench|trace|replay"
)
# Models that stand beside the one that is trained.
_ASIDE = pattern(r"teacher|target|ema(?![a-z])|momentum")
# What a function is called that shows what a model can do.
_SHOWING = pattern(
    r"(?:^|_)(?:predict\w*|infer|inference|generate\w*|sample\w*|translate\w*|decode|test|score\w*|accuracy|eval|evaluate"
    r"|evaluation|val|validate|validation|visuali[sz]e|plot|show|demo|reconstruct\w*|classify|caption|transcribe|answer"
    r"|complete|recogni[sz]e|denoise|estimate|check|measure|report|metrics?|perplexity)(?:_|$)"
)
# Models whose single outputs in training mode are usual: generators of images, and what acts in an environment.
_ACTING = pattern(
    r"(?:net)?_?G(?:_\w+)?$|gen(?:erator)?$|policy|actor|critic|agent|^pi$|^q_?\w*|value|target|teacher|ema"
)
_HELD_OUT = pattern(r"(?<![a-z])(?:val|valid|validation|test|te|dev|holdout|heldout|held|eval)(?![a-z])", re.IGNORECASE)
_BATCHES = pattern(r"loader|batch|data(?!_?parallel)|split|held", re.IGNORECASE)
_MEASURING = frozenset(
    {
        "argmax",
        "item",
        "topk",
        "tolist",
        "accuracy",
        "f1_score",
        "accuracy_score",
        "roc_auc_score",
        "eq",
        "max",
        "numpy",
    }
)
_AVERAGING = frozenset({"mean", "sum"})
_KEEPING = frozenset({"append", "extend", "update", "add_batch"})


def is_evaluation(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call runs a model to measure it, to keep what it says of data, or to show it."""
    loop = call.block.loop
    if loop is not None and (_repeats_itself(call, loop) or _is_step(call)):
        return False
    if is_evaluating(call, loop or call.function.block, index) and not _ACTING.search(tail_of(_model(call))):
        return loop is not None or not _is_called_to_train(call, index)
    if not gradients_off_around(call.block, index) or call.function.file.purpose is Purpose.TEST:
        return False
    if _FOR_TRAINING.search(f"{call.function.qualname} {_data(loop)}") or _ASIDE.search(call.path):
        return False
    return _goes_over_data(call, loop) or _is_shown(call, index)


def _model(call: Call) -> str:
    return call.receiver if call.tail == "forward" else call.path


def _data(loop: Block | None) -> str:
    """Return what a loop goes over, as text."""
    node = loop.node if loop is not None else None
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return ast.unparse(node.generators[0].iter)
    return ast.unparse(node.iter) if isinstance(node, ast.For) else ""


def _goes_over_data(call: Call, loop: Block | None) -> bool:
    """Return whether a loop over data makes numbers, classes or scores of a model's outputs, or gathers them."""
    if loop is None or not _data(loop) or ("range(" in _data(loop) and not _cuts_batches(loop)):
        return False
    if not isinstance(loop.node, ast.For):
        return len(call.node.args) + len(call.node.keywords) > 0 and _BATCHES.search(_data(loop)) is not None
    if any(each.tail in _MEASURING | _KEEPING and each.block.within(loop) for each in call.function.calls):
        return True
    return not _is_trained_in(loop, call.function) and any(
        _adds_up(assignment) and assignment.block.within(loop)
        for path, assignments in call.function.assignments.items()
        for assignment in assignments
        if path.isidentifier()
    )


def _cuts_batches(loop: Block) -> bool:
    """Return whether a loop takes data batch by batch: `for start in range(0, len(texts), 32)`."""
    over = loop.node.iter if isinstance(loop.node, ast.For) else None
    sizes = ("len(", ".shape", ".size(")
    is_stepped = isinstance(over, ast.Call) and dotted(over.func) == "range" and len(over.args) == 3  # noqa: PLR2004 - start, end, step
    return is_stepped and isinstance(over, ast.Call) and any(size in ast.unparse(over.args[1]) for size in sizes)


def _adds_up(found: Assignment) -> bool:
    """Return whether a name gathers something over the rounds: `total += ...`, `total = total + ...`."""
    if isinstance(found.value, ast.Constant) or found.is_unpacked:
        return False
    if found.is_augmented:
        return True
    parts = [found.value.left, found.value.right] if isinstance(found.value, ast.BinOp) else []
    return any(dotted(part) == found.target for part in parts)


def _is_shown(call: Call, index: ProjectIndex) -> bool:
    """Return whether a single output is one of held-out data, or of a function that shows what a model can do."""
    function = call.function
    if _ACTING.search(tail_of(_model(call))):
        return False
    given = {name for each in (*call.node.args, *call.node.keywords) for name in names_in(each)}
    if any(_HELD_OUT.search(each) for each in given):
        return True
    if _SHOWING.search(function.name):
        return not any(_is_step(caller) for caller in index.callers(function) if caller.block.loop)
    if _is_error(function):
        return not any(_is_step(caller) for caller in index.callers(function) if caller.block.loop)
    # What a step asks of a model before its own backward is a part of its loss: a bootstrapped target.
    comes_after = any(each.line < call.line for each in backward_calls_in(function)) and not any(
        _is_trained_in(loop, function) for loop in call.block.loops()
    )
    return comes_after and any(
        each.tail in _MEASURING and each.block.within(_unbranched(call.block)) and each.line >= call.line
        for each in function.calls
    )


def _is_error(function: Function) -> bool:
    """Return whether a function gives back how far outputs are from what they should be: a mean of a comparison."""
    return bool(function.returns) and all(
        statement.value is not None
        and any(
            isinstance(each, ast.Call) and tail_of(dotted(each.func)) in _AVERAGING for each in walk(statement.value)
        )
        and any(_sets_against(each) for each in walk(statement.value))
        for statement, _ in function.returns
    )


def _sets_against(node: ast.AST) -> bool:
    """Return whether an expression holds one tensor against another: `a == b`, `a - b`."""
    if isinstance(node, ast.Compare):
        return isinstance(node.ops[0], ast.Eq | ast.NotEq) and not isinstance(node.comparators[0], ast.Constant)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and not isinstance(node.left, ast.Constant)


def _unbranched(block: Block) -> Block:
    """Return the `with` that a block is; else itself."""
    return next((each for each in block.chain() if each.kind is BlockKind.WITH), block)


def _is_trained_in(loop: Block, function: Function) -> bool:
    return any(each.block.within(loop) for each in backward_calls_in(function))


def _is_step(call: Call) -> bool:
    """Return whether a call is a part of every step that sends a loss backward, on the data of that step."""
    around = call.block.loop or call.function.block
    backwards = [each for each in backward_calls_in(call.function) if each.block.loop is call.block.loop]
    if not backwards or is_now_and_then(call.block, around):
        return False
    if is_switched(call.block) and all(any(tests_around(backward.block, around)) for backward in backwards):
        return False
    given = {name for each in (*call.node.args, *call.node.keywords) for name in names_in(each)}
    return not any(_HELD_OUT.search(each) for each in given)


def _is_called_to_train(call: Call, index: ProjectIndex) -> bool:
    """Return whether what a function makes of a model is for training, or is asked for in training steps."""
    function = call.function
    return _FOR_TRAINING.search(function.name) is not None or any(
        _is_step(caller) for caller in index.callers(function)
    )


def is_switched(block: Block) -> bool:
    """Return whether a variable decides if gradients are on in a block: it may train, and may evaluate."""
    items = [item.context_expr for each in block.chain() if isinstance(each.node, ast.With) for item in each.node.items]
    return any(
        isinstance(each, ast.Call)
        and tail_of(dotted(each.func)) == "set_grad_enabled"
        and not any(isinstance(value, ast.Constant) for value in (*each.args, *(one.value for one in each.keywords)))
        for each in items
    )


def _repeats_itself(call: Call, loop: Block) -> bool:
    """Return whether a loop gives a model the same again and again: what differs is the noise, and that is wanted."""
    given = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
    if _is_trained_in(loop, call.function) or any(
        isinstance(each, ast.Call) for value in given for each in walk(value)
    ):
        return False
    bound = {root_of(target) for target in loop.targets} | {
        root_of(path)
        for path, assignments in call.function.assignments.items()
        if any(assignment.block.within(loop) for assignment in assignments)
    }
    return not any(root_of(name) in bound for value in given for name in names_in(value))


def parts_run_by(file: FileTables, index: ProjectIndex) -> Iterator[Call]:
    """Yield the calls of a model's parts: in functions that are handed it, and in methods that show what it can do."""
    yield from parts_called_outside(file, index)
    for function in file.functions:
        if function.owner is None or not _SHOWING.search(function.name) or not index.is_module(function.owner):
            continue
        for call in function.calls:
            is_part = call.path.startswith("self.") and not call.path.endswith(")") and call.path.count(".") == 1
            if is_part and any(callee.name == "forward" for callee in index.callees(call)):
                yield call


def runs_of_models(call: Call, index: ProjectIndex) -> Iterator[Call]:
    """Yield the calls of models, with gradients as the caller has them, in the functions that a call surely reaches."""
    if call.tail in index.once("names that run models", lambda: _names_that_run(index)):
        for called in index.callees(call):
            yield from (each for each in forward_calls_in(called, index) if each.block.loop is None)


def _names_that_run(index: ProjectIndex) -> frozenset[str]:
    return frozenset(call.function.name for file in index.files.values() for call in forward_calls(file, index))
