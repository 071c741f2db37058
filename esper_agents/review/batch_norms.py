"""Models that surely hold batch norm."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of
from esper_agents.review.objects import resolve, wrapped
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Function

_WITH_NORMS = pattern(
    r"(?:wide_)?res(?:net|next)\w*|densenet\w+|mobilenet_v\w+|efficientnet_(?:b|v2)\w+|googlenet|inception_v3"
    r"|shufflenet\w+|mnasnet\w+|vgg\d+_bn|regnet\w+"
)
_NORMS = pattern(r"torch\.nn\.(?:Sync)?BatchNorm\w*")
_MAKERS = frozenset({"timm.create_model", "torch.hub.load"})


def has_batch_norm(value: ast.expr, function: Function, index: ProjectIndex) -> bool:
    """Return whether an expression surely makes a model with batch norm.

    Args:
        value: What makes the model: a class or a function of these files, or a network of torchvision or timm.
        function: The function it stands in.
        index: Facts about all files of the review.
    """
    while (inner := wrapped(value)) is not None:
        value = inner
    if not isinstance(value, ast.Call):
        return False
    name = resolve(dotted(value.func), function)
    if name.startswith("torchvision.models."):
        return _WITH_NORMS.fullmatch(tail_of(name)) is not None
    if name in _MAKERS:
        texts = [each.value for each in value.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        return any(_WITH_NORMS.fullmatch(text) for text in texts)
    if name.startswith("torch.nn."):
        parts = [value, *value.args]
        return any(
            isinstance(each, ast.Call) and _NORMS.fullmatch(resolve(dotted(each.func), function)) for each in parts
        )
    owner = index.class_called(value, function)
    if owner is not None:
        methods = list(owner.methods.values()) if index.is_module(owner) else []
    else:
        called = index.function_named(value, function)
        methods = list(index.closure(called)) if called is not None else []
    return any(_NORMS.fullmatch(call.name) for method in methods for call in method.calls)
