"""What a model is in the code under review: its forward calls, and where its mode is switched."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.index import argument_for
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.tables import Purpose
from esper_agents.review.values import turns_gradients_off

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_NAMED = pattern(
    r"(?:\w+_)?(?:model|net|network|classifier|unet|resnet\w*|generator|discriminator|student|critic|actor|policy|teacher|ema)(?:_\w+)?"
    r"|net[A-Z]\w*|\w+Net|module|backbone"
)
# Parts of networks, where a function is handed one; a text or a label may be encoded by what is named so as well.
_PARTS = pattern(
    r"(?:\w+_)?(?:encoder|decoder|enc|dec|embedder|extractor|regressor|segmenter|denoiser|vae|autoencoder|transformer|lstm"
    r"|gru|cnn|mlp|gnn|vit|head)(?:_[a-z0-9])?"
)
_CODING = frozenset({"encode", "decode", "transform", "fit", "fit_transform", "tokenize", "inverse_transform", "get"})
_TEXT = pattern(r"text|sentence|string|prompt|word|line|caption|quer(?:y|ies)|name|obj|path|label", re.IGNORECASE)
_EVALUATING = pattern(
    r"_?(?:run_|do_)?(?:eval|evaluate|evaluation|validate|validation|valid|val|test|predict|infer|inference)"
    r"(?:_\w+)?|\w+_(?:eval|evaluate|validate|inference|predict)|(?:\w+_)?accuracy(?:_\w+)?"
    r"|(?:estimate|measure)_(?:loss|error|accuracy|metrics)\w*"
)
_HELD_OUT = pattern(
    r"(?<![a-z])(?:val|valid|validation|test|eval|dev|holdout)(?![a-z])|(?:val|test|eval)_?(?:loader|set|data)",
    re.IGNORECASE,
)
# What makes plain numbers of outputs, which then carry no gradient.
_MEASURING = frozenset({"argmax", "item", "topk", "numpy", "tolist"})
# What is done in a loop that wants gradients.
GRADIENT_USES = frozenset(
    {"backward", "manual_backward", "grad", "requires_grad_", "jacobian", "hessian", "vjp", "jvp"}
)
# What is called like a model, and has no mode.
_LOSS = pattern(r"(?:^|_)(?:loss|losses|crit|criterion|criterions|metric|metrics)(?:_|$)|Loss$")
_NO_MODEL = pattern(
    r"^parameters$|^_?(?:get|make|build|create|load|save|scale|set|init|prepare|update|wrap|compile|train|run|fit)_"
)
# What hands a module on as it is: the mode of `model.to(device).eval()` is the mode of `model`.
_PLACED = pattern(r"(?:\.(?:to|cuda|cpu|half|float|double|bfloat16|requires_grad_)\(\))+$")
# How many steps from caller to caller are followed to a training.
_CALLERS = 3
_FORWARDS = frozenset({"forward", "__call__", "forward_features", "_forward"})


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


def switch_at(call: Call, index: ProjectIndex) -> Switch | None:
    """Return the switch that a call is; a function of these files that is named so, but is no module's, is none."""
    if call.tail not in {"eval", "train"} or not call.receiver:
        return None
    called = index.callees(call)
    is_own = any(each.owner is None or not index.is_module(each.owner) for each in called)
    return None if is_own else _switch(call)


def _switch(call: Call) -> Switch | None:
    mode, path = call.argument(0, "mode"), _PLACED.sub("", call.receiver)
    if call.tail == "eval":
        return None if call.node.args else Switch(call, path, to_training=False)
    if mode is None:
        return Switch(call, path, to_training=True)
    return Switch(call, path, bool(mode.value) if isinstance(mode, ast.Constant) else None)


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


def forward_calls_in(function: Function, index: ProjectIndex) -> list[Call]:
    """Return the calls of models in a function, those in functions it defines left out."""
    return index.once(
        ("forward_calls_by_function", function.file.path), lambda: _by_function(function.file, index)
    ).get(function, [])


def _by_function(file: FileTables, index: ProjectIndex) -> dict[Function, list[Call]]:
    found: dict[Function, list[Call]] = {}
    for call in forward_calls(file, index):
        found.setdefault(call.function, []).append(call)
    return found


def _is_forward(call: Call, index: ProjectIndex) -> bool:
    if "(" in call.path or not (call.node.args or call.node.keywords) or _is_forward_of_module(call.function, index):
        return False
    if call.tail == "forward" and call.receiver:
        return is_model(call.receiver, call, index)
    if call.path == "self":
        owner = owner_of(call.function)
        return owner is not None and index.is_module(owner)
    return call.path == f"{call.receiver}.{call.tail}".lstrip(".") and is_model(call.path, call, index)


def _is_forward_of_module(function: Function, index: ProjectIndex) -> bool:
    if function.name not in _FORWARDS:
        return False
    return function.name != "__call__" or function.owner is None or index.is_module(function.owner)


def is_model(path: str, call: Call, index: ProjectIndex) -> bool:
    """Return whether a path holds a model where a call stands: by its class, by what made it, or by its name."""
    last = tail_of(path)
    if _NAMED.fullmatch(last) is None and not _is_known_name(path, last, call.function, index):
        return False
    if _NO_MODEL.search(last) or is_loss(path):
        return False
    if path in call.function.file.imports:
        return False
    if path == call.path and index.function(call.name, call.function.file) is not None:
        return False
    return not path.startswith(("nn.", "torch.", "F."))


def _is_known_name(path: str, last: str, function: Function, index: ProjectIndex) -> bool:
    """Return whether a name holds a model elsewhere, and stands by itself or in `self`: else it may be any method."""
    if not path.isidentifier() and path != f"self.{last}":
        return False
    known = index.once("known names", lambda: _switched_names(index) | _names_of_modules(index))
    return last in known or _is_handed(path, function, known, index) or _is_part(path, function, index)


def _is_part(path: str, function: Function, index: ProjectIndex) -> bool:
    """Return whether a parameter is named as the part of a network, and nothing encodes texts or labels by it."""
    if path not in function.parameters or not _PARTS.fullmatch(path) or not function.file.imports_torch:
        return False
    owner = owner_of(function)
    if owner is not None and index.is_module(owner):
        return False
    used = {call.tail for call in function.calls if call.receiver == path}
    texts = {dotted(arg) for call in function.calls if call.path == path for arg in call.node.args}
    return not used & _CODING and not any(_TEXT.search(text) for text in texts)


def _is_handed(path: str, function: Function, known: Collection[str], index: ProjectIndex) -> bool:
    """Return whether a parameter is handed a model by each of its callers."""
    if path not in function.parameters or path == "self":
        return False
    handed = [argument_for(caller, function, path) for caller in index.callers(function)]
    names = [tail_of(dotted(each)) if isinstance(each, ast.Name | ast.Attribute) else "" for each in handed]
    return bool(names) and all(_NAMED.fullmatch(name) or name in known for name in names)


def is_loss(path: str) -> bool:
    """Return whether a path is named for a loss or a metric, which has no mode."""
    return _LOSS.search(tail_of(path)) is not None


def _switched_names(index: ProjectIndex) -> frozenset[str]:
    """Return the names that some file switches to a mode, or whose parameters it hands to an optimizer."""
    return index.once(
        "switched_names",
        lambda: (
            frozenset(
                tail_of(call.receiver)
                for call in index.calls_ending("eval", "train", "parameters")
                if call.receiver and not call.node.keywords and (not call.node.args or _is_said(call))
            )
            - {"self", "super()"}
        ),
    )


def _is_said(call: Call) -> bool:
    """Return whether a call is `train(False)`, or `train(True)`."""
    mode = call.argument(0)
    return call.tail == "train" and isinstance(mode, ast.Constant) and isinstance(mode.value, bool)


def _names_of_modules(index: ProjectIndex) -> frozenset[str]:
    """Return the names that hold modules of these files outside the modules themselves."""
    return index.once("names of modules", lambda: frozenset(_find_names_of_modules(index)))


def _find_names_of_modules(index: ProjectIndex) -> Iterator[str]:
    for name in sorted(index.classes):
        if not any(index.is_module(each) for each in index.classes[name]):
            continue
        for call in index.calls_ending(name):
            owner = call.function.owner
            targets = call.statement.targets if isinstance(call.statement, ast.Assign) else []
            if owner is None or not index.is_module(owner):
                yield from (
                    tail_of(dotted(target)) for target in targets if isinstance(target, ast.Name | ast.Attribute)
                )


def happens_in(block: Block, tails: frozenset[str], index: ProjectIndex) -> bool:
    """Return whether something of these names is called in a block, directly or through functions of these files."""
    return any(
        call.tail in tails
        or any(index.reached(possible_callee) & tails for possible_callee in index.possible_callees(call))
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
