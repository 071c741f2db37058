"""ESP252: a penalty on a gradient that has no graph, so that nothing is trained by it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.bootstrapping import undetached
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.training import backward_calls_in, losses_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_WEIGHTS = pattern(r"param|weight|theta|last_layer|fast")
_PENALTY = pattern(r"(?:^|_)(?:gp|penalty|r1|r2|reg|regulari[sz]er|regulari[sz]ation|lipschitz)(?:_|$)")
_NUMBERS = frozenset({"item", "numpy", "tolist", "print", "append"})
_STEPS = 6


class PenaltyWithoutGraph(Rule):
    """A term of a loss that is computed from `torch.autograd.grad(...)` without `create_graph=True`.

    ## Why it costs
    Without `create_graph=True` the gradient is a plain tensor. A gradient penalty, or the residual of a differential
    equation, that is computed from it has no gradient with respect to the weights: it changes the number that is
    logged and trains nothing. If it is the whole loss, `backward` raises.

    ## When it is right
    The gradient is measured, shown or used as a constant. Gradients with respect to weights, which first-order
    meta-learning steps with, are not reported.

    ## Sources
    PyTorch documentation of `torch.autograd.grad` (`create_graph`). Gulrajani et al., "Improved Training of
    Wasserstein GANs".
    """

    code, name = "ESP252", "penalty-without-graph"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def gradient_penalty(critic, x):\n"
        "    x.requires_grad_(True)\n"
        "    grad = torch.autograd.grad(critic(x).sum(), x)[0]\n"
        "    return ((grad.flatten(1).norm(2, 1) - 1) ** 2).mean()\n"
    )
    good = bad.replace("critic(x).sum(), x)", "critic(x).sum(), x, create_graph=True)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the gradients without a graph that a loss is computed from."""
        for call in file.calls_to("torch.autograd.grad"):
            inputs = call.argument(1, "inputs")
            if inputs is None or _keeps(call) or call.has_splat() or _WEIGHTS.search(ast.unparse(inputs).lower()):
                continue
            names = _derived(call)
            if not names:
                continue
            function = call.function
            if _is_sent(names, function):
                yield self._found(call, "a loss of this function", Confidence.HIGH, SEEN)
            elif _is_returned(names, function):
                callers = index.callers(function)
                if any(_is_trained(each) for each in callers):
                    yield self._found(call, f"what {function.name!r} returns", Confidence.MODERATE, FOLLOWED)
                elif not callers and (_PENALTY.search(function.name) or _is_to_be_one(function)):
                    basis = f"{INFERRED}: if what this returns is trained"
                    yield self._found(call, f"what {function.name!r} returns", Confidence.MODERATE, basis)

    def _found(self, call: Call, what: str, confidence: Confidence, basis: str) -> RuleMatch:
        return self.hit(
            call.node,
            f"{what} is computed from this gradient, which has no graph: it trains no weight",
            remedy="pass `create_graph=True`",
            confidence=confidence,
            basis=basis,
            severity=None if confidence is Confidence.HIGH or basis is FOLLOWED else Severity.WARNING,
        )


def _keeps(call: Call) -> bool:
    given = call.argument(3, "create_graph")
    return given is not None and not (isinstance(given, ast.Constant) and given.value is False)


def _derived(call: Call) -> set[str]:
    """Return the names of a function that hold a gradient, or what is computed from it."""
    function = call.function
    names: set[str] = set()
    for _ in range(_STEPS):
        before = len(names)
        for path, assignments in function.assignments.items():
            for each in assignments:
                parts = list(undetached(each.value))
                if isinstance(each.value, ast.Call) and tail_of(dotted(each.value.func)) in _NUMBERS:
                    continue
                is_own = any(part is call.node for part in parts)
                is_next = each.line > call.line and any(
                    isinstance(part, ast.Name) and part.id in names for part in parts
                )
                if (is_own or is_next) and path.isidentifier():
                    names.add(path)
        if len(names) == before:
            break
    return names


def _is_sent(names: set[str], function: Function) -> bool:
    return any(names & losses_of(sent) for sent in backward_calls_in(function))


def _is_returned(names: set[str], function: Function) -> bool:
    """Return whether a function returns a number that is computed from a gradient: a mean or a sum."""
    for statement, _ in function.returns:
        value = statement.value
        if value is None or not any(isinstance(each, ast.Name) and each.id in names for each in undetached(value)):
            continue
        made = function.last_assignment(value.id, statement.lineno) if isinstance(value, ast.Name) else None
        shown = made.value if made is not None else value
        called = {tail_of(dotted(each.func)) for each in walk(shown) if isinstance(each, ast.Call)}
        if (
            "grad" not in called
            and called & {"mean", "sum", "mse_loss"}
            and not called & {"detach", "abs_", "cpu", "numpy"}
        ):
            return True
    return False


def _is_to_be_one(function: Function) -> bool:
    """Return whether a function squares the distance of a norm to 1."""
    return any(
        isinstance(each, ast.BinOp)
        and isinstance(each.op, ast.Sub)
        and isinstance(each.right, ast.Constant)
        and each.right.value == 1
        and "norm" in ast.unparse(each.left)
        for each in walk(function.node)
    )


def _is_trained(caller: Call) -> bool:
    """Return whether the result of a call goes into a loss that its function sends backward, or returns."""
    function = caller.function
    names = {
        path
        for path, assignments in function.assignments.items()
        for each in assignments
        if any(part is caller.node for part in walk(each.value))
    }
    for _ in range(_STEPS):
        names |= {
            path
            for path, assignments in function.assignments.items()
            for each in assignments
            if path.isidentifier()
            and any(isinstance(part, ast.Name) and part.id in names for part in undetached(each.value))
        }
    sent = backward_calls_in(function)
    if any(names & losses_of(each) for each in sent):
        return True
    return any(any(part is caller.node for part in walk(each.node)) for each in sent)
