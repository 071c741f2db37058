"""What a model is in the code under review: its forward calls, and where its mode is switched."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.names import tail_of
from esper_agents.review.tables import Purpose
from esper_agents.review.values import turns_gradients_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Block, Call, Class, FileTables, Function

_NAMED = re.compile(
    r"(?:\w+_)?(?:model|net|network|classifier|unet|resnet\w*|generator|discriminator|student|critic|actor|policy)(?:_\w+)?"
    r"|net[A-Z]\w*|\w+Net"
)
_EVALUATING = re.compile(
    r"_?(?:run_|do_)?(?:eval|evaluate|evaluation|validate|validation|valid|val|test|predict|infer|inference)"
    r"(?:_\w+)?|\w+_(?:eval|evaluate|validate|inference|predict)|(?:\w+_)?accuracy(?:_\w+)?"
    r"|(?:estimate|measure)_(?:loss|error|accuracy|metrics)\w*"
)
_HELD_OUT = re.compile(
    r"(?<![a-z])(?:val|valid|validation|test|eval|dev|holdout)(?![a-z])|(?:val|test|eval)_?(?:loader|set|data)",
    re.IGNORECASE,
)
_MAKES_NO_LAYER = frozenset(
    {"super", "range", "len", "zip", "list", "int", "enumerate", "max", "min", "float", "isinstance"}
)
# What makes plain numbers of outputs, which then carry no gradient.
_MEASURING = frozenset({"argmax", "item", "topk", "numpy", "tolist"})
# What is done in a loop that wants gradients.
GRADIENT_USES = frozenset(
    {"backward", "manual_backward", "grad", "requires_grad_", "jacobian", "hessian", "vjp", "jvp"}
)
# How many steps from caller to caller are followed to a training.
_CALLERS = 3
_FORWARDS = frozenset({"forward", "__call__", "forward_features", "_forward"})
# Layers that do something else in training than in evaluation, by the start of their name.
_MODED = (
    *("Dropout", "AlphaDropout", "FeatureAlphaDropout", "BatchNorm", "SyncBatchNorm", "InstanceNorm", "LazyBatchNorm"),
    *("LazyInstanceNorm", "RReLU", "LSTM", "GRU", "RNN", "MultiheadAttention", "Transformer"),
)


@dataclass(frozen=True, slots=True)
class Switch:
    """A call that switches a model.

    Attributes:
        call: The call.
        path: The model, as written.
        to_training: True for `.train()`, False for `.eval()`, None where a variable decides.
    """

    call: Call
    path: str
    to_training: bool | None


def switches(function: Function) -> Iterator[Switch]:
    """Yield where a function itself switches a model, in order."""
    for call in function.calls:
        if call.receiver and call.tail in {"eval", "train"} and (found := _switch(call)):
            yield found


def _switch(call: Call) -> Switch | None:
    mode = call.argument(0, "mode")
    if call.tail == "eval":
        return None if call.node.args else Switch(call, call.receiver, to_training=False)
    if mode is None:
        return Switch(call, call.receiver, to_training=True)
    return Switch(call, call.receiver, bool(mode.value) if isinstance(mode, ast.Constant) else None)


def is_evaluating(call: Call, loop: Block, index: ProjectIndex) -> bool:
    """Return whether a loop measures a model: a name says so, nothing goes backward, and nobody could use a gradient.

    The last holds where gradients are off, or where the loop turns outputs into classes or plain numbers.
    """
    function = call.function
    named = _EVALUATING.fullmatch(function.name) is not None and function.file.purpose is not Purpose.TEST
    if not (named or _is_held_out(loop)) or happens_in(loop, GRADIENT_USES, index):
        return False
    return gradients_off_around(call.block, index) or any(
        each.tail in _MEASURING and each.block.within(loop) for each in function.calls
    )


def _is_held_out(loop: Block) -> bool:
    """Return whether a loop goes over data that is named as held out from training."""
    return isinstance(loop.node, ast.For) and _HELD_OUT.search(ast.unparse(loop.node.iter)) is not None


def forward_calls(file: FileTables, index: ProjectIndex) -> list[Call]:
    """Return the calls of models in a file, those inside the models' own `forward` left out."""
    return index.once(("forward_calls", file.path), lambda: [call for call in file.calls if _is_forward(call, index)])


def _is_forward(call: Call, index: ProjectIndex) -> bool:
    if call.function.name in _FORWARDS or not (call.node.args or call.node.keywords) or "(" in call.path:
        return False
    if call.tail == "forward" and call.receiver:
        return is_model(call.receiver, call, index)
    return call.path == f"{call.receiver}.{call.tail}".lstrip(".") and is_model(call.path, call, index)


def is_model(path: str, call: Call, index: ProjectIndex) -> bool:
    """Return whether a path holds a model where a call stands: by its class, by what made it, or by its name."""
    last = tail_of(path)
    if _NAMED.fullmatch(last) is None and last not in _switched_names(index):
        return False
    if path == call.path and index.function(call.name, call.function.file) is not None:
        return False
    return not path.startswith(("nn.", "torch.", "F."))


def _switched_names(index: ProjectIndex) -> frozenset[str]:
    """Return the names on which some file calls `.eval()`."""
    return index.once(
        "switched_names",
        lambda: frozenset(
            tail_of(call.receiver) for call in index.calls_ending("eval") if call.receiver and not call.node.args
        ),
    )


def mode_changes_something(owner: Class, index: ProjectIndex) -> bool:
    """Return whether a model may behave otherwise in training; no only where all its layers are known."""
    parts = [owner]
    for part in parts:
        lineage = index.lineage(part)
        calls = [call for each in lineage.classes for method in each.methods.values() for call in method.calls]
        made = [call for call in calls if call.function.name == "__init__" and not _is_plain(call)]
        inner = [index.class_named(call.name, call.function.file) for call in made]
        asks = any("self.training" in each.file.text for each in lineage.classes)
        is_foreign = any(tail_of(base) != "Module" for base in lineage.foreign)
        if asks or is_foreign or None in inner or any(_is_moded(call) for call in calls):
            return True
        parts += [each for each in dict.fromkeys(inner) if each is not None and each not in parts]
    return False


def _is_moded(call: Call) -> bool:
    return call.tail.startswith(_MODED) or call.tail in {"dropout", "batch_norm", "dropout2d", "instance_norm"}


def _is_plain(call: Call) -> bool:
    """Return whether a call is torch's own, or makes no layer."""
    return call.name.startswith(("torch.", "super()")) or call.name in _MAKES_NO_LAYER


def happens_in(block: Block, tails: frozenset[str], index: ProjectIndex) -> bool:
    """Return whether something of these names is called in a block, directly or through functions of these files."""
    return any(
        call.tail in tails or any(index.reached(each) & tails for each in index.possible_callees(call))
        for call in block.function.calls
        if call.block.within(block)
    )


def gradients_off_around(block: Block, index: ProjectIndex) -> bool:
    """Return whether gradients are off in a block: by a context, a decorator, or a helper that does it."""
    function: Function | None = block.function
    current: Block | None = block
    while current is not None and function is not None:
        contexts = [context for each in current.chain() for context in each.contexts]
        if any(_may_turn_off(path, function, index) for path in (*contexts, *function.decorators)):
            return True
        current = function.outer
        function = current.function if current else None
    return False


def _may_turn_off(path: str, function: Function, index: ProjectIndex) -> bool:
    if turns_gradients_off(path) or re.search(r"grad|infer|eval", tail_of(path)):
        return True
    helper = index.function(path.removesuffix("()"), function.file)
    return helper is not None and bool(index.reached(helper) & {"no_grad", "inference_mode", "set_grad_enabled"})


def callers_around(function: Function, index: ProjectIndex) -> tuple[Function, ...]:
    """Return a function with those that call it, directly or through others."""
    around = [function]
    for _ in range(_CALLERS):
        around += [call.function for each in around for call in index.callers(each)]
        around = list(dict.fromkeys(around))
    return tuple(around)


def belongs_to_training(function: Function, index: ProjectIndex) -> bool:
    """Return whether a function, or what calls it, also sends a loss backward: whoever calls it is then in sight."""
    return any({"backward", "manual_backward"} & index.reached(each) for each in callers_around(function, index))
