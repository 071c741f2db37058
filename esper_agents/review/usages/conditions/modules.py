"""Conditions about the layers of the project's modules."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.usages.conditions.flow import makers_of
from esper_agents.review.usages.registry import ConditionResult, condition
from esper_agents.review.usages.sites import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.tables import Class, Function
    from esper_agents.review.usages.registry import UsageContext

# Calls that bring layers which the files do not show.
_OUTSIDE = ("from_pretrained", "create_model", "get_model", "load")
_OUTSIDE_PREFIXES = ("torchvision.models.", "timm.", "transformers.", "torch.hub.", "segmentation_models_pytorch.")


@condition
def has_layer(context: UsageContext, *prefixes: str) -> ConditionResult:
    """Whether a module of the project contains a layer whose class begins with one of these."""
    outside = ""
    for path, file in sorted(context.index.files.items()):
        for call in file.calls:
            is_layer = call.name.startswith(("torch.nn.", "nn.")) and call.tail.startswith(prefixes)
            if is_layer:
                return ConditionResult(True, {"layer": call.tail, "layer_at": f"{path}:{call.line}"})
            if call.name.startswith(_OUTSIDE_PREFIXES) or call.tail in _OUTSIDE[:3]:
                outside = outside or f"{path}:{call.line}"
    has_modules = any(context.index.is_module(each) for file in context.index.files.values() for each in file.classes)
    return ConditionResult(None if outside or not has_modules else False, {"outside": outside})


@condition
def unused_layers(context: UsageContext) -> ConditionResult:
    """Whether the wrapped module makes a layer that its forward does not use, on no path or on some paths only."""
    call = context.site.call
    first = call.argument(0, "module") if call is not None else None
    if call is None or first is None:
        return ConditionResult(None)
    owner = context.index.class_of(first, call.function, call.line)
    forward = context.index.method(owner, "forward") if owner is not None else None
    if owner is None or forward is None:
        return ConditionResult(None)
    layers = dict(_layers(owner, context))
    used = set(_used(forward, context))
    sometimes = {name for name in used & set(layers) if _is_conditional(name, forward)}
    unused = [name for name in layers if name not in used]
    values = {"module": owner.name, "forward": f"{owner.file.path}:{getattr(forward.node, 'lineno', 0)}"}
    if "*" in used:
        return ConditionResult(None)
    if unused:
        return ConditionResult(
            True, {**values, "layer": f"self.{unused[0]}", "layer_at": layers[unused[0]], "how": "does not use"}
        )
    if sometimes:
        name = min(sometimes)
        how = "uses only on one side of a condition"
        return ConditionResult(True, {**values, "layer": f"self.{name}", "layer_at": layers[name], "how": how})
    return ConditionResult(False if layers and len(context.index.lineage(owner).classes) == 1 else None, values)


def _layers(owner: Class, context: UsageContext) -> Iterator[tuple[str, str]]:
    """Yield the attributes of a class that hold layers with parameters, with their places."""
    for path, assignments in owner.attributes.items():
        value = assignments[-1].value
        if not path.startswith("self.") or not isinstance(value, ast.Call):
            continue
        name = dotted(value.func)
        made = context.index.class_called(value, assignments[-1].block.function)
        is_own = made is not None and context.index.is_module(made)
        is_layer = tail_of(name)[:1].isupper() and (name.startswith(("nn.", "torch.nn.")) or is_own)
        if is_layer and not tail_of(name).startswith(_WITHOUT_PARAMETERS):
            yield path.removeprefix("self."), f"{owner.file.path}:{assignments[-1].line}"


_WITHOUT_PARAMETERS = (
    "ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "Softmax", "LogSoftmax", "Dropout", "Identity", "Flatten",
    "MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool", "Upsample", "LeakyReLU", "ELU", "Softplus",
    "CrossEntropyLoss", "MSELoss", "BCE", "L1Loss", "SmoothL1Loss", "NLLLoss", "ZeroPad", "ReflectionPad",
    "ReplicationPad", "PixelShuffle", "Unflatten", "Hardtanh",
)  # fmt: skip


def _used(forward: Function, context: UsageContext) -> Iterator[str]:
    """Yield the attributes of `self` that forward and the methods it calls read; `*` if they read all of them."""
    for each in context.index.closure(forward):
        for node in walk(each.node):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                yield node.attr
                if node.attr in {"children", "modules", "_modules", "named_children", "__dict__"}:
                    yield "*"
            if isinstance(node, ast.Call) and dotted(node.func) in {"getattr", "vars"}:
                yield "*"


def _is_conditional(name: str, forward: Function) -> bool:
    """Return whether forward reads an attribute on one side of an `if` only, whose test is no test of the attribute."""
    node = forward.node
    inside: set[int] = set()
    both: set[int] = set()
    for each in walk(node):
        if isinstance(each, ast.If):
            arms = [any(_names(part, name) for part in arm) for arm in (each.body, each.orelse)]
            is_setting = "self." in ast.unparse(each.test) or "is not None" in ast.unparse(each.test)
            if arms.count(True) == 1 and not is_setting:
                inside |= {id(found) for part in (*each.body, *each.orelse) for found in _names(part, name)}
            if all(arms):
                both.add(id(each))
    everywhere = {id(found) for found in _names(node, name)}
    return bool(everywhere) and everywhere <= inside and not both


def _names(node: ast.AST, name: str) -> list[ast.AST]:
    return [each for each in walk(node) if isinstance(each, ast.Attribute) and each.attr == name]


def _next_in_sequential(context: UsageContext, step: int) -> ast.Call | None:
    """Return the layer that stands after (1) or before (-1) this one in the call that contains both."""
    for call in context.site.file.calls_ending("Sequential", "OrderedDict"):
        args = call.node.args
        for number, each in enumerate(args):
            if each is context.site.node and 0 <= number + step < len(args):
                other = args[number + step]
                return other if isinstance(other, ast.Call) else None
    return None


@condition
def next_layer_is(context: UsageContext, *prefixes: str) -> ConditionResult:
    """Whether the layer after this one, in a `Sequential` or by how forward calls them, begins with one of these."""
    following = _next_in_sequential(context, 1)
    if following is not None:
        if not _is_of_torch(dotted(following.func)):
            return ConditionResult(None)
        is_one = tail_of(dotted(following.func)).startswith(prefixes)
        return ConditionResult(
            is_one, {"next": shown(following), "next_at": f"{context.site.file.path}:{following.lineno}"}
        )
    found = _called_with(context)
    return _starts(found, prefixes) if found.holds else ConditionResult(None)


def _is_of_torch(name: str) -> bool:
    return name.startswith(("nn.", "torch.nn.")) and tail_of(name)[:1].isupper()


def _starts(found: ConditionResult, prefixes: tuple[str, ...]) -> ConditionResult:
    is_one = tail_of(found.values["kind"]).startswith(prefixes)
    return ConditionResult(is_one, found.values)


def _called_with(context: UsageContext) -> ConditionResult:
    """Return the layer that is applied directly to the result of this one: `self.bn(self.conv(x))`, or by a name."""
    name = _attribute_of(context)
    owner = owner_of(context.site.function)
    if not name or owner is None:
        return ConditionResult(None)
    for method in owner.methods.values():
        bound = {
            path for path, made in method.assignments.items() for each in made
            if isinstance(each.value, ast.Call) and dotted(each.value.func) == name
        }  # fmt: skip
        own = [call for call in method.calls if call.path == name]
        for call in method.calls:
            first = call.node.args[0] if call.node.args else None
            is_direct = isinstance(first, ast.Call) and dotted(first.func) == name
            is_bound = first is not None and dotted(first) in bound and own and 0 < call.line - own[0].line <= 1
            if call.path.startswith("self.") and (is_direct or (is_bound and call.path != name)):
                made = owner.attributes.get(call.path)
                if made and isinstance(made[-1].value, ast.Call):
                    kind = dotted(made[-1].value.func)
                    return ConditionResult(
                        True if _is_of_torch(kind) else None,
                        {"kind": kind, "next": kind, "next_at": f"{owner.file.path}:{call.line}"},
                    )
    return ConditionResult(None)


def _attribute_of(context: UsageContext) -> str:
    """Return the attribute that the layer is assigned to."""
    for path, assignments in context.site.function.assignments.items():
        if any(each.value is context.site.node for each in assignments) and path.startswith("self."):
            return path
    return ""


@condition
def previous_layer_is(context: UsageContext, *prefixes: str) -> ConditionResult:
    """Whether the layer before this one in a `Sequential` begins with one of these."""
    before = _next_in_sequential(context, -1)
    if before is None or not _is_of_torch(dotted(before.func)):
        return ConditionResult(None)
    return ConditionResult(tail_of(dotted(before.func)).startswith(prefixes), {"previous": shown(before)})


@condition
def receiver_is(context: UsageContext, *tails: str) -> ConditionResult:
    """Whether the receiver surely is an object of a class of such a name: `torch.optim.lr_scheduler.StepLR(...)`."""
    call = context.site.call
    if call is None or not isinstance(call.node.func, ast.Attribute):
        return ConditionResult(None)
    made = makers_of(context, call.node.func.value)
    kinds = [tail_of(dotted(each.func)) if isinstance(each, ast.Call) else "" for each in made]
    if not kinds or "" in kinds:
        return ConditionResult(None)
    return ConditionResult(all(kind in tails for kind in kinds), {"kind": kinds[0]})


@condition
def receiver_or_callee_is(context: UsageContext, *tails: str) -> ConditionResult:
    """Whether what is called surely is an object of a class of such a name: `self.attn` of `nn.MultiheadAttention`."""
    call = context.site.call
    made = makers_of(context, call.node.func) if call is not None else []
    kinds = [tail_of(dotted(each.func)) if isinstance(each, ast.Call) else "" for each in made]
    return ConditionResult(None if not kinds or "" in kinds else all(kind in tails for kind in kinds))


@condition
def second_result_unused(context: UsageContext) -> ConditionResult:
    """Whether the second part of a result is dropped: `y, _ = f(x)`, `f(x)[0]`."""
    call = context.site.call
    if call is None:
        return ConditionResult(None)
    parent = call.parent
    if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant):
        return ConditionResult(parent.slice.value == 0)
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple):
        names = [dotted(each) for each in parent.targets[0].elts]
        return ConditionResult(len(names) == 2 and names[1].startswith("_"))  # noqa: PLR2004 - output and weights
    return ConditionResult(None)
