"""ESP224: gradients of several batches are added up, and the loss is not divided by their number."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import is_periodic, tests_around
from esper_agents.review.frameworks import repeats_as_training_step
from esper_agents.review.host_batches import names_loader
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.training import backward_calls_in, clears_gradients, losses_of, makers, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function
    from esper_agents.review.training import Step

_WINDOW = pattern(r"(?i)accum|grad_acc|micro_?(?:batch|step)|virtual_batch|iter_size")
# Engines that divide the loss themselves.
_DIVIDING = pattern(r"(?i)accelerator|engine|booster|deepspeed")
_SUMMED = pattern(r"reduction\s*=\s*['\"](?:sum|none)['\"]|\.sum\(|size_average")
_SCALED = pattern(r"(?i)(?:^|_|\.)(?:lr|learning_rate|rate|loss|losses|grads?|gradients?|g)(?:_|\d|$|\[|\.)")
_FACTOR = pattern(r"(?i)scale|inv|norm|frac|ratio|accum|coef|factor|micro")
_CHANGED = frozenset({"div_", "mul_", "_foreach_div_", "_foreach_mul_", "_foreach_div", "_foreach_mul"})
_CLIPPING = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"})
# The size of a step of these hardly depends on the size of gradients.
_ADAPTIVE = pattern(r"torch\.optim\.(?:Adam|AdamW|NAdam|RAdam|Adamax|RMSprop|Adagrad|Adadelta)")
_MEANS = pattern(
    r"(?:cross_entropy|binary_cross_entropy(?:_with_logits)?|mse_loss|nll_loss|l1_loss|smooth_l1_loss|huber_loss|mean)"
)


@dataclass(frozen=True, slots=True)
class _Window:
    """Batches whose gradients are added up.

    Attributes:
        sent: The call that sends the loss of one batch backward.
        step: The step after the last of them.
        number: How many batches they are, as written.
        around: The block that runs once a batch.
    """

    sent: Call
    step: Step
    number: str
    around: Block


class AccumulationNotDivided(Rule):
    """Gradients that are accumulated over several batches from losses that are each a mean of one batch.

    ## Why it costs
    Gradients add up. Over four batches the sum is four times the gradient of one large batch, so that SGD takes steps
    four times as large, weight decay and clipping count for a quarter, and a learning rate tuned without accumulation
    is wrong with it.

    ## When it is right
    The loss is a sum, it is divided by a number of samples or tokens, or the learning rate is divided instead: none of
    these is reported. Adam and its kind divide by the size of the gradients; without clipping it is a suggestion there.

    ## Sources
    PyTorch documentation of `torch.amp`, "Gradient accumulation": `loss = loss / iters_to_accumulate`.
    """

    code, name = "ESP224", "accumulation-not-divided"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "import torch.nn.functional as F\n"
        "\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step, (x, y) in enumerate(loader):\n"
        "    loss = F.cross_entropy(model(x), y)\n"
        "    loss.backward()\n"
        "    if (step + 1) % accumulation_steps == 0:\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()\n"
    )
    good = bad.replace("F.cross_entropy(model(x), y)", "F.cross_entropy(model(x), y) / accumulation_steps")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the losses of windows that nothing divides."""
        for function in file.functions:
            done: set[str] = set()
            for window in _windows(function, index):
                losses = losses_of(window.sent)
                shown = ", ".join(sorted(losses)) or ast.unparse(window.sent.node)
                if shown not in done and not _is_scaled(window, losses, index):
                    done.add(shown)
                    yield self._found(window, losses, index)

    def _found(self, window: _Window, losses: set[str], index: ProjectIndex) -> RuleMatch:
        loss = min(losses, default="the loss")
        number = window.number
        is_mean = any(_MEANS.fullmatch(tail_of(name)) for name in _names_of(window, losses))
        is_weak = _is_adaptive(window, index)
        because = "; Adam and its kind divide by the size of gradients" if is_weak else ""
        return self.hit(
            window.sent.node,
            f"gradients of `{number}` batches add up before the step (line {window.step.line}), and {loss!r} is not "
            f"divided: they are `{number}` times those of one large batch",
            remedy=f"write `({loss} / {number}).backward()`" if losses else f"divide the loss by `{number}`",
            confidence=Confidence.HIGH if is_mean and not is_weak else Confidence.MODERATE,
            basis=(SEEN if is_mean else FOLLOWED) + because,
            severity=Severity.SUGGESTION if is_weak else None,
        )


def _windows(function: Function, index: ProjectIndex) -> Iterator[_Window]:
    """Yield the losses that a function sends backward more often than it steps."""
    sent = [call for call in backward_calls_in(function) if _is_plain(call)]
    taken = [step for step in steps(function, index) if step.call is not None] if sent else []
    for call in sent:
        around = call.block.loop or function.block
        inside = [step for step in taken if step.block.within(around)]
        if inside:
            yield from _tested(call, around, inside, index)
        elif call.block.loop is not None:
            yield from _followed(call, call.block.loop, taken)


def _tested(call: Call, around: Block, inside: list[Step], index: ProjectIndex) -> Iterator[_Window]:
    """Yield the window of a step under a test: `if (i + 1) % n == 0`."""
    tests = [[test for test in tests_around(step.block, around) if _is_window(test)] for step in inside]
    is_sent_rarely = any(_is_window(test) for test in tests_around(call.block, around))
    if not all(tests) or is_sent_rarely or len({step.optimizer for step in inside}) != 1:
        return
    test = tests[0][0]
    number = _divisor(test)
    over = around.node.iter if isinstance(around.node, ast.For) else None
    is_of_batches = over is not None and names_loader(over)
    is_window = is_of_batches or _WINDOW.search(ast.unparse(test)) or repeats_as_training_step(call.function, index)
    if number and is_window and not _clears_each(around):
        yield _Window(call, inside[0], number, around)


def _followed(call: Call, loop: Block, taken: list[Step]) -> Iterator[_Window]:
    """Yield the window of a loop over parts of a batch, with the step after it."""
    node = loop.node
    over = node.iter if isinstance(node, ast.For) else None
    number = ""
    if isinstance(over, ast.Call) and dotted(over.func) == "range" and len(over.args) == 1:
        number = ast.unparse(over.args[0])
    elif isinstance(over, ast.Call) and tail_of(dotted(over.func)) == "chunk":
        given = over.args[-1] if over.args else None
        number = ast.unparse(given) if given is not None else ""
    last = getattr(node, "end_lineno", 0)
    after = [step for step in taken if step.line > last and loop.within(step.block) and loop.parent is step.block]
    is_cleared = any(clears_gradients(each) and each.block.within(loop) for each in loop.function.calls)
    if over is not None and number and _WINDOW.search(ast.unparse(over)) and after and not is_cleared:
        yield _Window(call, after[0], number, loop)


def _is_plain(call: Call) -> bool:
    """Return whether a backward sends what it is called on, or is Lightning's, and no engine divides the loss."""
    return call.tail in {"backward", "manual_backward"} and _DIVIDING.search(call.receiver) is None


def _is_window(test: ast.expr) -> bool:
    return is_periodic(test) and bool(_divisor(test))


def _divisor(test: ast.expr) -> str:
    """Return what a count is divided by in a test; empty without one, and for 1."""
    for node in walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            shown = ast.unparse(node.right)
            return "" if shown == "1" else shown
    return ""


def _clears_each(around: Block) -> bool:
    """Return whether gradients are cleared for every batch."""
    calls = [call for call in around.function.calls if call.block.within(around) and clears_gradients(call)]
    return any(not any(_is_window(test) for test in tests_around(call.block, around)) for call in calls)


def _is_scaled(window: _Window, losses: set[str], index: ProjectIndex) -> bool:
    """Return whether anything divides the loss, the gradients or the learning rate; in doubt yes."""
    function = window.sent.function
    values = _values_of(window, losses)
    called = {each for call in function.calls if _is_outermost(call, values) for each in index.callees(call)}
    code = [*values, *(each.node for callee in called for each in index.closure(callee))]
    if any(_SUMMED.search(ast.unparse(each)) for each in code):
        return True
    if any(_divides(node) for callee in called for node in walk(callee.node)):
        return True
    if any(_SUMMED.search(ast.unparse(made)) for made in _makers_of_losses(values, window, index)):
        return True
    if any(_divides(node) for value in values for node in walk(value)):
        return True
    if any(call.tail in _CHANGED for call in function.calls) or any("grad" in path for path in function.assignments):
        return True
    number = tail_of(window.number)
    files = [file for file in index.files.values() if number in file.text]
    return any(_scales(node, number) for file in files for node in walk(file.tree))


def _values_of(window: _Window, losses: set[str]) -> list[ast.AST]:
    """Return the expressions that a loss is made of, in the function."""
    function = window.sent.function
    found: list[ast.AST] = [window.sent.node]
    names, edge = set(losses), set(losses)
    while edge:
        own = [each for name in edge for each in function.assignments.get(name, ())]
        own = [each for each in own if each.line <= window.sent.line or each.block.within(window.around)]
        found += [each.statement for each in own if not isinstance(each.statement, ast.For)]
        edge = {name for each in own for name in _operands(each.value)} - names
        names |= edge
    return found


def _names_of(window: _Window, losses: set[str]) -> set[str]:
    return {
        dotted(node.func) for value in _values_of(window, losses) for node in walk(value) if isinstance(node, ast.Call)
    }


def _operands(value: ast.expr) -> Iterator[str]:
    """Yield the names that a value adds, multiplies or passes through a method."""
    match value:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            yield dotted(value)
        case ast.BinOp(left=left, right=right):
            yield from _operands(left)
            yield from _operands(right)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _operands(body)
            yield from _operands(orelse)
        case ast.Call(func=ast.Attribute(value=inner)):
            yield from _operands(inner)
        case _:
            pass


def _is_outermost(call: Call, values: list[ast.AST]) -> bool:
    """Return whether a call makes a loss, and not an argument of the call that does."""
    return not isinstance(call.parent, ast.Call) and any(call.node is node for value in values for node in walk(value))


def _makers_of_losses(values: list[ast.AST], window: _Window, index: ProjectIndex) -> Iterator[ast.expr]:
    """Yield the calls that made the losses that are called: `nn.CrossEntropyLoss(reduction=...)`."""
    function = window.sent.function
    for node in (each for value in values for each in walk(value) if isinstance(each, ast.Call)):
        for origin in index.origins(node.func, function, node.lineno):
            if isinstance(origin.value, ast.Call):
                yield origin.value


def _divides(node: ast.AST) -> bool:
    """Return whether a part of a loss divides by what is no constant, or multiplies by a factor."""
    match node:
        case ast.BinOp(op=ast.Div(), right=right) | ast.AugAssign(op=ast.Div(), value=right):
            return not isinstance(right, ast.Constant) or right.value not in {1, 2}
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return any(_is_factor(each) for each in (left, right))
        case ast.AugAssign(op=ast.Mult(), value=value):
            return _is_factor(value) or isinstance(value, ast.Constant)
        case ast.Call(func=ast.Attribute(attr="div" | "mul" | "div_" | "mul_" | "true_divide")):
            return True
        case _:
            return False


def _is_factor(value: ast.expr) -> bool:
    return isinstance(value, ast.BinOp | ast.Name | ast.Attribute) and _FACTOR.search(ast.unparse(value)) is not None


def _scales(node: ast.AST, number: str) -> bool:
    """Return whether an expression divides a loss, a gradient, a rate or 1 by the number of batches."""
    match node:
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            shown = ast.unparse(left)
            is_meant = isinstance(left, ast.Constant) or _SCALED.search(shown) or "loss" in shown or "lr" in shown
            return tail_of(ast.unparse(right)) == number and bool(is_meant)
        case ast.AugAssign(target=target, op=ast.Div(), value=value):
            return tail_of(ast.unparse(value)) == number and "step" not in ast.unparse(target)
        case _:
            return False


def _is_adaptive(window: _Window, index: ProjectIndex) -> bool:
    """Return whether the optimizer surely is one of Adam's kind, and nothing clips gradients."""
    call = window.step.call
    held = call.node.func.value if call is not None and isinstance(call.node.func, ast.Attribute) else None
    if call is None or held is None or any(each.tail in _CLIPPING for each in call.function.calls):
        return False
    first = call.argument(0)
    origins = makers(
        first if first is not None and "scaler" in call.receiver.lower() else held, call.function, call.line, index
    )
    names = [
        resolve(dotted(each.value.func), each.function) if isinstance(each.value, ast.Call) else "" for each in origins
    ]
    return bool(names) and all(_ADAPTIVE.fullmatch(name) for name in names)
