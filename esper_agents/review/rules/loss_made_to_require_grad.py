"""ESP245: `requires_grad` is switched on for a loss, which hides that it has no graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.rule import INFERRED, SEEN, FileRule
from esper_agents.review.training import backward_calls, loss_of, losses_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

# What makes a new tensor out of another, without its graph.
_COPIES = frozenset({"torch.tensor", "torch.as_tensor", "torch.autograd.Variable", "torch.autograd.variable.Variable"})
_MAKING = frozenset({"zeros", "ones", "tensor", "zeros_like", "ones_like", "full", "rand", "randn", "empty", "arange"})


class LossMadeToRequireGrad(FileRule):
    """A loss whose `requires_grad` is switched on before it is sent backward.

    ## Why it costs
    A loss that comes from a model requires gradients already. If autograd refuses it ("element 0 of tensors does not
    require grad"), its graph was cut on the way. Switching `requires_grad` on makes the loss a leaf: `backward` then
    raises nothing, sets the gradient of the loss alone, and no weight is trained.

    ## When it is right
    A tensor that is optimized itself and is used in a computation afterwards. Reported only if the very tensor that is
    sent backward is switched on and nothing is computed from it in between.

    ## Sources
    PyTorch notes, "Autograd mechanics", on leaves and `requires_grad`.
    """

    code, name = "ESP245", "loss-made-to-require-grad"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    loss = criterion(model(x).argmax(1).float(), y)\n"
        "    loss.requires_grad = True\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("    loss.requires_grad = True\n", "").replace(".argmax(1).float()", "")

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the places that switch a loss on before it is sent backward."""
        done: set[ast.AST] = set()
        for sent in backward_calls(file):
            for path in losses_of(sent) | {loss_of(sent)}:
                for node, is_copy in _switched_on(path, sent) if path and "(" not in path else ():
                    if node in done:
                        continue
                    done.add(node)
                    what = "a copy without its graph" if is_copy else "no more than the loss itself"
                    yield self.hit(
                        node,
                        f"{path!r} is made to require gradients by hand before its backward (line {sent.line}): if it "
                        f"has no graph, this is {what}, and no weight gets a gradient",
                        remedy="remove it, and find where the graph is cut: `detach`, `no_grad`, `item`, `argmax`",
                        confidence=Confidence.HIGH if is_copy else Confidence.MODERATE,
                        basis=SEEN if is_copy else f"{INFERRED}: a loss with a graph does not need it",
                        severity=Severity.CRITICAL if is_copy else None,
                    )


def _switched_on(path: str, sent: Call) -> Iterator[tuple[ast.AST, bool]]:
    """Yield what switches a loss on between its computation and its backward, and whether that copies it."""
    function = sent.function
    made = function.last_assignment(path, sent.line)
    after = made.line if made is not None else 0
    if made is not None and not made.is_augmented and _copies(made.value, path, function):
        yield made.statement, True
        return
    if path in {"x", "input", "inputs"} or (made is not None and _is_new(made.value, function)):
        return
    for found in function.assignments.get(f"{path}.requires_grad", ()):
        if after <= found.line < sent.line and isinstance(found.value, ast.Constant) and found.value.value is True:
            yield found.statement, False
    for call in function.calls:
        is_on = not call.node.args or (isinstance(call.node.args[0], ast.Constant) and call.node.args[0].value is True)
        if call.tail == "requires_grad_" and call.receiver == path and is_on and after <= call.line <= sent.line:
            yield call.node, False


def _copies(value: ast.expr, path: str, function: Function) -> bool:
    """Return whether a loss is copied into a new leaf: `torch.tensor(loss, requires_grad=True)`."""
    if not isinstance(value, ast.Call) or resolve(dotted(value.func), function) not in _COPIES or not value.args:
        return False
    given = value.args[0]
    is_on = any(
        one.arg == "requires_grad" and isinstance(one.value, ast.Constant) and one.value.value is True
        for one in value.keywords
    )
    computed = function.last_assignment(dotted(given), value.lineno) if isinstance(given, ast.Name) else None
    is_computed = computed is not None and isinstance(computed.value, ast.Call | ast.BinOp)
    return is_on and (is_computed or isinstance(given, ast.Call) or dotted(given).removesuffix(".data") == path)


def _is_new(value: ast.expr, function: Function) -> bool:
    """Return whether a value is a new tensor, which nothing has computed."""
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.Constant)
    return resolve(dotted(value.func), function).rpartition(".")[2] in _MAKING
