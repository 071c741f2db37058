"""ESP251: a loss runs through a new module whose weights no optimizer has."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.freezing import may_freeze
from esper_agents.review.models import gradients_off_around
from esper_agents.review.names import dotted, root_of, walk
from esper_agents.review.objects import wrapped
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.shared_graphs import forwards_of
from esper_agents.review.training import innermost_training_loops, parameter_owners
from esper_agents.review.weighted_layers import is_weighted_layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, Class, FileTables, Function

_OPTIMIZERS = "torch.optim."
_AWAY = frozenset({"load_state_dict", "requires_grad_", "eval", "apply", "share_memory", "register_forward_hook"})


class ModuleWithoutOptimizer(Rule):
    """A training over two modules whose optimizer was made with the parameters of one.

    ## Why it costs
    The other module keeps its random weights. The loss still falls, as the rest learns around it, so nothing raises
    and the model is merely worse than it could be.

    ## When it is right
    A projection that is random on purpose, or a part that is frozen. Reported only if the module is made in the same
    function with new weights, nothing loads or freezes them, nothing else is given the module, and the optimizers
    are all made there as well.

    ## Sources
    PyTorch documentation of `torch.optim`, "Constructing it".
    """

    code, name = "ESP251", "module-without-optimizer"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "backbone, head = nn.Linear(8, 8), nn.Linear(8, 2)\n"
        "optimizer = torch.optim.Adam(backbone.parameters())\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    nn.functional.cross_entropy(head(backbone(x)), y).backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("Adam(backbone.parameters())", "Adam([*backbone.parameters(), *head.parameters()])")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the optimizers that lack a module of the loss."""
        done: set[str] = set()
        for loop, sent in innermost_training_loops(file).items():
            function = loop.function
            optimizers = _optimizers(function)
            held = _held(optimizers)
            if not optimizers or not held:
                continue
            for call in {each: None for one in sent for each in forwards_of(one, loop).values()}:
                path = call.path
                is_plain = path.isidentifier() or (path.startswith("self.") and path.count(".") == 1)
                if path in done or not is_plain or path in held or gradients_off_around(call.block, index):
                    continue
                if _is_new(path, function, call.line, index) and not _is_passed_on(path, function):
                    if may_freeze(path, function):
                        continue
                    done.add(path)
                    last = optimizers[-1]
                    yield self.hit(
                        last.node,
                        f"the loss runs through {path!r} (line {call.line}), and no optimizer has its weights: they "
                        "stay random",
                        remedy=f"give the optimizer `{path}.parameters()` as well",
                        basis=SEEN,
                    )


def _optimizers(function: Function) -> list[Call]:
    """Return the calls of a function that make optimizers; none if it may have others."""
    owner = function.owner
    places = [function, *(each for each in owner.methods.values() if each is not function)] if owner else [function]
    calls = [call for each in places for call in each.calls]
    if any(call.tail == "add_param_group" or "optim" in call.tail.lower() for call in calls):
        return []
    return [
        call
        for call in calls
        if call.name.startswith(_OPTIMIZERS) and "lr_scheduler" not in call.name and call.tail[:1].isupper()
    ]


def _held(optimizers: list[Call]) -> frozenset[str]:
    """Return the paths whose parameters optimizers have, with all that they are parts of; none if one is unknown."""
    found: set[str] = set()
    modules = {each.receiver for call in optimizers for each in call.function.calls if "parameters" in each.tail}
    for call in optimizers:
        first = call.argument(0, "params")
        owners = parameter_owners(first, call.block, call.line) if first is not None else frozenset()
        if not owners or not owners <= modules:
            return frozenset()
        if "self" in owners:
            return frozenset()
        found |= owners | {root_of(each) for each in owners}
    return frozenset(found)


def _is_new(path: str, function: Function, line: int, index: ProjectIndex) -> bool:
    """Return whether a name holds a module that was made in a function, with weights that are random."""
    owner = function.owner if path.startswith("self.") else None
    made = owner.attributes.get(path, []) if owner is not None else function.assignments.get(path, [])
    if len(made) != 1 or made[0].is_unpacked or (owner is None and made[0].line >= line):
        return False
    value, function = made[0].value, made[0].block.function
    while (inner := wrapped(value)) is not None:
        value = inner
    return is_weighted_layer(value, function, index)


def _is_passed_on(path: str, function: Function) -> bool:
    """Return whether something else gets a module, or changes what its weights are."""
    owner = function.owner if path.startswith("self.") else None
    if owner is not None:
        return _is_passed_on_by(owner, path)
    allowed: set[int] = set()
    for node in walk(function.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            allowed.add(id(node.func))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == path and node.attr in _AWAY:
                return True
            allowed.add(id(node.value))
    uses = [node for node in walk(function.node) if isinstance(node, ast.Name) and dotted(node) == path]
    return any(isinstance(each.ctx, ast.Load) and id(each) not in allowed for each in uses)


def _is_passed_on_by(owner: Class, path: str) -> bool:
    """Return whether a class gives a module that it holds to something else, or changes what its weights are."""
    allowed: set[int] = set()
    uses: list[ast.Attribute] = []
    for node in walk(owner.node):
        if isinstance(node, ast.Call) and dotted(node.func) == path:
            allowed.add(id(node.func))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and dotted(node.value) == path:
            if node.attr in _AWAY:
                return True
            allowed.add(id(node.value))
        if isinstance(node, ast.Attribute) and dotted(node) == path and isinstance(node.ctx, ast.Load):
            uses.append(node)
    return any(id(each) not in allowed for each in uses)
