"""What paths hold in one function, its surroundings and its class, as far as assignments show it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.definitions import Definitions, owner_of
from esper_agents.review.names import dotted, root_of, tail_of

if TYPE_CHECKING:
    from esper_agents.review.tables import Assignment, Class, Function

# How many steps from value to value are followed.
STEPS = 8
# Calls and methods that give back the module they were given.
_WRAPPERS = frozenset({"compile", "DataParallel", "DistributedDataParallel", "DDP", "script", "prepare_model"})
_FLUENT = frozenset(
    {"to", "cuda", "cpu", "eval", "train", "float", "half", "bfloat16", "double", "requires_grad_", "apply"}
)
_ANYWHERE = 1 << 30


class Objects(Definitions):
    """Assignments and the classes they show, without a look at callers."""

    def binding(self, path: str, function: Function, before: int) -> Assignment | None:
        """Return the assignment that a path's value comes from at a line.

        Looked for above the line in the function, then in the functions around it and the module, then, for `self.x`,
        in the class. None where a parameter holds it, or nothing in sight does.
        """
        current: Function | None = function
        limit = before
        while current is not None:
            if (found := current.last_assignment(path, limit)) is not None:
                return found
            if root_of(path) in current.parameters and not path.startswith("self."):
                return None
            current, limit = (current.outer.function if current.outer else None), _ANYWHERE
        owner = owner_of(function)
        return self._attribute(owner, path) if owner is not None and path.startswith("self.") else None

    def _attribute(self, owner: Class, path: str) -> Assignment | None:
        for each in self.lineage(owner).classes:
            for found in each.attributes.get(path, ()):
                if dotted(found.value) != path and not dotted(found.value).startswith(f"{path}."):
                    return found
        return None

    def class_in_sight(self, value: ast.expr, function: Function, before: int, steps: int = STEPS) -> Class | None:
        """Return the class that an expression makes an object of, parameters aside: `Net(8).to(device)`."""
        if isinstance(value, ast.Name | ast.Attribute):
            return self._class_held(dotted(value), function, before, steps)
        inner = wrapped(value)
        if inner is not None:
            return self.class_in_sight(inner, function, before, steps)
        return self.class_called(value, function)

    def _class_held(self, path: str, function: Function, before: int, steps: int) -> Class | None:
        if path == "self":
            return owner_of(function)
        found = self.binding(path, function, before) if steps else None
        if found is None or found.is_unpacked or found.is_augmented:
            return None
        return self.class_in_sight(found.value, found.block.function, found.line, steps - 1)

    def class_called(self, value: ast.expr, function: Function) -> Class | None:
        """Return the class that a plain call makes an object of: `Net(8)`."""
        if not isinstance(value, ast.Call):
            return None
        return self.class_named(resolve(dotted(value.func), function), function.file)


def wrapped(value: ast.expr) -> ast.expr | None:
    """Return the module that a call gives back: `net` of `net.to(device)` and of `torch.compile(net)`."""
    if not isinstance(value, ast.Call):
        return None
    if isinstance(value.func, ast.Attribute) and value.func.attr in _FLUENT:
        return value.func.value
    return value.args[0] if tail_of(dotted(value.func)) in _WRAPPERS and value.args else None


def resolve(path: str, function: Function) -> str:
    """Return a path through the imports of a function's file."""
    root = root_of(path)
    imported = function.file.imports.get(root)
    return path if imported is None or root in function.parameters else imported + path[len(root) :]
