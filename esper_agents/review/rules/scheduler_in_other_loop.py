"""ESP228: a learning rate scheduler that counts epochs is stepped for each batch, or the other way round."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import is_periodic, tests_around
from esper_agents.review.index import argument_for
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.training import is_optimizer_step, makers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_SCHEDULERS = ("torch.optim.lr_scheduler.", "transformers.")
# The argument that says how many steps a schedule lasts, with its position.
_LENGTHS = {
    "CosineAnnealingLR": ("T_max", 1),
    "LinearLR": ("total_iters", 3),
    "PolynomialLR": ("total_iters", 1),
    "OneCycleLR": ("total_steps", 2),
    "get_linear_schedule_with_warmup": ("num_training_steps", 2),
    "get_cosine_schedule_with_warmup": ("num_training_steps", 2),
}
# The argument that says after how many steps a schedule decays; a number of epochs is much smaller than one of batches.
_DECAYS = {"StepLR": ("step_size", 1), "MultiStepLR": ("milestones", 1), "ExponentialLR": ("gamma", 1)}
_FEW, _FAST = 100, 0.99


@dataclass(frozen=True, slots=True)
class _Stepping:
    """A step of a scheduler.

    Attributes:
        call: The call.
        epochs: The loop over epochs around it, in its own function or in that of the caller.
        is_per_batch: Whether it stands in a loop inside of that loop.
    """

    call: Call
    epochs: Block
    is_per_batch: bool


class SchedulerInOtherLoop(Rule):
    """A scheduler made for a number of epochs and stepped in every batch, or made for all batches and stepped by epoch.

    ## Why it costs
    The schedule runs at another speed than planned. A cosine over 50 epochs that is stepped in every batch is at its
    end after 50 batches, and then rises again; a one-cycle schedule over all batches that is stepped once an epoch
    never leaves its warm-up. Nothing raises: the model trains with a wrong learning rate.

    ## When it is right
    The number that the scheduler was made with counts the calls of `scheduler.step()`. Reported only if it is the
    very expression that bounds the loop over epochs, or if it is computed from the length of the loader.

    ## Sources
    PyTorch documentation of `torch.optim.lr_scheduler.CosineAnnealingLR` (`T_max`) and of `OneCycleLR`, which says
    that its step is to be called after each batch.
    """

    code, name = "ESP228", "scheduler-in-other-loop"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, loader, epochs):\n"
        "    optimizer = torch.optim.Adam(model.parameters())\n"
        "    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)\n"
        "    for epoch in range(epochs):\n"
        "        for x, y in loader:\n"
        "            optimizer.zero_grad()\n"
        "            torch.nn.functional.mse_loss(model(x), y).backward()\n"
        "            optimizer.step()\n"
        "            scheduler.step()\n"
    )
    good = bad.replace("            scheduler.step()\n", "        scheduler.step()\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the steps of schedulers that stand in another loop than their length counts."""
        for call in file.calls_ending("step"):
            if not call.receiver or isinstance(call.node.func, ast.Name) or call.node.args:
                continue
            found = _stepping(call, index)
            made = _made(call, index) if found is not None else None
            if found is None or made is None:
                continue
            few = _few(made)
            if few and found.is_per_batch and _is_each_batch(call, found):
                yield self._decaying(call, made, few)
                continue
            length = _length(made)
            if length is None:
                continue
            counts_batches = _mentions_length(length, made.function) or _has_batches(made)
            fewer = _gathered(length, made, call, index) if found.is_per_batch else ""
            if fewer:
                yield self._found(call, made, f"one step in `{fewer}` batches", "in every batch")
                continue
            if found.is_per_batch and not counts_batches and _is_bound_of(length, made, found.epochs, index):
                yield self._found(call, made, f"`{ast.unparse(length)}` epochs", "in every batch")
            elif not found.is_per_batch and counts_batches and _goes_over_batches(found.epochs, index):
                yield self._found(call, made, "all batches", "once an epoch")

    def _decaying(self, call: Call, made: Call, few: str) -> RuleMatch:
        return self.hit(
            call.node,
            f"this scheduler has `{few}` (line {made.line}), a number of epochs by its size, and is stepped in every "
            "batch: the learning rate is near zero within the first epoch",
            remedy="step it once an epoch, after the loop over batches",
            confidence=Confidence.MODERATE,
            basis=f"{INFERRED}: an epoch has more batches than that",
            severity=Severity.WARNING,
        )

    def _found(self, call: Call, made: Call, length: str, often: str) -> RuleMatch:
        here = made.function is call.function
        where = (
            f"line {made.line}"
            if made.function.file is call.function.file
            else f"{made.function.file.path}:{made.line}"
        )
        remedy = "step it once an epoch, after the loop over batches" if "batch" in often else "step it in every batch"
        if length.startswith("one step"):
            remedy = "step it with the optimizer, under the same condition"
        return self.hit(
            call.node,
            f"this scheduler was made for {length} ({where}) and is stepped {often}",
            remedy=remedy,
            confidence=Confidence.HIGH if here else Confidence.MODERATE,
            basis=SEEN if here else FOLLOWED,
        )


def _stepping(call: Call, index: ProjectIndex) -> _Stepping | None:
    """Return the loop over epochs around a step, and whether another loop stands between."""
    loops = list(call.block.loops())
    outer = next((loop for loop in loops if _is_range(loop)), None)
    if outer is not None:
        return _Stepping(call, outer, is_per_batch=loops[0] is not outer)
    callers = index.callers(call.function)
    if len(callers) != 1:
        return None
    around = list(callers[0].block.loops())
    epochs = next((loop for loop in around if _is_range(loop)), None)
    if epochs is None:
        return None
    return _Stepping(call, epochs, is_per_batch=bool(loops) or around[0] is not epochs)


def _is_range(loop: Block) -> bool:
    node = loop.node
    return isinstance(node, ast.For) and _bound(node) is not None


def _bound(node: ast.For) -> ast.expr | None:
    """Return the number of rounds of a loop over `range(n)`, `range(start, n)` or a progress bar over one."""
    value: ast.expr = node.iter
    while isinstance(value, ast.Call) and value.args and dotted(value.func).rpartition(".")[2] in {"tqdm", "trange"}:
        if dotted(value.func).endswith("trange"):
            return value.args[-1]
        value = value.args[0]
    is_range = isinstance(value, ast.Call) and dotted(value.func) == "range" and 1 <= len(value.args) <= 2  # noqa: PLR2004 - start and end
    if not isinstance(value, ast.Call) or not is_range:
        return None
    bound = value.args[-1]
    if isinstance(bound, ast.BinOp) and isinstance(bound.op, ast.Add) and len(value.args) > 1:
        # `range(1, epochs + 1)`.
        return bound.left
    return bound


def _made(call: Call, index: ProjectIndex) -> Call | None:
    """Return what made the scheduler that a call steps, if that is one of torch's with a length."""
    if not isinstance(call.node.func, ast.Attribute):
        return None
    found = []
    for origin in makers(call.node.func.value, call.function, call.line, index):
        made = next((each for each in origin.function.calls if each.node is origin.value), None)
        found.append(made)
    if len(found) != 1 or found[0] is None or not found[0].name.startswith(_SCHEDULERS):
        return None
    return found[0] if found[0].tail in {*_LENGTHS, *_DECAYS} and not found[0].has_splat() else None


def _few(made: Call) -> str:
    """Return the argument by which a schedule decays within few steps, as text; empty if it lasts long."""
    if made.tail not in _DECAYS:
        return ""
    name, position = _DECAYS[made.tail]
    given = made.argument(position, name)
    values = given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
    numbers = [each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, int | float)]
    if given is None or not numbers or len(numbers) < len(values):
        return ""
    is_few = numbers[-1] <= _FAST if made.tail == "ExponentialLR" else min(numbers) <= _FEW
    return f"{name}={ast.unparse(given)}" if is_few else ""


def _is_each_batch(call: Call, found: _Stepping) -> bool:
    """Return whether a step runs in every round of a loop that trains on batches inside the loop over epochs."""
    loop = call.block.loop
    around = loop if loop is not None and loop is not found.epochs else call.function.block
    trains = any(each.tail == "backward" and each.block.within(around) for each in call.function.calls)
    return trains and not any(tests_around(call.block, around))


def _length(made: Call) -> ast.expr | None:
    if made.tail not in _LENGTHS:
        return None
    name, position = _LENGTHS[made.tail]
    found = made.argument(position, name)
    if found is None and made.tail == "OneCycleLR":
        return made.argument(3, "epochs")
    return found


def _has_batches(made: Call) -> bool:
    return made.tail == "OneCycleLR" and made.argument(4, "steps_per_epoch") is not None


def _mentions_length(value: ast.expr, function: Function, steps: int = 3) -> bool:
    """Return whether a number is computed from the length of something, as far as names lead in the function."""
    for node in walk(value):
        if isinstance(node, ast.Call) and dotted(node.func) == "len":
            return True
        made = function.last_assignment(node.id, value.lineno) if isinstance(node, ast.Name) and steps else None
        if made is not None and _mentions_length(made.value, function, steps - 1):
            return True
    return False


def _gathered(length: ast.expr, made: Call, step: Call, index: ProjectIndex) -> str:
    """Return how many batches go into one step of the optimizer, if a schedule counts those steps and not batches.

    A number of batches is divided by it, and the optimizer steps where a remainder by it is zero.
    """
    loop, function = step.block.loop, step.function
    if loop is None or any(is_periodic(test) for test in tests_around(step.block, loop)):
        return ""
    divided = _divisors(length, made.function, index)
    is_same = made.function is function
    for each in function.calls:
        if each.tail != "step" or each is step or each.block.loop is not loop or not is_optimizer_step(each, index):
            continue
        for part in (part for test in tests_around(each.block, loop) for part in walk(test)):
            if not isinstance(part, ast.BinOp) or not isinstance(part.op, ast.Mod):
                continue
            text = _plain(part.right, function)
            if text in divided and (is_same or "." in text):
                return text
    return ""


def _divisors(value: ast.expr, function: Function, index: ProjectIndex, steps: int = 4) -> set[str]:
    """Return what the length of something is divided by on the way to a number, as text."""
    found: set[str] = set()
    for node in walk(value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Div):
            found |= {_plain(node.right, function)} if _mentions_length(node.left, function) else set()
        if isinstance(node, ast.Name) and steps:
            made = function.last_assignment(node.id, value.lineno)
            found |= _divisors(made.value, function, index, steps - 1) if made is not None else set()
        call = next((each for each in function.calls if each.node is node), None) if steps else None
        called = index.function_named(call.node, function) if call is not None else None
        returned = [each.value for each, _ in called.returns if each.value is not None] if called is not None else []
        if call is not None and called is not None and len(returned) == 1:
            inside = _divisors(returned[0], called, index, steps - 1)
            given = {name: argument_for(call, called, name) for name in called.parameters}
            found |= {_plain(value, function) for name, value in given.items() if name in inside and value is not None}
    return found


def _is_bound_of(length: ast.expr, made: Call, epochs: Block, index: ProjectIndex) -> bool:
    """Return whether the length of a schedule is the number of rounds of a loop."""
    bound = _bound(epochs.node) if isinstance(epochs.node, ast.For) else None
    if bound is None or isinstance(bound, ast.Constant) != isinstance(length, ast.Constant):
        return False
    if _plain(bound, epochs.function) == _plain(length, made.function):
        # A name means the same in one function, an attribute of one object in one class or file.
        is_same = made.function is epochs.function or not isinstance(length, ast.Name)
        if is_same:
            return not isinstance(length, ast.Constant) or made.function is epochs.function
    one = {each.value for each in index.origins(bound, epochs.function, epochs.node.lineno)}  # type: ignore[attr-defined]
    two = {each.value for each in index.origins(length, made.function, made.line)}
    return len(one) == 1 and one == two


def _plain(value: ast.expr, function: Function) -> str:
    """Return an expression as text, with the name that an attribute of the object was set from: `cfg.epochs`."""
    text = ast.unparse(value)
    owner = function.owner
    first = ".".join(text.split(".")[:2])
    made = owner.attributes.get(first, []) if owner is not None and text.startswith("self.") else []
    if len(made) == 1 and isinstance(made[0].value, ast.Name):
        return made[0].value.id + text.removeprefix(first)
    return text


def _goes_over_batches(epochs: Block, index: ProjectIndex) -> bool:
    """Return whether a loop over epochs holds a loop that trains on batches, or calls a function that does."""
    calls = [each for each in epochs.function.calls if each.block.within(epochs)]
    inner = [each for each in epochs.function.blocks if each is not epochs and each.within(epochs)]
    loops = [each for each in inner if isinstance(each.node, ast.For)]
    if any(call.tail == "backward" and any(call.block.within(loop) for loop in loops) for call in calls):
        return True
    return any(
        each.tail == "backward" and each.block.loop is not None
        for call in calls
        for called in index.callees(call)
        for each in called.calls
    )
