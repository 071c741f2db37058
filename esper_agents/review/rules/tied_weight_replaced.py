"""ESP298: a weight that two layers share is replaced in one of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Class, FileTables, Function

_PARAMETER = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})


class TiedWeightReplaced(Rule):
    """A shared weight, `self.out.weight = self.embed.weight`, one side of which gets a new parameter afterwards.

    ## Why it costs
    A new `nn.Parameter`, or a new layer, has its own weight: the two layers are no longer tied. The model has more
    weights than meant, and the output no longer learns with the embedding.

    ## When it is right
    Initialisation in place (`nn.init.normal_(m.weight)`, `m.weight.data.normal_()`), and tying after it.

    ## Sources
    Press and Wolf, "Using the Output Embedding to Improve Language Models". PyTorch documentation of `torch.nn.init`.
    """

    code, name = "ESP298", "tied-weight-replaced"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Model(nn.Module):\n"
        "    def __init__(self, words, size):\n"
        "        super().__init__()\n"
        "        self.embed = nn.Embedding(words, size)\n"
        "        self.out = nn.Linear(size, words, bias=False)\n"
        "        self.out.weight = self.embed.weight\n"
        "        self.embed.weight = nn.Parameter(torch.randn(words, size) * 0.02)\n"
    )
    good = bad.replace(
        "self.embed.weight = nn.Parameter(torch.randn(words, size) * 0.02)",
        "nn.init.normal_(self.embed.weight, std=0.02)",
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what replaces a tied weight after it was tied."""
        for owner in file.classes if ".weight = " in file.text else ():
            method = owner.methods.get("__init__")
            tie = _tie(method) if method is not None else None
            if method is None or tie is None:
                continue
            replaced = next(_replaced(method, tie), None)
            basis = SEEN
            if replaced is None:
                replaced, basis = next(_applied(owner, method, tie, index), None), FOLLOWED
            if replaced is not None and replaced.block.function.file is file:
                yield self.hit(
                    replaced.statement,
                    f"this replaces the weight that {tie.target!r} was tied to on line {tie.line}: they are two again",
                    remedy="tie the weights after this, or initialise in place with `nn.init`",
                    basis=basis,
                )


def _tie(method: Function) -> Assignment | None:
    """Return the assignment of the weight of one layer to another."""
    for path, assignments in method.assignments.items():
        if path.startswith("self.") and path.endswith(".weight"):
            for each in assignments:
                value = dotted(each.value)
                if value.startswith("self.") and value.endswith(".weight") and value != path and "[" not in value:
                    return each
    return None


def _replaced(method: Function, tie: Assignment) -> Iterator[Assignment]:
    """Yield what the same method assigns to a side of a tie after it."""
    for side in (tie.target, dotted(tie.value)):
        for path in (side, side.removesuffix(".weight")):
            for each in method.assignments.get(path, ()):
                if each.line > tie.line and each.block is tie.block and isinstance(each.value, ast.Call):
                    yield each


def _applied(owner: Class, method: Function, tie: Assignment, index: ProjectIndex) -> Iterator[Assignment]:
    """Yield what functions that are applied to all layers after a tie replace."""
    for call in method.calls:
        given = call.argument(0, "fn") if call.path == "self.apply" and call.line > tie.line else None
        path = dotted(given) if given is not None else ""
        applied = index.method(owner, path[5:]) if path.startswith("self.") else None
        if applied is None and given is not None:
            applied = index.function_meant(given, method)
        if applied is None:
            continue
        layer = next((each for each in applied.parameters if each not in {"self", "cls"}), "")
        for each in applied.assignments.get(f"{layer}.weight", ()):
            if isinstance(each.value, ast.Call) and resolve(dotted(each.value.func), applied) in _PARAMETER:
                yield each
