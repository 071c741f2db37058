"""ESP218: a layer takes the place of one whose weights an optimizer already has."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.conditions import are_alternatives, names_in
from esper_agents.review.names import dotted, root_of
from esper_agents.review.objects import resolve
from esper_agents.review.rule import SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables

_OPTIMIZERS = "torch.optim."


class LayerReplacedAfterOptimizer(FileRule):
    """A new layer put into a model after the optimizer was given the model's parameters.

    ## Why it costs
    The optimizer holds the tensors that it was given, and those of the layer that is gone are among them. The new layer
    gets gradients and is never changed: a head that was put in for fine-tuning stays as random as it was made.

    ## When it is right
    The new layer is to stay as it is, or its parameters are added by `add_param_group`, or the optimizer is made anew
    afterwards: the last two are looked for in the function.

    ## Sources
    PyTorch documentation of `torch.optim`, "Constructing it": an optimizer is given the parameters to optimise.
    """

    code, name = "ESP218", "layer-replaced-after-optimizer"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "from torchvision.models import resnet18\n"
        "\n"
        "model = resnet18()\n"
        "optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)\n"
        "model.fc = nn.Linear(512, 10)\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    nn.functional.cross_entropy(model(x), y).backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("model.fc = nn.Linear(512, 10)\n", "").replace(
        "model = resnet18()\n", "model = resnet18()\nmodel.fc = nn.Linear(512, 10)\n"
    )

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the layers that come too late for the optimizer."""
        made = [call for name, calls in file.by_name.items() if name.startswith(_OPTIMIZERS) for call in calls]
        for call in made:
            model, optimizer = _model_of(call), _bound_to(call)
            if not model or not optimizer:
                continue
            for path, assignments in call.function.assignments.items():
                for each in assignments if path.startswith((f"{model}.", f"{model}[")) else ():
                    if _is_late(each, call) and _makes_layer(each) and _is_used(optimizer, each):
                        yield self.hit(
                            each.statement,
                            f"{optimizer!r} was made before (line {call.line}) and does not have the weights "
                            f"of this {path.rstrip('[]')!r}",
                            remedy=f"make {optimizer!r} after it",
                            basis=SEEN,
                        )


def _model_of(call: Call) -> str:
    """Return the model whose parameters, as they are, an optimizer is made with."""
    first = call.argument(0, "params")
    path = dotted(first) if first is not None else ""
    return path.removesuffix(".parameters()") if path.endswith(".parameters()") and "()" not in path[:-2] else ""


def _bound_to(call: Call) -> str:
    statement = call.statement
    is_whole = isinstance(statement, ast.Assign) and statement.value is call.node and len(statement.targets) == 1
    return dotted(statement.targets[0]) if is_whole and isinstance(statement, ast.Assign) else ""


def _is_late(found: Assignment, made: Call) -> bool:
    model = root_of(_model_of(made))
    known = made.function.assignments.get(model, ()) if model != "self" else ()
    is_same = not any(made.line < each.line < found.line for each in known)
    return is_same and found.line > made.line and not are_alternatives(found.block, made.block)


def _makes_layer(found: Assignment) -> bool:
    """Return whether an assignment makes a layer of torch."""
    value = found.value
    name = resolve(dotted(value.func), found.block.function) if isinstance(value, ast.Call) else ""
    return name.startswith("torch.nn.") and name.count(".") == 2 and name.split(".")[2][:1].isupper()  # noqa: PLR2004 - torch, nn and the layer


def _is_used(optimizer: str, found: Assignment) -> bool:
    """Return whether an optimizer is used after a layer was made, as it is."""
    function = found.block.function
    if any(each.line > found.line for each in function.assignments.get(optimizer, ())):
        return False
    later = [call for call in function.calls if call.line >= found.line]
    if any(call.tail == "add_param_group" and call.receiver == optimizer for call in later):
        return False
    returned = any(
        statement.value is not None and optimizer in names_in(statement.value) for statement, _ in function.returns
    )
    return returned or any(call.receiver == optimizer for call in later)
