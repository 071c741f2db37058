"""ESP237: `requires_grad` is set where it means nothing: misspelt, or on a module."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables

_RIGHT = "requires_grad"
_MISSPELT = frozenset(
    {"require_grad", "requires_grads", "require_grads", "required_grad", "requires_gradient", "require_gradient"}
    | {"requries_grad", "reqires_grad", "requires_garad", "requiers_grad", "requiresgrad", "requires_grad_"}
)
_PARAMETERS = (".parameters()", ".named_parameters()", ".weight", ".bias")
# Modules in the networks of torchvision.
_TORCHVISION = "torchvision.models."
_PARTS = frozenset(
    {"fc", "classifier", "features", "layer1", "layer2", "layer3", "layer4", "backbone", "heads", "encoder"}
)
_OF_MODULES = frozenset({"modules", "named_modules", "children", "named_children"})


class FrozenByWrongName(Rule):
    """A parameter whose `require_grad` is set, or a module whose `requires_grad` is set: neither freezes anything.

    ## Why it costs
    Python lets any attribute be set on a parameter or a module. `p.require_grad = False` and
    `model.encoder.requires_grad = False` make a new attribute that nothing reads: the weights go on being trained,
    take memory for gradients, and the pretrained part is lost. Nothing raises.

    ## When it is right
    `p.requires_grad = False` for each parameter, or `module.requires_grad_(False)`. Classes that define an attribute
    of that name are not reported.

    ## Sources
    PyTorch documentation of `torch.nn.Module.requires_grad_` and of `torch.Tensor.requires_grad`.
    """

    code, name = "ESP237", "frozen-by-wrong-name"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = "from torch import nn\n\nmodel = nn.Linear(4, 2)\nfor p in model.parameters():\n    p.require_grad = False\n"
    good = bad.replace("require_grad", "requires_grad")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the assignments that set an attribute without effect."""
        for function in file.functions:
            for path, assignments in function.assignments.items():
                owner, _, name = path.rpartition(".")
                if owner and (name in _MISSPELT or name == _RIGHT):
                    yield from filter(None, (self._judged(owner, name, each, index) for each in assignments))

    def _judged(self, owner: str, name: str, found: Assignment, index: ProjectIndex) -> RuleMatch | None:
        node = found.node.value if isinstance(found.node, ast.Attribute) else None
        if node is None or not isinstance(found.value, ast.Constant) or not isinstance(found.value.value, bool):
            return None
        value = found.value.value
        if name in _MISSPELT:
            if not _is_parameter(owner, found):
                return None
            return self.hit(
                found.statement,
                f"a parameter has no `{name}`: this sets a new attribute, and {_unchanged(value)}",
                remedy=f"write `{owner}.{_RIGHT} = {value}`",
            )
        certainty = _is_module(node, found, index)
        if certainty is None:
            return None
        return self.hit(
            found.statement,
            f"{owner!r} is a module, whose `requires_grad` nothing reads: {_unchanged(value)}",
            remedy=f"write `{owner}.requires_grad_({value})`",
            confidence=Confidence.HIGH if certainty else Confidence.MODERATE,
            basis=SEEN if certainty else FOLLOWED,
        )


def _unchanged(value: bool) -> str:  # noqa: FBT001 - the value that is assigned
    return "its weights stay frozen or trained as before" if value else "its weights are trained as before"


def _is_parameter(owner: str, found: Assignment) -> bool:
    """Return whether a path names a parameter: drawn from `parameters()`, or the weight of a layer."""
    for block in found.block.chain():
        if owner in block.targets and isinstance(block.node, ast.For):
            return dotted(block.node.iter).endswith(_PARAMETERS) or any(
                text in ast.unparse(block.node.iter) for text in _PARAMETERS[:2]
            )
    return owner.endswith(_PARAMETERS[2:])


def _is_module(node: ast.expr, found: Assignment, index: ProjectIndex) -> bool | None:
    """Return whether an object surely is a module seen here; False if it was followed there, None if it may be none."""
    function = found.block.function
    for block in found.block.chain():
        if dotted(node) in block.targets and isinstance(block.node, ast.For) and isinstance(block.node.iter, ast.Call):
            return True if dotted(block.node.iter.func).rpartition(".")[2] in _OF_MODULES else None
    owner = index.class_of(node, function, found.line)
    if owner is not None:
        has_own = any(_RIGHT in each.methods or _RIGHT in each.attributes for each in index.lineage(owner).classes)
        return False if index.is_module(owner) and not has_own else None
    origins = index.origins(node, function, found.line)
    made = [resolve(dotted(each.value.func), each.function) for each in origins if isinstance(each.value, ast.Call)]
    is_all = bool(made) and len(made) == len(origins)
    if isinstance(node, ast.Attribute) and node.attr in _PARTS and not is_all:
        inner = index.origins(node.value, function, found.line)
        of_parts = [
            resolve(dotted(each.value.func), each.function) for each in inner if isinstance(each.value, ast.Call)
        ]
        return True if len(of_parts) == len(inner) == 1 and of_parts[0].startswith(_TORCHVISION) else None
    return True if is_all and all(_makes_module(name) for name in made) else None


def _makes_module(name: str) -> bool:
    last = name.rpartition(".")[2]
    if name.startswith(_TORCHVISION) or name in {"timm.create_model", "torch.hub.load"}:
        return True
    return (
        name.startswith("torch.nn.") and last[:1].isupper() and not last.startswith(("Parameter", "Buffer", "Uninit"))
    )
