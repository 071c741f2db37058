"""ESP282: the minimum over entries of which a mask has made the excluded ones zero."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_MINIMA = frozenset({"min", "amin", "argmin", "kthvalue", "nanmin"})
_CASTS = frozenset({"float", "to", "int", "long", "type", "type_as", "double", "half", "unsqueeze", "squeeze", "byte"})
_TESTS = frozenset({"eq", "ne", "lt", "gt", "le", "ge", "logical_not", "logical_and", "logical_or", "isin"})
_NONNEGATIVE = frozenset(
    {"cdist", "norm", "sqrt", "abs", "exp", "relu", "pow", "square", "pairwise_distance", "clamp_min", "softmax"}
    | {"sigmoid", "softplus", "vector_norm"}
)
_DISTANCE = pattern(r"(?i)(?:^|_)(?:\w*dist\w*|d2|d_?mat|dmat)(?:_|$)")
_STEPS = 9


class MinimumOfZeroed(Rule):
    """`(distances * mask).min(...)`: what the mask excludes is zero, and zero is the minimum.

    ## Why it costs
    A product with a mask sets the excluded entries to 0. Of values that are not negative, such as distances, the
    minimum is then an excluded entry: 0 in every row that excludes anything. A loss with the hardest negative sees the
    distance 0 for all samples.

    ## When it is right
    Values that are negative, and masks that exclude nothing. Only values are judged that are surely not negative, or
    are distances by name, with masks made of comparisons.

    ## Sources
    Hermans et al., "In Defense of the Triplet Loss for Person Re-Identification" (batch hard).
    """

    code, name = "ESP282", "minimum-of-zeroed"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def hardest_negative(x, labels):\n"
        "    distances = torch.cdist(x, x)\n"
        "    negative = labels[:, None] != labels[None]\n"
        "    return (distances * negative).min(dim=1).values\n"
    )
    good = bad.replace("(distances * negative)", 'distances.masked_fill(~negative, float("inf"))')

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the minima of what a mask has made zero."""
        for call in file.calls_ending(*_MINIMA) if file.imports_torch else ():
            subject = _subject(call)
            if subject is None:
                continue
            values = _zeroed(subject, call.function, call.line, index, _STEPS)
            if values is None or not _is_not_negative(values, call.function, call.line, index, _STEPS):
                continue
            yield self.hit(
                call.node,
                "the entries that the mask excludes are 0 here, and 0 is the minimum",
                remedy='give excluded entries a high value: `.masked_fill(~mask, float("inf"))`',
                confidence=Confidence.MODERATE,
                basis=f"{INFERRED}: that {ast.unparse(values)!r} is not negative",
            )


def _subject(call: Call) -> ast.expr | None:
    """Return what a call takes the minimum of."""
    if call.name.startswith("torch.") and "(" not in call.name:
        others = call.node.args[1:]
        is_pair = call.tail == "min" and bool(others) and not isinstance(others[0], ast.Constant | ast.UnaryOp)
        return None if is_pair else call.argument(0, "input")
    if not isinstance(call.node.func, ast.Attribute) or call.name.startswith(("numpy.", "math.")):
        return None
    return call.node.func.value


def _zeroed(node: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int) -> ast.expr | None:
    """Return the values of which a mask has made some zero; None where that is not so."""
    match node if steps else None:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for one, two in ((left, right), (right, left)):
                if _is_mask(two, function, line, index, steps - 1):
                    return one
        case ast.Call(func=ast.Attribute(value=values, attr="mul"), args=[mask]) if _is_mask(
            mask, function, line, index, steps - 1
        ):
            return values
        case ast.Call(func=ast.Attribute(value=values, attr="masked_fill"), args=[_, filled]) if _is_zero(filled):
            return values
        case ast.Call(func=ast.Attribute(attr="where") as called, args=[_, values, other]) if _is_zero(other):
            return values if dotted(called) == "torch.where" else None
        case ast.Name(id=name):
            found = function.last_assignment(name, line)
            if found is not None and not found.is_unpacked and not found.is_augmented:
                return _zeroed(found.value, function, found.line, index, steps - 1)
        case _:
            pass
    return None


def _is_zero(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and tail_of(dotted(node.func)) in {"zeros_like", "tensor"}:
        return not node.args or tail_of(dotted(node.func)) == "zeros_like" or _is_zero(node.args[0])
    return isinstance(node, ast.Constant) and not isinstance(node.value, bool | str) and node.value == 0


def _is_mask(node: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int) -> bool:
    """Return whether a value is a mask: a comparison, or made of comparisons."""
    parts: list[ast.expr] = []
    match node if steps else None:
        case ast.Compare():
            return True
        case ast.Call(func=ast.Attribute(attr=attr)) if attr in _TESTS:
            return True
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            parts = [inner]
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=right):
            parts = [right]
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.Mult(), right=right):
            parts = [left, right]
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _CASTS:
            parts = [value]
        case ast.Name() | ast.Attribute():
            origins = index.origins(node, function, line)
            return bool(origins) and all(
                each.value is not node and _is_mask(each.value, each.function, each.line, index, steps - 1)
                for each in origins
            )
        case _:
            pass
    return bool(parts) and all(_is_mask(each, function, line, index, steps - 1) for each in parts)


def _is_not_negative(node: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int) -> bool:
    """Return whether a value is surely not negative, or is called a distance."""
    match node if steps else None:
        case ast.Call(func=called, args=args, keywords=keywords):
            tail = tail_of(dotted(called))
            if tail in _NONNEGATIVE or _DISTANCE.search(tail):
                return tail != "pow" or not args or ast.unparse(args[-1]) in {"2", "4", "0.5"}
            return tail in {"clamp", "clip"} and any(each.arg == "min" and _is_zero(each.value) for each in keywords)
        case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2)):
            return True
        case ast.Name() | ast.Attribute():
            if _DISTANCE.search(tail_of(dotted(node))) and not _is_negated(node, function, line):
                return True
            origins = index.origins(node, function, line)
            return bool(origins) and all(
                each.value is not node and _is_not_negative(each.value, each.function, each.line, index, steps - 1)
                for each in origins
            )
        case _:
            return False


def _is_negated(node: ast.expr, function: Function, line: int) -> bool:
    """Return whether a value called a distance was made with a minus sign, a logarithm or a similarity."""
    found = function.last_assignment(dotted(node), line)
    if found is None:
        return False
    made = found.value
    calls = {tail_of(dotted(each.func)) for each in walk(made) if isinstance(each, ast.Call)}
    return isinstance(made, ast.UnaryOp) or bool(calls & {"log", "log_prob", "cosine_similarity", "neg"})
