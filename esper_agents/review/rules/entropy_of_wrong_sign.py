"""ESP273: the entropy of a policy is added to a loss that is minimised."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.divergences import signed_terms
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.rule import FOLLOWED, Rule
from esper_agents.review.training import backward_calls, losses_of
from esper_agents.review.unpacked import parts_returned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

_AVERAGING = frozenset({"mean", "sum", "squeeze", "view"})


class EntropyOfWrongSign(Rule):
    """A policy loss plus a positive multiple of the policy's entropy.

    ## Why it costs
    The entropy is a bonus for exploration: subtracted from the loss, it keeps the policy random. Added, minimising the
    loss makes the policy deterministic at once; it stops exploring and stays at the first behaviour that paid.

    ## When it is right
    A value that is the negative entropy already, or a negative coefficient. A policy that is to become certain on
    purpose.

    ## Sources
    Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning", section 4; Schulman et al., "Proximal Policy
    Optimization Algorithms", equation 9.
    """

    code, name = "ESP273", "entropy-of-wrong-sign"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def update(dist, action, advantage, optimizer):\n"
        "    loss = -(dist.log_prob(action) * advantage).mean() + 0.01 * dist.entropy().mean()\n"
        "    optimizer.zero_grad()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("+ 0.01", "- 0.01")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the losses to which an entropy is added."""
        if not any(index.calls_ending("entropy")) or not any(index.calls_ending("log_prob")):
            return
        for call in backward_calls(file):
            for path in sorted(losses_of(call)):
                made = call.function.last_assignment(path, call.line)
                if made is None or made.is_augmented or made.is_unpacked or made.block.function is not call.function:
                    continue
                terms = list(signed_terms(made.value))
                for side, term in terms if len(terms) > 1 else ():
                    if side > 0 and _is_entropy(term, call.function, made.line, index):
                        yield self.hit(
                            term,
                            "an entropy of the policy is added to a loss that is minimised: the policy stops exploring",
                            remedy=f"subtract it: `- {ast.unparse(term)}`",
                            confidence=Confidence.MODERATE,
                            basis=FOLLOWED,
                        )


def _is_entropy(term: ast.expr, function: Function, line: int, index: ProjectIndex) -> bool:
    """Return whether a term is a positive multiple of the entropy of a distribution, averaged or not."""
    match term:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            pairs = ((left, right), (right, left))
            return any(
                _is_positive(one, function, line, index) and _is_plain(other, function, line, index)
                for one, other in pairs
            )
        case _:
            return _is_plain(term, function, line, index)


def _is_positive(node: ast.expr, function: Function, line: int, index: ProjectIndex) -> bool:
    """Return whether a coefficient is a positive number that is written out, as far as the files show it."""
    origins = index.origins(node, function, line)
    defaults = [_default(each.value, each.function) for each in origins]
    values = [default or each.value for default, each in zip(defaults, origins, strict=True)]
    return bool(values) and all(
        isinstance(each, ast.Constant) and isinstance(each.value, int | float) and each.value > 0 for each in values
    )


def _default(node: ast.expr, function: Function) -> ast.expr | None:
    """Return the default of a parameter that a name is."""
    if not isinstance(node, ast.Name) or isinstance(function.node, ast.Module):
        return None
    given = function.node.args
    plain = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(reversed(plain), reversed(given.defaults), strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    return next((default for each, default in pairs if each.arg == node.id), None)


def _is_plain(node: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int = 4) -> bool:
    """Return whether a value is an entropy that a distribution gave, averaged or stacked, and not negated."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _AVERAGING:
        is_function = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
        node = node.args[0] if is_function and node.args else node.func.value
    if isinstance(node, ast.Call):
        tail = tail_of(dotted(node.func))
        if tail in {"stack", "cat"}:
            return bool(node.args) and _is_list_of_entropies(node.args[0], function)
        return tail == "entropy" and isinstance(node.func, ast.Attribute) and not node.args
    if not steps or not isinstance(node, ast.Name | ast.Attribute):
        return False
    origins = [*parts_returned(node, function, line, index)] or [
        each for each in index.origins(node, function, line) if each.value is not node
    ]
    return bool(origins) and all(_is_plain(each.value, each.function, each.line, index, steps - 1) for each in origins)


def _is_list_of_entropies(node: ast.expr, function: Function) -> bool:
    added = [each.node.args[0] for each in function.calls if each.tail == "append" and each.receiver == dotted(node)]
    return bool(added) and all(
        isinstance(each, ast.Call) and tail_of(dotted(each.func)) == "entropy" and "(" not in dotted(each.func)
        for each in added
    )
