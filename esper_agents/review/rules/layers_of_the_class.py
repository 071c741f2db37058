"""ESP139: layers stand in the body of a module's class, where they belong to no object."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import walk
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.weighted_layers import is_weighted_layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Class, FileTables


class LayersOfTheClass(Rule):
    """`fc = nn.Linear(8, 2)` in the body of a module's class: all objects share it, and none registers it.

    ## Why it costs
    A module registers what is set on the object, in `__init__`. A layer of the class is in no `parameters()` and in no
    `state_dict()`, is not moved by `.to(device)`, and is the same for all objects of the class.

    ## When it is right
    Layers without weights. A layer of the class that `__init__` copies into the object is not reported.

    ## Sources
    PyTorch documentation of `torch.nn.Module`: submodules are assigned as regular attributes of the object.
    """

    code, name = "ESP139", "layers-of-the-class"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "from torch import nn\n"
        "\n"
        "\n"
        "class Head(nn.Module):\n"
        "    fc = nn.Linear(8, 2)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.fc(x)\n"
    )
    good = (
        "from torch import nn\n"
        "\n"
        "\n"
        "class Head(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(8, 2)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.fc(x)\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the layers with weights in the bodies of classes."""
        for owner in file.classes:
            if not index.is_module(owner):
                continue
            for statement in owner.node.body:
                name, value = _assigned(statement)
                if (
                    value is not None
                    and is_weighted_layer(value, file.functions[0], index)
                    and not _is_set(name, owner)
                ):
                    yield self.hit(
                        statement,
                        f"{name!r} belongs to the class: no optimizer gets its weights, and they are neither moved nor "
                        "saved with an object",
                        remedy=f"set `self.{name}` in `__init__`",
                        basis=SEEN,
                    )


def _assigned(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return name, value
        case _:
            return "", None


def _is_set(name: str, owner: Class) -> bool:
    """Return whether the class sets the attribute on its objects, or reads it only to copy or replace it."""
    if f"self.{name}" in owner.attributes:
        return True
    return not any(isinstance(each, ast.Attribute) and each.attr == name for each in walk(owner.node))
