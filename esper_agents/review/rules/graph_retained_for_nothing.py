"""ESP310: a backward keeps its graph though nothing goes through it again."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.models import is_model
from esper_agents.review.names import walk
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.shared_graphs import carried_states, forwards_of
from esper_agents.review.training import innermost_training_loops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_AUTOGRAD = frozenset({"grad", "vjp", "jvp", "jacobian", "hessian", "backward_hook", "functional_call"})


class GraphRetainedForNothing(Rule):
    """A `backward(retain_graph=True)` that is the only backward of a loop whose round makes its own graph.

    ## Why it costs
    A backward frees activations as it goes. With `retain_graph=True` all of them live until the loss is bound again in
    the next round, next to those of the next forward: the peak of memory grows by up to the activations of a batch.
    It is often written against "Trying to backward through the graph a second time", whose cause it hides.

    ## When it is right
    Another backward, or `torch.autograd.grad`, goes through the same graph, or a part of the graph is made before the
    loop.

    ## Sources
    PyTorch documentation of `torch.Tensor.backward` (`retain_graph`): in nearly all cases it is not needed.
    """

    code, name = "ESP310", "graph-retained-for-nothing"
    severity, category = Severity.SUGGESTION, Category.MEMORY
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, loader, optimizer):\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        loss = torch.nn.functional.mse_loss(model(x), y)\n"
        "        loss.backward(retain_graph=True)\n"
        "        optimizer.step()\n"
    )
    good = bad.replace("retain_graph=True", "")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the only backwards of loops that keep their graphs."""
        if "retain_graph" not in file.text:
            return
        carried = {sent for sent, _, _ in carried_states(file, index, retained=True)}
        for loop, sent in innermost_training_loops(file).items():
            first = sent[0]
            if len(sent) > 1 or not _retains(first) or first in carried or _goes_through_again(first, loop):
                continue
            forwards = [each for each in forwards_of(first, loop).values() if is_model(each.path, each, index)]
            if forwards and not _is_made_before(loop, index):
                yield self.hit(
                    first.node,
                    f"`retain_graph=True` keeps all activations of {forwards[0].path!r} (line {forwards[0].line}), and "
                    "nothing goes through this graph again",
                    remedy="remove `retain_graph=True`",
                    confidence=Confidence.MODERATE,
                    basis=SEEN,
                )


def _retains(sent: Call) -> bool:
    return any(
        each.arg == "retain_graph" and isinstance(each.value, ast.Constant) and each.value.value is True
        for each in sent.node.keywords
    )


def _goes_through_again(sent: Call, loop: Block) -> bool:
    """Return whether another call of the loop may use the graph of a loss."""
    inside = [call for call in sent.function.calls if call.block.within(loop) and call is not sent]
    return any(call.tail in _AUTOGRAD or "backward" in call.tail for call in inside) or any(
        isinstance(node, ast.keyword) and node.arg == "create_graph" for node in walk(loop.node)
    )


def _is_made_before(loop: Block, index: ProjectIndex) -> bool:
    """Return whether a loop reads what a model gave before it, or what an earlier round gave."""
    read = {node.id for node in walk(loop.node) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    calls = {call.node: call for call in loop.function.calls}
    for name in read:
        for made in loop.function.assignments.get(name, ()):
            call = calls.get(made.value) if isinstance(made.value, ast.Call) else None
            if call is not None and not made.block.within(loop) and is_model(call.path, call, index):
                return True
    return any(
        path.startswith("self.") and not path.startswith("self.loss") and each.block.within(loop)
        for path, assignments in loop.function.assignments.items()
        for each in assignments
    )
