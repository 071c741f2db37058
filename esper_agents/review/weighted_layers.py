"""Expressions that make layers with weights."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Function

# Layers of torch that have weights.
_LAYER = pattern(
    r"torch\.nn\.(?:Lazy)?(?:Linear|Bilinear|Conv(?:Transpose)?[123]d|(?:Sync)?BatchNorm[123]?d?|InstanceNorm[123]d"
    r"|GroupNorm|LayerNorm|RMSNorm|Embedding|EmbeddingBag|LSTM|GRU|RNN|LSTMCell|GRUCell|RNNCell|MultiheadAttention"
    r"|Transformer(?:En|De)coder(?:Layer)?|Transformer|PReLU)"
)
# Those whose weights start as the same numbers each time: ones, zeros, a fixed slope.
_FIXED_START = pattern(r"torch\.nn\.(?:Lazy)?(?:InstanceNorm[123]d|GroupNorm|LayerNorm|RMSNorm|PReLU)")
# How many modules in modules are looked into.
_STEPS = 3


def is_weighted_layer(value: ast.expr, maker: Function, index: ProjectIndex, steps: int = _STEPS) -> bool:
    """Return whether an expression makes a layer with weights, a sequence of such, or a module that holds one."""
    if not isinstance(value, ast.Call) or not steps:
        return False
    name = resolve(dotted(value.func), maker)
    if name == "torch.nn.Sequential":
        return any(is_weighted_layer(arg, maker, index, steps - 1) for arg in value.args)
    owner = index.class_called(value, maker)
    inner = owner.methods.get("__init__") if owner is not None and index.is_module(owner) else None
    if inner is None:
        return _LAYER.fullmatch(name) is not None and not _is_without_weights(value, name)
    held = (assignments[-1].value for path, assignments in inner.assignments.items() if path.startswith("self."))
    return any(is_weighted_layer(each, inner, index, steps - 1) for each in held)


def has_weights(path: str) -> bool:
    """Return whether a qualified name is that of a layer of torch with weights."""
    return _LAYER.fullmatch(path) is not None


def starts_fixed(value: ast.Call, maker: Function) -> bool:
    """Return whether the weights of a layer start as the same numbers each time it is made."""
    return _FIXED_START.fullmatch(resolve(dotted(value.func), maker)) is not None


def _is_without_weights(value: ast.Call, name: str) -> bool:
    """Return whether a normalization is made without weights of its own."""
    given = {keyword.arg: keyword.value for keyword in value.keywords}
    affine = given.get("affine") or given.get("elementwise_affine")
    if affine is None:
        return "InstanceNorm" in name and len(value.args) <= 3  # noqa: PLR2004 - `affine` is the fourth
    return isinstance(affine, ast.Constant) and affine.value is False
