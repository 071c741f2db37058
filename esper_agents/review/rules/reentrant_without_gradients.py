"""ESP516: a re-entrant checkpoint of inputs that require no gradient trains nothing inside."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.frozen_modules import freezings
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import FOLLOWED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.frozen_modules import Freezing
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, Class, FileTables

_CHECKPOINTS = ("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")
_EMBEDDINGS = frozenset({"torch.nn.Embedding", "torch.nn.EmbeddingBag"})
_SWITCHED_ON = re.compile(r"input_require_grads|inputs_require_grad|gradient_checkpointing_enable")


class ReentrantWithoutGradients(Rule):
    """A checkpoint with `use_reentrant=True` whose inputs come from data, or from an embedding that is frozen.

    ## Why it costs
    The re-entrant variant builds no graph unless one of its inputs requires gradients. Behind a frozen embedding, as
    when adapters are trained, or in the first block of a network, the weights inside get no gradient. PyTorch warns
    "None of the inputs have requires_grad=True" and goes on.

    ## When it is right
    `use_reentrant=False`, which has no such condition, or inputs that are made to require gradients.

    ## Sources
    PyTorch documentation of `torch.utils.checkpoint.checkpoint`, list of differences of the two variants.
    """

    code, name = "ESP516", "reentrant-without-gradients"
    severity, category = Severity.WARNING, Category.COMPILE
    bad = (
        "from torch import nn\n"
        "from torch.utils.checkpoint import checkpoint\n"
        "\n"
        "\n"
        "class Encoder(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.embedding = nn.Embedding(1000, 64)\n"
        "        self.block = nn.Linear(64, 64)\n"
        "\n"
        "    def forward(self, ids):\n"
        "        x = self.embedding(ids)\n"
        "        return checkpoint(self.block, x, use_reentrant=True)\n"
        "\n"
        "\n"
        "model = Encoder()\n"
        "model.requires_grad_(False)\n"
        "model.block.requires_grad_(True)\n"
    )
    good = bad.replace("use_reentrant=True", "use_reentrant=False")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the checkpoints whose inputs require no gradient."""
        for call in file.calls_to(*_CHECKPOINTS):
            owner = call.function.owner
            if owner is None or not index.is_module(owner) or not _is_reentrant(call):
                continue
            attribute = _embedding_behind(call, owner)
            frozen = _freezing_of(owner, index) if attribute else None
            if frozen is not None and not _is_switched_on(attribute, index):
                place = f"line {frozen.line}"
                if frozen.function.file is not file:
                    place = f"{frozen.function.file.path}:{frozen.line}"
                yield self._found(call, f"`{attribute}`, whose output this is given, is frozen ({place})")
            elif not attribute and _takes_data(call, owner, index) and not _is_switched_on("x", index):
                yield self._found(call, "its input is that of the model, which requires no gradient")

    def _found(self, call: Call, why: str) -> RuleMatch:
        return self.hit(
            call.node,
            f"this re-entrant checkpoint builds no graph, because {why}: what it runs is not trained",
            remedy="write `use_reentrant=False`",
            confidence=Confidence.MODERATE,
            basis=FOLLOWED,
        )


def _is_reentrant(call: Call) -> bool:
    given = call.argument(-1, "use_reentrant")
    return isinstance(given, ast.Constant) and given.value is True


def _input(call: Call) -> ast.Name | None:
    """Return the one tensor that a checkpoint is given, if that is a name."""
    given = call.node.args[2:] if call.tail == "checkpoint_sequential" else call.node.args[1:]
    return given[0] if len(given) == 1 and isinstance(given[0], ast.Name) else None


def _embedding_behind(call: Call, owner: Class) -> str:
    """Return the attribute of an embedding whose output a checkpoint is given first; empty if there is none."""
    given = _input(call)
    made = call.function.assignments.get(given.id, []) if given is not None else []
    first = made[0].value if made and made[0].line < call.line and not made[0].is_unpacked else None
    path = dotted(first.func) if isinstance(first, ast.Call) else ""
    held = owner.attributes.get(path, [])
    is_embedding = len(held) == 1 and isinstance(held[0].value, ast.Call)
    if is_embedding and resolve(dotted(held[0].value.func), held[0].block.function) in _EMBEDDINGS:  # type: ignore[attr-defined]
        return path
    return ""


def _freezing_of(owner: Class, index: ProjectIndex) -> Freezing | None:
    """Return what freezes a whole model of a class, by its object or by a parameter that has its parts."""
    for file in index.files.values():
        for found in freezings(file):
            node = found.node.func if isinstance(found.node, ast.Call) else None
            held = node.value if isinstance(node, ast.Attribute) else None
            if held is not None and index.class_of(held, found.function, found.line) is owner:
                return found
            parts = {f"self.{each.partition('.')[2].partition('.')[0]}" for each in _paths(found)}
            if found.path in found.function.parameters and parts and parts <= owner.attributes.keys():
                return found
    return None


def _paths(found: Freezing) -> set[str]:
    """Return the paths of a function that lead into a frozen model, methods of modules left out."""
    nodes = [each for each in ast.walk(found.function.node) if isinstance(each, ast.Attribute)]
    paths = {dotted(each) for each in nodes if isinstance(each.value, ast.Name) and each.value.id == found.path}
    return {
        each for each in paths if each.rpartition(".")[2] not in {"parameters", "requires_grad_", "named_parameters"}
    }


def _takes_data(call: Call, owner: Class, index: ProjectIndex) -> bool:
    """Return whether a checkpoint is given the input of a model that is made outside of other modules only."""
    given = _input(call)
    is_own = given is not None and given.id in call.function.parameters and call.function.name == "forward"
    if given is None or not is_own or call.block.loop is not None:
        return False
    if call.function.last_assignment(given.id, call.line) is not None:
        return False
    made = [each for each in index.calls_ending(owner.name) if index.class_called(each.node, each.function) is owner]
    outside = [each for each in made if each.function.owner is None or not index.is_module(each.function.owner)]
    return bool(made) and len(outside) == len(made)


def _is_switched_on(attribute: str, index: ProjectIndex) -> bool:
    """Return whether some code makes the inputs, or the output of an embedding, require gradients."""
    name = re.escape(attribute.rpartition(".")[2])
    own = re.compile(rf"\b{name}\b[\w.()\[\]]*\.requires_grad(?:_\((?:True|requires_grad=True)?\)|\s*=\s*True)")
    return any(_SWITCHED_ON.search(file.text) or own.search(file.text) for file in index.files.values())
