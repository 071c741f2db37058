"""ESP265: raw scores of a loss with logits are compared with 0.5, or rounded, as if they were probabilities."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.activations import Activation
from esper_agents.review.called_losses import called_loss, calls_of_losses
from esper_agents.review.endings import last_operation
from esper_agents.review.names import below, dotted
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_LOSS = "binary_cross_entropy_with_logits"
_SAME = frozenset({"squeeze", "view", "reshape", "flatten", "detach", "cpu", "float", "ravel"})


class LogitsComparedWithHalf(Rule):
    """A threshold of 0.5 on the scores that `BCEWithLogitsLoss` is given.

    ## Why it costs
    The loss takes the sigmoid itself. A score of 0 is a probability of 0.5; a score of 0.5 is one of 0.62. Compared
    with 0.5, or rounded, samples between the two count as negative: accuracy and recall are too low.

    ## When it is right
    A threshold for scores that was chosen on purpose; it is hardly ever 0.5.

    ## Sources
    PyTorch documentation of `torch.nn.BCEWithLogitsLoss`: it combines a sigmoid layer and `BCELoss`.
    """

    code, name = "ESP265", "logits-compared-with-half"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def evaluate(model, x, y):\n"
        "    out = model(x)\n"
        "    loss = F.binary_cross_entropy_with_logits(out, y)\n"
        "    return loss, ((out > 0.5) == y).float().mean()\n"
    )
    good = bad.replace("out > 0.5", "out > 0")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the thresholds of 0.5 on raw scores."""
        if not (file.imports_torch and ("0.5" in file.text or "round(" in file.text)):
            return
        forwards = index.once("networks with losses of logits", lambda: _networks(index))
        if not forwards and not any(
            _LOSS in each.text or "BCEWithLogits" in each.text for each in index.files.values()
        ):
            return
        losses = _losses_in(file, index)
        for function in file.functions:
            for node, value in _thresholds(function):
                loss = _loss_of(value, node, losses.get(function, ()))
                if loss is not None:
                    yield self._found(node, f"`{_LOSS}` takes them on line {loss.line}", is_here=True)
                elif isinstance(node, ast.Compare) and _is_of_network(value, function, node.lineno, forwards, index):
                    yield self._found(node, f"`{_LOSS}` takes them elsewhere", is_here=False)

    def _found(self, node: ast.expr, who: str, *, is_here: bool) -> RuleMatch:
        what = f"these are raw scores ({who})"
        return self.hit(
            node,
            f"{what}, and a score of 0.5 is a probability of 0.62",
            remedy="compare with 0, or apply `torch.sigmoid` first",
            confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
            basis=SEEN if is_here else FOLLOWED,
        )


def _losses_in(file: FileTables, index: ProjectIndex) -> dict[Function, list[Call]]:
    found: dict[Function, list[Call]] = {}
    for call in calls_of_losses(file, index):
        if called_loss(call, index)[0] == _LOSS:
            found.setdefault(call.function, []).append(call)
    return found


def _networks(index: ProjectIndex) -> frozenset[Function]:
    """Return the functions whose raw scores go into a loss with logits."""
    found = set()
    for file in index.files.values():
        for calls in _losses_in(file, index).values() if file.imports_torch else ():
            for call in calls:
                scores = call.argument(0, "input")
                made = last_operation(scores, call.function, call.line, index) if scores is not None else None
                if made is not None and made.activation is Activation.SCORES and made.function is not call.function:
                    found.add(made.function)
    return frozenset(found)


def _is_of_network(
    value: ast.expr, function: Function, line: int, forwards: frozenset[Function], index: ProjectIndex
) -> bool:
    made = last_operation(value, function, line, index) if forwards else None
    return made is not None and made.activation is Activation.SCORES and made.function in forwards


def _thresholds(function: Function) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the comparisons of something with 0.5, and the roundings, of a function."""
    nodes: list[ast.AST] = list(getattr(function.node, "body", ()))
    while nodes:
        node = nodes.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case ast.Compare(left=value, ops=[ast.Gt() | ast.GtE()], comparators=[ast.Constant(value=0.5)]):
                yield node, value
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="round"), args=[value]):
                yield node, value
            case ast.Call(func=ast.Attribute(value=value, attr="round"), args=[]):
                yield node, value
            case ast.Call(func=ast.Attribute(value=value, attr="gt" | "ge"), args=[ast.Constant(value=0.5)]):
                yield node, value
            case _:
                pass
        nodes += below(node)


def _loss_of(value: ast.expr, node: ast.expr, losses: list[Call] | tuple[()]) -> Call | None:
    """Return the loss that is given the same value."""
    path = _path(value)
    for call in losses:
        scores = call.argument(0, "input")
        if path and scores is not None and _path(scores) == path:
            function = call.function
            one, two = function.last_assignment(path, call.line), function.last_assignment(path, node.lineno)
            if one is two:
                return call
    return None


def _path(node: ast.expr) -> str:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
        node = node.func.value
    return dotted(node) if isinstance(node, ast.Name | ast.Attribute) else ""
