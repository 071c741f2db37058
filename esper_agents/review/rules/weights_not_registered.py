"""ESP215: a module keeps layers or weights where it does not know of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.weighted_layers import is_weighted_layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Class, FileTables, Function

_TENSOR = pattern(r"torch\.(?:randn|rand|zeros|ones|empty|full|tensor|normal)")
_SEQUENCES = frozenset({"append", "extend", "insert"})
# What makes layers known to a module by name, and what does so for all that it is given.
_NAMING = frozenset({"add_module", "register_module", "register_parameter", "setattr", "__setattr__"})
_CONTAINERS = frozenset({"ModuleList", "ModuleDict", "Sequential", "ParameterList", "ParameterDict"})


class WeightsNotRegistered(Rule):
    """Layers in a plain list or dictionary of a module, or a bare tensor that requires gradients as its attribute.

    ## Why it costs
    A module finds its parts among its attributes, and looks into no list. `parameters()` leaves them out, so that no
    optimizer trains them, `state_dict()` so that they are not saved, and `.to(device)` so that they stay behind.

    ## When it is right
    The parts are to be hidden from the module, such as a frozen teacher, and other code moves and saves them. Lists
    that are also given to a `ModuleList`, a `Sequential` or `add_module` are not reported.

    ## Sources
    PyTorch documentation of `torch.nn.ModuleList`, `torch.nn.ModuleDict` and `torch.nn.Parameter`.
    """

    code, name = "ESP215", "weights-not-registered"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "from torch import nn\n"
        "\n"
        "\n"
        "class Tower(nn.Module):\n"
        "    def __init__(self, depth):\n"
        "        super().__init__()\n"
        "        self.layers = [nn.Linear(64, 64) for _ in range(depth)]\n"
        "\n"
        "    def forward(self, x):\n"
        "        for layer in self.layers:\n"
        "            x = layer(x).relu()\n"
        "        return x\n"
    )
    good = bad.replace(
        "[nn.Linear(64, 64) for _ in range(depth)]", "nn.ModuleList(nn.Linear(64, 64) for _ in range(depth))"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield where a module hides its weights from itself."""
        for owner in file.classes:
            maker = owner.methods.get("__init__")
            if maker is None or not index.is_module(owner) or _registers(owner):
                continue
            for path, node in (*_assigned(maker, index), *_appended(maker, index)):
                if path.startswith("self.") and path.count(".") == 1:
                    yield self._hidden(path, node)

    def _hidden(self, path: str, node: ast.expr) -> RuleMatch:
        is_tensor = isinstance(node, ast.Call) and any(keyword.arg == "requires_grad" for keyword in node.keywords)
        container = "nn.ModuleDict" if isinstance(node, ast.Dict | ast.DictComp) else "nn.ModuleList"
        instead = "nn.Parameter" if is_tensor else container
        return self.hit(
            node,
            f"{path!r} is unknown to the module: no optimizer gets these weights, and they are neither moved nor saved",
            remedy=f"make it an `{instead}`",
            basis=SEEN,
        )


def _assigned(maker: Function, index: ProjectIndex) -> Iterator[tuple[str, ast.expr]]:
    """Yield the attributes that are given layers in a plain container, or a bare tensor that is to be trained."""
    for path, assignments in maker.assignments.items():
        if len(assignments) == 1 and not assignments[0].is_unpacked:
            value = assignments[0].value
            if any(is_weighted_layer(each, maker, index) for each in _held(value)) or _is_trained_tensor(value, maker):
                yield path, value


def _appended(maker: Function, index: ProjectIndex) -> Iterator[tuple[str, ast.expr]]:
    """Yield the attributes that start as an empty list, and to which a layer is added."""
    for call in maker.calls:
        made = maker.assignments.get(call.receiver, ()) if call.tail in _SEQUENCES else ()
        added = [each for value in call.node.args for each in (value, *_held(value))]
        is_plain = len(made) == 1 and isinstance(made[0].value, ast.List) and not made[0].value.elts
        if is_plain and any(is_weighted_layer(each, maker, index) for each in added):
            yield call.receiver, call.node


def _held(value: ast.expr) -> list[ast.expr]:
    """Return what a plain container holds, as written."""
    if isinstance(value, ast.List | ast.Tuple):
        return value.elts
    if isinstance(value, ast.Dict):
        return value.values
    if isinstance(value, ast.ListComp):
        return [value.elt]
    if isinstance(value, ast.DictComp):
        return [value.value]
    return []


def _is_trained_tensor(value: ast.expr, maker: Function) -> bool:
    if not isinstance(value, ast.Call) or not _TENSOR.fullmatch(resolve(dotted(value.func), maker)):
        return False
    return any(
        keyword.arg == "requires_grad" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in value.keywords
    )


def _registers(owner: Class) -> bool:
    """Return whether a class hands attributes of its own to what registers them."""
    return any(
        call.tail in _NAMING
        or (call.tail in _CONTAINERS and any("self." in ast.unparse(arg) for arg in call.node.args))
        for method in owner.methods.values()
        for call in method.calls
    )
