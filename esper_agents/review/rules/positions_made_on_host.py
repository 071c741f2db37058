"""ESP148: a module looks up positions that it makes on the host, whatever the device of its input."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted
from esper_agents.review.objects import position_of
from esper_agents.review.rule import INFERRED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_MAKERS = frozenset({"torch.arange", "torch.zeros", "torch.ones", "torch.tensor", "torch.full", "torch.linspace"})
_LAYERS = frozenset({"torch.nn.Embedding", "torch.nn.Linear", "torch.nn.EmbeddingBag"})
# Methods that keep the device.
_KEEPING = frozenset(
    {
        "unsqueeze",
        "expand",
        "repeat",
        "view",
        "reshape",
        "long",
        "float",
        "int",
        "flip",
        "clamp",
        "expand_as",
        "squeeze",
    }
)
_STEPS = 4


class PositionsMadeOnHost(Rule):
    """`self.position(torch.arange(n))` in `forward`, without a device.

    ## Why it costs
    Without `device` the tensor is on the host. Once the module is moved to a GPU the layer gets its weights and its
    indices from two devices and raises.

    ## When it is right
    A module that never leaves the host, and programs that set a default device.

    ## Sources
    PyTorch documentation of `torch.arange` (`device`) and `torch.set_default_device`.
    """

    code, name = "ESP148", "positions-made-on-host"
    severity, category = Severity.SUGGESTION, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Encoder(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.position = nn.Embedding(512, 64)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return x + self.position(torch.arange(x.size(1)))\n"
    )
    good = bad.replace("torch.arange(x.size(1))", "torch.arange(x.size(1), device=x.device)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what is made on the host and given to a layer of the module."""
        for call in file.calls:
            owner = call.function.owner
            is_forward = owner is not None and call.function.name == "forward" and call.path.startswith("self.")
            given = call.argument(0, "input") if is_forward else None
            if owner is None or given is None or not index.is_module(owner):
                continue
            made = _made(given, call.function, call.line, _STEPS)
            if made is None or not _is_layer(call, index) or _sets_default(index):
                continue
            yield self.hit(
                made,
                f"this is on the host, and {call.path!r} is not once the module is moved to a GPU",
                remedy=f"pass the device of the input: `{dotted(made.func)}(..., device=x.device)`",
                confidence=Confidence.MODERATE,
                basis=f"{INFERRED}: if the module is moved to a GPU",
            )


def _made(node: ast.expr, function: Function, line: int, steps: int) -> ast.Call | None:
    """Return the call that makes a value without a device."""
    if not steps:
        return None
    match node:
        case ast.Name(id=name):
            known = function.assignments.get(name, ())
            found = function.last_assignment(name, line) if len(known) == 1 else None
            if found is not None and position_of(found) == (0, 0) and not found.is_augmented:
                return _made(found.value, function, found.line, steps - 1)
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _KEEPING:
            return _made(value, function, line, steps - 1)
        case ast.Subscript(value=value):
            return _made(value, function, line, steps - 1)
        case ast.Call(keywords=keywords) if resolve(dotted(node.func), function) in _MAKERS:
            return None if {each.arg for each in keywords} & {"device", None} else node
        case _:
            pass
    return None


def _is_layer(call: Call, index: ProjectIndex) -> bool:
    origins = index.origins(call.node.func, call.function, call.line)
    return bool(origins) and all(
        isinstance(each.value, ast.Call) and resolve(dotted(each.value.func), each.function) in _LAYERS
        for each in origins
    )


def _sets_default(index: ProjectIndex) -> bool:
    """Return whether the project sets a default device or type of tensors."""

    def look() -> bool:
        return any(index.calls_ending("set_default_device", "set_default_tensor_type"))

    return index.once("a default device is set", look)
