"""ESP115: a module is given layers before `torch.nn.Module.__init__` has run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, Class, FileTables, Function

_REGISTERING = frozenset({"register_buffer", "register_parameter", "register_module", "add_module"})


class PartsBeforeModuleInit(Rule):
    """A layer, parameter or buffer that a module's `__init__` sets before it has called `super().__init__()`.

    ## Why it costs
    `Module.__init__` makes the tables in which a module keeps its parts. Without them the first layer raises
    "cannot assign module before Module.__init__() call", each time an object is made.

    ## When it is right
    `super().__init__()` runs first, in `__init__` itself or in a method that it calls. Plain values such as sizes
    may be set before. Classes with a metaclass or a decorator are not reported.

    ## Sources
    PyTorch source, `torch/nn/modules/module.py`, `Module.__setattr__` and `Module.register_buffer`.
    """

    code, name = "ESP115", "parts-before-module-init"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "from torch import nn\n"
        "\n"
        "\n"
        "class Head(nn.Module):\n"
        "    def __init__(self, width):\n"
        "        self.fc = nn.Linear(width, 2)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.fc(x)\n"
    )
    good = bad.replace("        self.fc", "        super().__init__()\n        self.fc")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the first part that each module sets too early."""
        for owner in file.classes:
            maker = owner.methods.get("__init__")
            if maker is None or not _is_plain_module(owner, index):
                continue
            first = _first_part(maker, owner, index)
            begun = _begun(maker, owner)
            if first is None or (begun is not None and _position(begun) <= _position(first)):
                continue
            when = (
                f"only line {begun.lineno} calls `super().__init__()`"
                if begun is not None
                else "nothing calls `super().__init__()`"
            )
            yield self.hit(
                first,
                f"{owner.name!r} gets its first part here, and {when}: making one raises",
                remedy="call `super().__init__()` first in `__init__`",
            )


def _is_plain_module(owner: Class, index: ProjectIndex) -> bool:
    """Return whether nothing but `torch.nn.Module` decides how objects of a class are made."""
    lineage = index.lineage(owner)
    is_plain = not any(each.decorators or each.node.keywords or "__new__" in each.methods for each in lineage.classes)
    return is_plain and bool(lineage.foreign) and all(each.startswith("torch.nn.") for each in lineage.foreign)


def _first_part(maker: Function, owner: Class, index: ProjectIndex) -> ast.stmt | None:
    """Return the first statement that surely gives the object a module, a parameter or a buffer."""
    assigned = (each for assignments in maker.assignments.values() for each in assignments)
    found = [each.statement for each in assigned if _is_part(each, index)]
    found += [call.statement for call in maker.calls if call.receiver == "self" and call.tail in _REGISTERING]
    own = [each for each in found if not _is_guarded(each, owner)]
    return min(own, key=_position, default=None)


def _position(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _is_part(assignment: Assignment, index: ProjectIndex) -> bool:
    if not assignment.target.startswith("self.") or assignment.target.count(".") > 1:
        return False
    value = assignment.value
    if assignment.is_unpacked or not isinstance(value, ast.Call):
        return False
    name = resolve(dotted(value.func), assignment.block.function)
    is_of_torch = name.startswith("torch.nn.") and name.count(".") == 2 and name.rpartition(".")[2][:1].isupper()  # noqa: PLR2004 - `torch.nn.Linear`
    made = index.class_called(value, assignment.block.function)
    return is_of_torch or (made is not None and index.is_module(made))


def _is_guarded(statement: ast.stmt, owner: Class) -> bool:
    """Return whether a part is set through something that the class itself defines, such as its own `__setattr__`."""
    return "__setattr__" in owner.methods and isinstance(statement, ast.Assign)


def _begun(maker: Function, owner: Class) -> ast.expr | None:
    """Return the first call that may run the base's `__init__`; None if none does."""
    own = set(owner.methods)
    return min((call.node for call in maker.calls if _may_begin(call, own)), key=_position, default=None)


def _may_begin(call: Call, own: set[str]) -> bool:
    if call.tail == "__init__":
        return True
    # A method of the object, or one that is given the object, may do it.
    is_given = any(isinstance(arg, ast.Name) and arg.id == "self" for arg in call.node.args)
    return is_given or (call.receiver == "self" and (call.tail in own or call.tail not in _REGISTERING))
