"""ESP503: gradients are clipped while they are still multiplied by the loss scale."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import are_alternatives
from esper_agents.review.names import dotted
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_CLIPPING = ("clip_grad_norm_", "clip_grad_value_")


class ClippingOfScaledGradients(Rule):
    """Gradient clipping between `scaler.scale(loss).backward()` and `scaler.step(...)` without `scaler.unscale_(...)`.

    ## Why it costs
    The gradients still carry the loss scale, 65536 to begin with, so their norm is that much larger. Clipped to 1.0 and
    unscaled afterwards, they are up to 65536 times too small: SGD all but stops, and Adam comes near its `eps`.

    ## When it is right
    Never on purpose. Where `unscale_` is called in a helper, the helper is looked into. Clipping in the other arm of
    the `if` that scales, and a scaler made with `enabled=False`, are not reported. Clipping after `scaler.step(...)`,
    which comes too late to change anything, is a warning.

    ## Sources
    PyTorch notes, "Automatic mixed precision examples": working with unscaled gradients, gradient clipping.
    """

    code, name = "ESP503", "clipping-of-scaled-gradients"
    severity, category = Severity.CRITICAL, Category.COMPILE
    bad = (
        "from torch.nn.utils import clip_grad_norm_\n"
        "\n"
        "\n"
        "def step(model, x, optimizer, scaler):\n"
        "    optimizer.zero_grad()\n"
        "    scaler.scale(model(x)).backward()\n"
        "    clip_grad_norm_(model.parameters(), 1.0)\n"
        "    scaler.step(optimizer)\n"
        "    scaler.update()\n"
    )
    good = bad.replace("    clip_grad", "    scaler.unscale_(optimizer)\n    clip_grad")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the clippings of scaled gradients."""
        functions = {each.function for each in file.calls_ending("step") if each.receiver and each.node.args}
        for function in file.functions:
            for backward, scaler in _scaled(function, index) if function in functions else ():
                for call in function.calls:
                    if call.line <= backward.line or are_alternatives(call.block, backward.block):
                        continue
                    if _clips(call, index) and not _is_unscaled(call, scaler, index):
                        yield self._found(call, scaler, backward)

    def _found(self, call: Call, scaler: str, backward: Call) -> RuleMatch:
        itself = call.tail in _CLIPPING or _clamps(call)
        steps = [each for each in call.function.calls if each.tail == "step" and each.receiver == scaler]
        if steps and all(backward.line < step.line < call.line for step in steps):
            return self.hit(
                call.node,
                "gradients are clipped after the step that uses them, which changes nothing",
                remedy=f"call `{scaler}.unscale_(optimizer)` and clip before `{scaler}.step(optimizer)`",
                severity=Severity.WARNING,
                basis=SEEN if itself else FOLLOWED,
            )
        return self.hit(
            call.node,
            "gradients are clipped while they are still multiplied by the loss scale",
            remedy=f"call `{scaler}.unscale_(optimizer)` before it",
            confidence=Confidence.HIGH if itself else Confidence.MODERATE,
            basis=SEEN if itself else FOLLOWED,
        )


def _scaled(function: Function, index: ProjectIndex) -> Iterator[tuple[Call, str]]:
    """Yield the calls that send a scaled loss backward, by themselves or in what they surely call, with the scaler."""
    for call in function.calls:
        inner = [call] if call.tail == "backward" else [each for called in index.callees(call) for each in called.calls]
        for backward in inner:
            scaler = _scaler(backward) if backward.tail == "backward" else ""
            if scaler and not _is_disabled(scaler, backward, index) and _steps(function, scaler):
                yield call, scaler


def _steps(function: Function, scaler: str) -> bool:
    return any(call.tail == "step" and call.receiver == scaler for call in function.calls)


def _scaler(backward: Call) -> str:
    """Return the path of the scaler whose `scale` made what goes backward, in place or under a name."""
    if backward.receiver.endswith(".scale()"):
        return backward.receiver.removesuffix(".scale()")
    made = backward.function.last_assignment(backward.receiver, backward.line)
    path = dotted(made.value) if made is not None and isinstance(made.value, ast.Call) else ""
    return path.removesuffix(".scale()") if path.endswith(".scale()") else ""


def _is_disabled(scaler: str, backward: Call, index: ProjectIndex) -> bool:
    made = index.binding(scaler, backward.function, backward.line)
    keywords = made.value.keywords if made is not None and isinstance(made.value, ast.Call) else []
    return any(
        keyword.arg == "enabled" and isinstance(keyword.value, ast.Constant) and not keyword.value.value
        for keyword in keywords
    )


def _clips(call: Call, index: ProjectIndex) -> bool:
    if call.tail in _CLIPPING or _clamps(call):
        return True
    return any(set(_CLIPPING) & index.reached(callee) for callee in index.callees(call))


def _clamps(call: Call) -> bool:
    """Return whether a call clips a gradient by hand: `p.grad.clamp_(-1, 1)`."""
    if call.tail == "_foreach_clamp_max_":
        return True
    return call.tail in {"clamp_", "clip_"} and call.receiver.removesuffix(".data").endswith(".grad")


def _is_unscaled(call: Call, scaler: str, index: ProjectIndex) -> bool:
    """Return whether gradients may be unscaled before the clipping."""
    before = [each for each in call.function.calls if each.line <= call.line]
    unscaled = [dotted(each.node.args[0]) if each.node.args else "" for each in before if each.tail == "unscale_"]
    if unscaled:
        clipped = _optimizer_of(call, scaler, index)
        return not clipped or "" in unscaled or clipped in unscaled
    return any(
        "unscale_" in index.reached(possible_callee)
        for other in before
        for possible_callee in index.possible_callees(other)
    )


def _optimizer_of(clipping: Call, scaler: str, index: ProjectIndex) -> str:
    """Return the one optimizer of several that steps what a clipping clips; empty where that cannot be said."""
    clipped = ast.unparse(clipping.node.args[0]) if clipping.node.args else ""
    stepped = {
        dotted(call.node.args[0])
        for call in clipping.function.calls
        if call.tail == "step" and call.receiver == scaler and call.node.args
    }
    made = {path: index.binding(path, clipping.function, clipping.line) for path in stepped}
    owners = [
        path
        for path, found in made.items()
        if found is not None
        and isinstance(found.value, ast.Call)
        and found.value.args
        and ast.unparse(found.value.args[0]) == clipped
    ]
    return owners[0] if len(owners) == 1 and len(stepped) > 1 and all(made.values()) else ""
