"""Which models behave otherwise in training than in evaluation: by the layers that they are made of."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of
from esper_agents.review.objects import resolve, wrapped

if TYPE_CHECKING:
    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.tables import Call, Class, Function

# How many functions that hand back a model are followed.
_HOPS = 2
# Sizes and flags are handed by position at the most, as far as four.
_POSITIONAL = 4
_MAKES_NO_LAYER = frozenset(
    {"super", "range", "len", "zip", "list", "int", "enumerate", "max", "min", "float", "isinstance"}
)
# Layers that do something else in training than in evaluation, by the start of their name.
_MODED = (
    *("Dropout", "AlphaDropout", "FeatureAlphaDropout", "BatchNorm", "SyncBatchNorm", "LazyBatchNorm", "RReLU"),
    "Transformer",
)
# Those that do so only where this is asked of them.
_MODED_BY = {
    **dict.fromkeys(("LSTM", "GRU", "RNN", "MultiheadAttention"), "dropout"),
    **dict.fromkeys(("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"), "track_running_stats"),
}


def mode_changes_something(owner: Class, index: ProjectIndex) -> bool:
    """Return whether a model may behave otherwise in training; no only where all its layers are known."""
    parts = [owner]
    for part in parts:
        lineage = index.lineage(part)
        calls = [call for cls in lineage.classes for method in cls.methods.values() for call in method.calls]
        made = [call for call in calls if call.function.name == "__init__" and not _makes_no_layer(call)]
        inner = [index.class_named(call.name, call.function.file) for call in made]
        asks = any("self.training" in cls.file.text for cls in lineage.classes)
        is_foreign = any(tail_of(base) != "Module" for base in lineage.foreign)
        if asks or is_foreign or None in inner or any(_is_moded(call) for call in calls):
            return True
        parts += [each for each in dict.fromkeys(inner) if each is not None and each not in parts]
    return False


def holds_moded_layer(owner: Class, index: ProjectIndex) -> bool:
    """Return whether a model surely holds a layer that does something else in training, itself or in a part."""
    parts = [owner]
    for part in parts:
        methods = [each for one in index.lineage(part).classes for each in one.methods.values()]
        if any(_is_moded(call) for method in methods for call in method.calls):
            return True
        inner = (index.class_named(call.name, call.function.file) for each in methods for call in each.calls)
        parts += [each for each in dict.fromkeys(inner) if each is not None and each not in parts]
    return False


def _is_moded(call: Call) -> bool:
    if call.tail in _MODED_BY:
        given = {keyword.arg for keyword in call.node.keywords}
        return None in given or _MODED_BY[call.tail] in given or len(call.node.args) > _POSITIONAL
    return call.tail.startswith(_MODED) or call.tail in {"dropout", "batch_norm", "dropout2d", "instance_norm"}


def _makes_no_layer(call: Call) -> bool:
    """Return whether a call is torch's own, or makes no layer."""
    return call.name.startswith(("torch.", "super()")) or call.name in _MAKES_NO_LAYER


def has_no_mode(value: ast.expr, function: Function, line: int, index: ProjectIndex, hops: int = _HOPS) -> bool:
    """Return whether a model is a plain layer or a `Sequential` of layers that are the same in both modes.

    Looked for through names, parameters and the functions that hand it back.
    """
    made = index.origins(value, function, line)
    return bool(made) and all(_is_plain(each, index, hops) for each in made)


def _is_plain(made: Origin, index: ProjectIndex, hops: int) -> bool:
    value = made.value
    while (inner := wrapped(value)) is not None:
        value = inner
    if hops and isinstance(value, ast.Name) and value is not made.value:
        return has_no_mode(value, made.function, made.line, index, hops - 1)
    if _is_plain_layer(value, made.function):
        return True
    if not hops or not isinstance(value, ast.Call):
        return False
    called = index.function(resolve(dotted(value.func), made.function), made.function.file)
    return (
        called is not None
        and bool(called.returns)
        and all(
            each.value is not None and has_no_mode(each.value, called, each.lineno, index, hops - 1)
            for each, _ in called.returns
        )
    )


def _is_plain_layer(value: ast.expr, function: Function) -> bool:
    if not isinstance(value, ast.Call) or not resolve(dotted(value.func), function).startswith("torch.nn."):
        return False
    last = tail_of(dotted(value.func))
    if last == "Sequential":
        return bool(value.args) and all(_is_plain_layer(arg, function) for arg in value.args)
    return last[:1].isupper() and not last.startswith((*_MODED, *_MODED_BY, "Module", "DataParallel"))
