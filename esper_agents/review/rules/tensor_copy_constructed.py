"""ESP206: a tensor is made out of a tensor, and loses its graph."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import tests_around
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.tensor_kinds import Tensors
from esper_agents.review.training import is_backward, losses_of
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_MAKING = (
    *("torch.tensor", "torch.Tensor", "torch.FloatTensor", "torch.cuda.FloatTensor", "torch.as_tensor"),
    *("torch.autograd.Variable", "torch.DoubleTensor", "torch.HalfTensor", "torch.asarray"),
)
# What copies the values of a list, and hands a tensor on as it is.
_AS_IT_IS = frozenset({"as_tensor", "asarray", "Variable"})
_COPYING = frozenset({"tensor", "new_tensor"})
_GRAPHS = pattern(r"\w*log_?probs?|\w*losses|\w*logits|entropies")
_KIND = pattern(r"isinstance|is_tensor|type\(")
_LOSS_FUNCTION = pattern(r"\w*loss\w*|training_step|forward|step", re.IGNORECASE)


class TensorCopyConstructed(Rule):
    """A `torch.tensor(...)` of something that is a tensor already.

    ## Why it costs
    It copies the numbers and forgets where they came from: no gradient flows through the new tensor. Where it goes into
    a loss, training goes on and what was wrapped learns nothing. Everywhere else it is a copy, with a warning.

    ## When it is right
    Never: `x.detach().clone()` says that a copy without a graph is meant, and `torch.stack` joins tensors with theirs.

    ## Sources
    PyTorch documentation of `torch.tensor`: the warning on copy construction, and "equivalent to `x.detach().clone()`".
    """

    code, name = "ESP206", "tensor-copy-constructed"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def step(model, parts, optimizer):\n"
        "    optimizer.zero_grad()\n"
        "    losses = [criterion(model(x), y) for x, y in parts]\n"
        "    total = torch.tensor(losses, requires_grad=True).mean()\n"
        "    total.backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("torch.tensor(losses, requires_grad=True)", "torch.stack(losses)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the tensors made of tensors."""
        for call in (*file.calls_to(*_MAKING), *file.calls_ending("new_tensor")):
            given = call.argument(0, "data")
            if given is None or _is_asked_for(call, given) or _is_short_of_a_copy(call, given):
                continue
            inside = Tensors(call.function, call.line, index).holds(given) or (
                "list" if _is_named_as_graph(given) else ""
            )
            loses_graph = inside in {"graph", "list"} or (_is_bare_loss(call) and not _is_literal(given))
            if loses_graph and not without_gradients(call.block) and _goes_backward(call, index):
                yield self._found(call, inside)
            elif inside in {"graph", "data"} and call.tail in _COPYING:
                yield self._copied(call)

    def _found(self, call: Call, inside: str) -> RuleMatch:
        instead = "`torch.stack(...)`" if inside == "list" else "the tensor itself"
        return self.hit(
            call.node,
            "the loss loses its graph here: `torch.tensor` copies the numbers, and no gradient flows through the copy",
            remedy=f"use {instead}, which keeps the graph",
            basis=SEEN,
        )

    def _copied(self, call: Call) -> RuleMatch:
        return self.hit(
            call.node,
            "a tensor is copied and detached by `torch.tensor`, which warns about it at run time",
            remedy="say `x.detach().clone()` where a copy is meant, and use the tensor itself where none is",
            confidence=Confidence.MODERATE,
            severity=Severity.SUGGESTION,
        )


def _is_asked_for(call: Call, given: ast.expr) -> bool:
    """Return whether a test around asks what is given whether it is a tensor."""
    tests = [
        *tests_around(call.block, call.function.block),
        *([call.parent.test] if isinstance(call.parent, ast.IfExp) else []),
    ]
    return any(_KIND.search(text) and ast.unparse(given) in text for text in map(ast.unparse, tests))


def _is_short_of_a_copy(call: Call, given: ast.expr) -> bool:
    """Return whether a call hands on the tensor that it is given, with its graph."""
    if call.tail not in _AS_IT_IS:
        return False
    is_cut = call.tail == "Variable" and (
        (isinstance(given, ast.Attribute) and given.attr == "data") or tail_of(dotted(given)) == "detach"
    )
    return not (is_cut or isinstance(given, ast.List | ast.ListComp | ast.Tuple) or _is_listed(call, given))


def _is_listed(call: Call, given: ast.expr) -> bool:
    bound = call.function.assignments.get(dotted(given), ()) if isinstance(given, ast.Name) else ()
    return bool(bound) and all(isinstance(each.value, ast.List | ast.ListComp) for each in bound)


def _is_bare_loss(call: Call) -> bool:
    """Return whether what goes backward is the new tensor itself, or a sum or mean of it."""
    value = call.statement.value if isinstance(call.statement, ast.Assign) else None
    while isinstance(value, ast.Call) and value is not call.node and isinstance(value.func, ast.Attribute):
        value = value.func.value
    sent = {path for each in call.function.calls if is_backward(each) for path in losses_of(each)}
    targets = call.statement.targets if isinstance(call.statement, ast.Assign) else []
    return value is call.node and any(dotted(target) in sent for target in targets)


def _is_literal(node: ast.expr) -> bool:
    return not any(isinstance(each, ast.Name | ast.Call) for each in walk(node))


def _is_named_as_graph(given: ast.expr) -> bool:
    """Return whether a parameter or an attribute is named like a list of what a model gave."""
    return isinstance(given, ast.Attribute) and _GRAPHS.fullmatch(given.attr) is not None


def _goes_backward(call: Call, index: ProjectIndex, hops: int = 2) -> bool:
    """Return whether a value goes into what its function sends backward, or hands back as a loss."""
    function = call.function
    sent = {path for each in function.calls if is_backward(each) for path in losses_of(each)}
    is_loss = _LOSS_FUNCTION.fullmatch(function.name) is not None
    returned = [each.value for each, _ in function.returns if each.value is not None]
    handed = {dotted(part) for each in returned for part in walk(each) if isinstance(part, ast.Name)}
    is_returned = any(_contains(each, call.node) for each in returned)
    is_returned = is_returned or bool(_bound_to(call) & _flowing_into(function, handed))
    is_forward = function.name == "forward" and function.owner is not None and index.is_module(function.owner)
    if is_returned and (is_forward or "loss" in function.qualname.lower()):
        return True
    if any(is_backward(each) and _contains(each.node, call.node) for each in function.calls):
        return True
    bound = _bound_to(call)
    if bound & _flowing_into(function, sent | handed if is_loss else sent):
        return True
    is_returned = is_returned or bool(bound & _flowing_into(function, handed))
    return (
        is_returned and hops > 0 and any(_goes_backward(caller, index, hops - 1) for caller in index.callers(function))
    )


def _bound_to(call: Call) -> set[str]:
    into = {
        each.receiver
        for each in call.function.calls
        if each.tail == "append" and each.statement is call.statement and _contains(each.node, call.node)
    }
    return into | {
        path
        for path, assignments in call.function.assignments.items()
        if any(
            assignment.statement is call.statement and _contains(assignment.value, call.node)
            for assignment in assignments
        )
    }


def _flowing_into(function: Function, sent: set[str]) -> set[str]:
    found = {each for each in sent if each}
    queue = list(found)
    for name in queue:
        for each in (*function.assignments.get(name, ()), *function.assignments.get(f"{name}[]", ())):
            read = {dotted(part) for part in walk(each.value) if isinstance(part, ast.Name | ast.Attribute)}
            queue += [part for part in sorted(read) if part not in found]
            found |= read
    return found


def _contains(node: ast.AST, part: ast.AST) -> bool:
    return any(each is part for each in walk(node))
