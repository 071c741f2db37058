"""ESP284: inputs and targets are mixed with two different permutations."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.index import argument_for, resolve
from esper_agents.review.names import dotted, walk
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_PERMUTING = frozenset({"torch.randperm", "numpy.random.permutation"})


class MixedByTwoPermutations(Rule):
    """Mixup that draws one permutation for the inputs and another for the targets.

    ## Why it costs
    Each input is mixed with one partner, and its target with the target of another. The targets are wrong for all
    samples, the loss still falls, and the model learns noise.

    ## When it is right
    Data that are mixed on their own. Only permutations are judged that one function draws for two values, and helpers
    that are called for two values with the same weight.

    ## Sources
    Zhang et al., "mixup: Beyond Empirical Risk Minimization", section 2.
    """

    code, name = "ESP284", "mixed-by-two-permutations"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def mix(values, lam):\n"
        "    return lam * values + (1 - lam) * values[torch.randperm(len(values))]\n"
        "\n"
        "\n"
        "def mixup(x, y, lam):\n"
        "    return mix(x, lam), mix(y, lam)\n"
    )
    good = (
        "import torch\n"
        "\n"
        "\n"
        "def mix(values, lam, order):\n"
        "    return lam * values + (1 - lam) * values[order]\n"
        "\n"
        "\n"
        "def mixup(x, y, lam):\n"
        "    order = torch.randperm(len(x))\n"
        "    return mix(x, lam, order), mix(y, lam, order)\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the permutations that are drawn for one of two values that belong together."""
        for function in {call.function: None for call in file.calls if call.name in _PERMUTING}:
            permuted = list(_permuted(function))
            mixed = [(base, drawn) for base, drawn, is_mixed in permuted if is_mixed]
            if not mixed:
                continue
            base, drawn = mixed[0]
            pair = _calls_for_two(function, base, index)
            if pair is not None:
                one, two = pair
                yield self.hit(
                    drawn,
                    f"each call draws its own permutation, and {ast.unparse(one.node)!r} and {ast.unparse(two.node)!r} "
                    "belong together",
                    remedy="draw the permutation once and hand it to both calls",
                    basis=FOLLOWED,
                )
                continue
            both = {each for each, by, _ in permuted if by is drawn}
            for other, by, _ in permuted:
                if by is not drawn and other not in both and _is_beside(by, drawn, function):
                    yield self.hit(
                        by,
                        f"{other!r} gets another permutation than {base!r} (line {drawn.lineno}): partners differ",
                        remedy="draw the permutation once and use it for both",
                        basis=SEEN,
                    )
                    break


def _permuted(function: Function) -> Iterator[tuple[str, ast.Call, bool]]:
    """Yield what a function indexes with a permutation: its path, the draw, and whether it is mixed with itself."""
    places = [(each.value, each.line) for known in function.assignments.values() for each in known]
    places += [(each.value, each.lineno) for each, _ in function.returns if each.value is not None]
    seen = set[int]()
    for value, line in places:
        sums = [each for each in walk(value) if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add)]
        for node in walk(value):
            if not isinstance(node, ast.Subscript) or not dotted(node.value) or id(node) in seen:
                continue
            seen.add(id(node))
            drawn = _drawn(node.slice, function, line)
            if drawn is not None:
                yield dotted(node.value), drawn, any(_is_mix(each, node) for each in sums)


def _drawn(node: ast.expr, function: Function, line: int) -> ast.Call | None:
    """Return the draw of a permutation that an index is."""
    if isinstance(node, ast.Name):
        found = function.last_assignment(node.id, line)
        node = found.value if found is not None and not found.is_unpacked else node
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"to", "cuda"}:
        node = node.func.value
    if not isinstance(node, ast.Call) or resolve(dotted(node.func), function) not in _PERMUTING:
        return None
    return None if any(each.arg == "generator" for each in node.keywords) else node


def _is_mix(total: ast.BinOp, part: ast.Subscript) -> bool:
    """Return whether a sum is of weighted values and the same values in another order."""
    wanted = ast.dump(part.value)
    for one, two in ((total.left, total.right), (total.right, total.left)):
        if isinstance(one, ast.BinOp) and isinstance(two, ast.BinOp) and any(each is part for each in walk(two)):
            return wanted in {ast.dump(one.left), ast.dump(one.right)}
    return False


def _calls_for_two(function: Function, base: str, index: ProjectIndex) -> tuple[Call, Call] | None:
    """Return two calls side by side that mix two values with the same weight; None where there are none."""
    if base not in function.parameters:
        return None
    calls = index.callers(function)
    for one, two in itertools.pairwise(calls):
        values = [argument_for(each, function, base) for each in (one, two)]
        shown = [ast.unparse(each) for each in values if each is not None]
        others = [
            {ast.unparse(each) for each in call.node.args if each not in values}
            | {ast.unparse(each.value) for each in call.node.keywords if each.value not in values}
            for call in (one, two)
        ]
        is_pair = len(set(shown)) == len(values) and one.block is two.block
        if is_pair and (others[0] & others[1] or one.statement is two.statement):
            return one, two
    return None


def _is_beside(one: ast.Call, other: ast.Call, function: Function) -> bool:
    blocks = [call.block for call in function.calls if call.node is one or call.node is other]
    return len(blocks) > 1 and all(each is blocks[0] for each in blocks)
