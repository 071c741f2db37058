"""ESP141: a layer with `inplace=True` changes the input that is added again later."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_IN_PLACE = frozenset(
    {"ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "SiLU", "Mish", "Hardswish", "Hardtanh", "Dropout"}
)
_FUNCTIONS = frozenset({"relu", "relu6", "leaky_relu", "elu", "selu", "silu", "mish", "hardswish", "dropout"})


class InputChangedBeforeSum(Rule):
    """`out = conv(relu(x))` with an in-place activation, and `out + x` later: the shortcut is no longer the input.

    ## Why it costs
    `inplace=True` writes its result into `x`. What is added afterwards is the activated input: the shortcut of a
    residual block has lost its negative values, and the block computes another function than the one on paper.

    ## When it is right
    The activated input is meant to be added. The same block with `inplace=False` says which it is.

    ## Sources
    PyTorch documentation of `torch.nn.ReLU` (`inplace`). He et al., "Identity Mappings in Deep Residual Networks", on
    clean shortcuts.
    """

    code, name = "ESP141", "input-changed-before-sum"
    severity, category = Severity.WARNING, Category.CORRECTNESS
    bad = (
        "from torch import nn\n"
        "\n"
        "\n"
        "class Block(nn.Module):\n"
        "    def __init__(self, width):\n"
        "        super().__init__()\n"
        "        self.act = nn.ReLU(inplace=True)\n"
        "        self.conv = nn.Conv2d(width, width, 3, padding=1)\n"
        "\n"
        "    def forward(self, x):\n"
        "        out = self.conv(self.act(x))\n"
        "        return out + x\n"
    )
    good = bad.replace("inplace=True", "inplace=False")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the activations that change an input which is added again."""
        for owner in file.classes:
            forward = owner.methods.get("forward")
            if forward is None or not index.is_module(owner):
                continue
            for call in forward.calls:
                first = call.node.args[0] if call.node.args else None
                if not isinstance(first, ast.Name) or first.id not in forward.parameters[1:]:
                    continue
                if _writes_in_place(call, index) and (total := _added_later(first.id, call)) is not None:
                    yield self.hit(
                        call.node,
                        f"this writes into {first.id!r} in place, and line {total.lineno} adds {first.id!r} again: the "
                        "shortcut has lost its negative values",
                        remedy="use `inplace=False` here",
                        basis=SEEN,
                    )


def _writes_in_place(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call is a layer or function that is surely told to work in place."""
    if call.name.rpartition(".")[2] in _FUNCTIONS and call.name.startswith("torch.nn.functional."):
        return _is_told(call.node)
    if not call.path.startswith("self.") or "(" in call.path:
        return False
    made = index.binding(call.path, call.function, call.line)
    if made is None or not isinstance(made.value, ast.Call):
        return False
    value: ast.Call = made.value
    name = resolve(dotted(value.func), made.block.function)
    # The first layer of a sequence is given the input itself.
    if name == "torch.nn.Sequential" and value.args and isinstance(value.args[0], ast.Call):
        value = value.args[0]
        name = resolve(dotted(value.func), made.block.function)
    tail = name.rpartition(".")[2]
    return name.startswith("torch.nn.") and tail in _IN_PLACE and _is_told(value)


def _is_told(value: ast.Call) -> bool:
    given = [each.value for each in value.keywords if each.arg == "inplace"]
    if not given and dotted(value.func).rpartition(".")[2] == "ReLU":
        given = value.args[:1]
    return any(isinstance(each, ast.Constant) and each.value is True for each in given)


def _added_later(name: str, call: Call) -> ast.BinOp | None:
    """Return a sum after a call with a name that the function does not bind again; None if there is none."""
    function = call.function
    if function.assignments.get(name):
        return None
    for statement in walk(function.node):
        match statement:
            case ast.BinOp(left=left, op=ast.Add(), right=right) as total if total.lineno > call.line:
                if name in {dotted(left), dotted(right)}:
                    return total
            case _:
                pass
    return None
