"""ESP249: a frozen network with batch norm is switched to training, so that its statistics go on changing."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.batch_norms import has_batch_norm
from esper_agents.review.frozen_modules import freezings, switches_on
from esper_agents.review.moded_layers import mode_changes_something
from esper_agents.review.models import switches
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.objects import resolve
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.tables import Purpose
from esper_agents.review.training import backward_calls_in
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.frozen_modules import Freezing
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.models import Switch
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Class, FileTables, Function


class FrozenNormInTraining(Rule):
    """A network with batch norm whose parameters are frozen, and which `model.train()` switches to training.

    ## Why it costs
    Frozen parameters stop the optimizer, not batch norm: in training mode it normalises by the batch and moves its
    running statistics. The frozen features change with every batch and are no longer the pretrained ones; validation
    uses other statistics than those that the weights were made for.

    ## When it is right
    `backbone.eval()` after `model.train()`, or a `train` of the model's own that keeps the frozen part in evaluation.
    Adapting the statistics to new data on purpose. A frozen module that is handed in and run without gradients, such as
    a teacher, is a suggestion: whether it has such layers is not in sight.

    ## Sources
    PyTorch documentation of `torch.nn.BatchNorm2d`; Keras guide "Transfer learning & fine-tuning" on frozen batch norm.
    """

    code, name = "ESP249", "frozen-norm-in-training"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "import torchvision\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "def fit(loader):\n"
        '    model = torchvision.models.resnet18(weights="DEFAULT")\n'
        "    for p in model.parameters():\n"
        "        p.requires_grad = False\n"
        "    model.fc = nn.Linear(512, 10)\n"
        "    optimizer = torch.optim.Adam(model.fc.parameters())\n"
        "    model.train()\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        nn.functional.cross_entropy(model(x), y).backward()\n"
        "        optimizer.step()\n"
    )
    good = bad.replace("    model.train()\n", "    model.eval()\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the switches to training that wake the norms of frozen networks."""
        if file.purpose is Purpose.TEST:
            return
        for function in file.functions:
            if not backward_calls_in(function):
                continue
            for switch in switches(function):
                found = _frozen_in(switch, index) if switch.to_training else None
                if found is None or _sets_back(found, switch, index):
                    continue
                place = f"line {found.line}"
                if found.function.file is not file:
                    place = f"{found.function.file.path}:{found.line}"
                if not _has_norms(found, index):
                    yield self._aside(switch, found, place)
                    break
                yield self.hit(
                    switch.call.node,
                    f"this switches {found.path!r} to training as well, which is frozen ({place}): its batch norm goes "
                    "on changing its statistics",
                    remedy=f"call `{_seen_from(found, switch)}.eval()` right after it",
                    confidence=Confidence.MODERATE,
                    basis=SEEN if found.function is function else FOLLOWED,
                )
                break

    def _aside(self, switch: Switch, found: Freezing, place: str) -> RuleMatch:
        return self.hit(
            switch.call.node,
            f"this switches {found.path!r} to training as well, which is frozen ({place}) and run without gradients: "
            "dropout and batch norm in it go on acting",
            remedy=f"call `{_seen_from(found, switch)}.eval()` right after it",
            confidence=Confidence.MODERATE,
            basis=f"{INFERRED}: that it has such layers, since it is handed in from outside",
            severity=Severity.SUGGESTION,
        )


def _seen_from(found: Freezing, switch: Switch) -> str:
    return switch.path + found.path.removeprefix("self") if found.path.startswith("self.") else found.path


def _frozen_in(switch: Switch, index: ProjectIndex) -> Freezing | None:
    """Return what freezes a network with batch norm that a model is or holds."""
    function = switch.call.function
    for found in freezings(function.file):
        is_same = found.path == switch.path or found.path in _parts_of(switch.path, function)
        is_here = found.function is function and is_same and found.line < switch.call.line
        if is_here and _has_norms(found, index) and not switches_on(function, found.last_line):
            return found
    held = switch.call.node.func.value if isinstance(switch.call.node.func, ast.Attribute) else None
    owner = index.class_of(held, function, switch.call.line) if held is not None else None
    frozen = _frozen_parts(index)
    if owner is not None:
        return frozen.get(owner)
    is_open = switch.path in function.parameters and not index.callers(function)
    return next(iter(frozen.values())) if is_open and len(frozen) == 1 and _modules(index) == 1 else None


def _parts_of(path: str, function: Function) -> set[str]:
    """Return what a container is made of: `backbone` and `head` of `nn.Sequential(backbone, head)`."""
    values = [each.value for each in function.assignments.get(path, ())]
    calls = [each for each in values if isinstance(each, ast.Call)]
    held = [arg for call in calls if resolve(dotted(call.func), function) == "torch.nn.Sequential" for arg in call.args]
    return {dotted(arg) for arg in held if isinstance(arg, ast.Name | ast.Attribute)}


def _modules(index: ProjectIndex) -> int:
    return sum(index.is_module(cls) for file in index.files.values() for cls in file.classes)


def _frozen_parts(index: ProjectIndex) -> dict[Class, Freezing]:
    """Return the module classes that freeze a part with batch norm when they are made, and keep no mode themselves."""
    return index.once("frozen parts with norms", lambda: dict(_find_frozen_parts(index)))


def _find_frozen_parts(index: ProjectIndex) -> Iterator[tuple[Class, Freezing]]:
    for file in index.files.values():
        for found in freezings(file):
            owner = found.function.owner
            is_part = found.function.name == "__init__" and found.path.startswith("self.")
            if owner is None or not is_part or not index.is_module(owner) or index.method(owner, "train") is not None:
                continue
            if (_has_norms(found, index) or _is_aside(found, owner, index)) and not any(
                switches_on(each, found.last_line if each is found.function else 0) for each in owner.methods.values()
            ):
                yield owner, found


def _is_aside(found: Freezing, owner: Class, index: ProjectIndex) -> bool:
    """Return whether a frozen module is handed in and run without gradients by the one that holds it: a teacher."""
    made, function = found.function.last_assignment(found.path, found.line), found.function
    if made is None or not isinstance(made.value, ast.Name) or made.value.id not in function.parameters:
        return False
    known = index.class_of(made.value, function, made.line)
    if known is not None and not mode_changes_something(known, index):
        return False
    runs = [call for each in owner.methods.values() for call in each.calls if call.path == found.path]
    return bool(runs) and all(without_gradients(call.block) for call in runs)


def _has_norms(found: Freezing, index: ProjectIndex) -> bool:
    """Return whether a frozen module surely has batch norm."""
    made = found.function.last_assignment(found.path, found.line)
    return made is not None and not made.is_unpacked and has_batch_norm(made.value, found.function, index)


def _sets_back(found: Freezing, switch: Switch, index: ProjectIndex) -> bool:
    """Return whether something sets the frozen network, or its norms, to evaluation after the switch."""
    name = tail_of(found.path)
    functions = {*index.closure(switch.call.function), *_methods(found.function)}
    for function in functions:
        for call in function.calls:
            is_later = function is not switch.call.function or call.line > switch.call.line
            is_other = name != tail_of(switch.path)
            if call.tail == "eval" and tail_of(call.receiver) == name and (is_later or is_other):
                return True
            if call.tail in {"isinstance", "apply"} and "Norm" in ast.unparse(call.node):
                return True
            if "freeze" in call.tail or "frozen" in call.tail:
                return True
    return False


def _methods(function: Function) -> list[Function]:
    return list(function.owner.methods.values()) if function.owner is not None else []
