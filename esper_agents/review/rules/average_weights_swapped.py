"""ESP253: a moving average of weights whose two coefficients are swapped."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_OVER_WEIGHTS = frozenset({"parameters", "named_parameters", "buffers", "state_dict", "items", "values"})
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class _Average:
    """An update `target = keep * target + (1 - keep) * source`.

    Attributes:
        node: Where it stands.
        target: What is written.
        weight: The expression that weighs one side; the other side has one minus it.
        keeps: Whether it weighs the old value of the target.
    """

    node: ast.AST
    target: str
    weight: ast.expr
    keeps: bool


class AverageWeightsSwapped(Rule):
    """A moving average of weights that keeps little of the old value: `ema = decay * new + (1 - decay) * ema`.

    ## Why it costs
    With a decay of 0.999 the average should change by a thousandth in each step. With the coefficients swapped it is
    the new weights but for a thousandth: a target network follows the network that it should hold still, and an
    averaged model averages nothing. Nothing raises.

    ## When it is right
    The coefficient of the old value is 0.5 or more. Reported only if its value is known: as a constant, as the default
    of a parameter, or from what callers pass.

    ## Sources
    Lillicrap et al., "Continuous control with deep reinforcement learning" (soft updates); PyTorch documentation of
    `torch.optim.swa_utils.get_ema_multi_avg_fn`.
    """

    code, name = "ESP253", "average-weights-swapped"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "@torch.no_grad()\n"
        "def update(ema, model, decay=0.999):\n"
        "    for e, p in zip(ema.parameters(), model.parameters()):\n"
        "        e.copy_(decay * p + (1 - decay) * e)\n"
    )
    good = bad.replace("decay * p + (1 - decay) * e", "decay * e + (1 - decay) * p")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the averages of weights that keep less than half of the old value."""
        if not file.imports_torch:
            return
        for function in file.functions:
            for found in _averages(function):
                values = _values(found.weight, function, index)
                if not values or not _is_of_weights(found, function):
                    continue
                kept = [value if found.keeps else 1 - value for value in values]
                if all(0 <= each < _HALF for each in kept):
                    is_default = not isinstance(found.weight, ast.Constant)
                    yield self.hit(
                        found.node,
                        f"{found.target!r} keeps {max(kept):.3g} of its old value and takes {1 - max(kept):.3g} of the "
                        "new one in each step: the coefficients are swapped",
                        remedy=f"give {found.target!r} the larger coefficient",
                        confidence=Confidence.MODERATE if is_default else Confidence.HIGH,
                        basis=FOLLOWED if is_default else SEEN,
                    )


def _averages(function: Function) -> Iterator[_Average]:
    for target, assignments in function.assignments.items():
        for each in assignments:
            if not each.is_unpacked and not each.is_augmented:
                for path in (target, *_stored(target, function)):
                    yield from _summed(each.value, path, each.statement)
    for call in function.calls:
        own = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
        first = call.argument(0)
        if call.tail == "copy_" and first is not None:
            yield from _summed(first, call.receiver, call.node)
        elif call.tail == "lerp_" and own is not None and (weight := call.argument(1, "weight")) is not None:
            yield _Average(call.node, _base(call.receiver), weight, keeps=False)
        elif call.tail == "add_" and isinstance(own, ast.Call) and dotted(own.func).endswith(".mul_"):
            yield from _chained(call, own)
        elif call.tail == "_foreach_lerp_" and first is not None and (weight := call.argument(2, "weight")) is not None:
            yield _Average(call.node, dotted(first), weight, keeps=False)


def _stored(name: str, function: Function) -> list[str]:
    """Return the paths that are given the value of a name: `self.shadow[]` of `self.shadow[k] = new.clone()`."""
    values = {name, f"{name}.clone()", f"{name}.detach()"} if name.isidentifier() else set()
    return [
        path
        for path, assignments in function.assignments.items()
        if path != name and any(dotted(each.value) in values for each in assignments)
    ]


def _chained(call: Call, scaled: ast.Call) -> Iterator[_Average]:
    """Yield the average of `e.mul_(decay).add_(p, alpha=1 - decay)` and of `e.mul_(decay).add_((1 - decay) * p)`."""
    kept = scaled.args[0] if len(scaled.args) == 1 else None
    added = call.argument(-1, "alpha")
    value = call.argument(0)
    if added is None and len(call.node.args) == 2:  # noqa: PLR2004 - the old form `add_(alpha, other)`
        added = value
    if added is None and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        added = value.left if kept is not None and _are_complements(kept, value.left) else value.right
    if kept is None or added is None or not _are_complements(kept, added):
        return
    target = _base(dotted(scaled.func).removesuffix(".mul_"))
    weight, keeps = (kept, True) if not isinstance(kept, ast.BinOp) else (added, False)
    yield _Average(call.node, target, weight, keeps)


def _summed(value: ast.expr, target: str, node: ast.AST) -> Iterator[_Average]:
    """Yield the average in `a * x + (1 - a) * y` that is written into x or y."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return
    parts = [_product(value.left), _product(value.right)]
    for one, other in (parts, parts[::-1]):
        for weight, inner in one:
            for rest, outer in other:
                if isinstance(weight, ast.BinOp) or not _are_complements(weight, rest):
                    continue
                own = _base(target)
                if (_base(dotted(inner)) == own) != (_base(dotted(outer)) == own):
                    yield _Average(node, own, weight, keeps=_base(dotted(inner)) == own)
                    return


def _product(value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return a product as weight and value, both ways around: `decay * p` and `p.data.mul(decay)`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return [(value.left, value.right), (value.right, value.left)]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in {"mul", "mul_"}:
        return [(value.args[0], value.func.value)] if len(value.args) == 1 else []
    return []


def _are_complements(one: ast.expr, other: ast.expr) -> bool:
    """Return whether two numbers add up to 1: `a` and `1 - a`, or 0.9 and 0.1."""
    for first, second in ((one, other), (other, one)):
        if isinstance(second, ast.BinOp) and isinstance(second.op, ast.Sub):
            is_one = isinstance(second.left, ast.Constant) and second.left.value == 1
            if is_one and ast.unparse(second.right) == ast.unparse(first):
                return True
    numbers = [each.value for each in (one, other) if isinstance(each, ast.Constant)]
    return len(numbers) == 2 and all(isinstance(each, float) for each in numbers) and abs(sum(numbers) - 1) < 1e-9  # type: ignore[arg-type]  # noqa: PLR2004 - both sides; rounding


def _base(path: str) -> str:
    for end in (".data", ".detach()", ".copy"):
        path = path.removesuffix(end)
    return path


def _values(weight: ast.expr, function: Function, index: ProjectIndex) -> list[float]:
    """Return the numbers that a coefficient may be; none if one is not known."""
    found: list[float] = []
    for origin in index.origins(weight, function, weight.lineno):
        value: ast.expr | None = origin.value
        if isinstance(value, ast.Name) and value.id in origin.function.parameters:
            value = _default(value.id, origin.function) if not index.callers(origin.function) else None
        elif isinstance(value, ast.Attribute) and dotted(value).startswith("self.") and origin.function.owner is None:
            value = None
        if not isinstance(value, ast.Constant) or not isinstance(value.value, int | float):
            return []
        found.append(float(value.value))
    return found


def _default(name: str, function: Function) -> ast.expr | None:
    """Return the default of a parameter."""
    if isinstance(function.node, ast.Module):
        return None
    given = function.node.args
    placed = [*given.posonlyargs, *given.args]
    pairs = [*zip(placed[len(placed) - len(given.defaults) :], given.defaults, strict=True)]
    pairs += [(each, default) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default]
    return next((default for each, default in pairs if each.arg == name), None)


def _is_of_weights(found: _Average, function: Function) -> bool:
    """Return whether what is written is drawn from the weights of a model."""
    line = getattr(found.node, "lineno", 0)
    root = found.target.partition(".")[0].partition("[")[0]
    for block in function.blocks:
        node = block.node
        is_around = isinstance(node, ast.For) and node.lineno <= line <= (node.end_lineno or 0)
        if not is_around or not isinstance(node, ast.For):
            continue
        called = {tail_of(dotted(each.func)) for each in walk(node.iter) if isinstance(each, ast.Call)}
        if called & _OVER_WEIGHTS and (root in {dotted(each) for each in walk(node.target)} or "[]" in found.target):
            return True
    return False
