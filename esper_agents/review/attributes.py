"""What the attributes of an object hold: layers and other modules."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Function

_PACKAGES = ("torch.nn.", "timm.", "torchvision.models.", "transformers.")
# What these packages hold besides modules.
_NO_MODULES = ("torch.nn.Parameter", "torch.nn.parameter.", "torch.nn.functional.", "torch.nn.init.", "torch.nn.utils.")


def holds_layer(path: str, function: Function, line: int, index: ProjectIndex) -> bool:
    """Return whether an attribute such as `self.encoder` surely holds a module, by what its class assigns to it."""
    owner = owner_of(function)
    if owner is None or not path.startswith("self.") or path.count(".") != 1:
        return False
    if index.method(owner, path.removeprefix("self.")) is not None:
        return False
    found = index.binding(path, function, line)
    if found is None or found.is_unpacked or found.is_augmented or not isinstance(found.value, ast.Call):
        return False
    made = index.class_of(found.value, found.block.function, found.line)
    if made is not None:
        return index.is_module(made)
    name = resolve(dotted(found.value.func), found.block.function)
    return name.startswith(_PACKAGES) and not name.startswith(_NO_MODULES)
