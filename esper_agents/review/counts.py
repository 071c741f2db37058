"""Divisions by a count or a sum that is 0 where nothing is there to count: a mask, a class, a pair of bands."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.divisors import bare
from esper_agents.review.index import Origin
from esper_agents.review.magnitudes import cut_at_zero, later_arguments, operand
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.quotients import Division, Quotient, call_of, divisions, inverse_powers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables

_COUNTS = frozenset({"bincount", "histc", "scatter_add", "scatter_add_", "index_add", "index_add_"})
# Code that asks for infinite values, or gives each node an edge to itself.
_HANDLED = pattern(r"isinf|isfinite|\binf\b|nan_to_num|self_loop|\beye\(|\barange\(|fill_diagonal")
_PICKING = frozenset({"diag", "diagonal", "trace"})
_OF_TENSORS = frozenset({"sum", "select", "float", "abs", "relu", "sigmoid", "count_nonzero"})
_PADDING = pattern(r"mask|pad|attention|attn|weight|length", re.IGNORECASE)
_SPREADS = frozenset({"std", "var"})


def divisions_by_counts(file: FileTables, index: ProjectIndex) -> Iterator[Quotient]:
    """Yield the divisions of a file by a count or a sum that may be 0."""
    for division in divisions(file):
        found = (
            _by_sum(division, index)
            or _by_pair(division, index)
            or _by_count(division, index)
            or _by_kept(division, index)
        )
        if found is not None:
            yield found
    for division in inverse_powers(file):
        found = _by_count(division, index)
        if found is None or _is_only_picked_from(division) or _HANDLED.search(ast.unparse(division.function.node)):
            continue
        yield found


def _is_only_picked_from(division: Division) -> bool:
    """Return whether the result is read by places alone: those that occur have counts above zero."""
    statement = division.statement
    name = dotted(statement.targets[0]) if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else ""
    if not name:
        return False
    nodes = list(walk(division.function.node))
    picked = {id(node.value) for node in nodes if isinstance(node, ast.Subscript)}
    picked |= {
        id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in {"index_select", "gather"}
    }
    reads = [
        node for node in nodes if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    return all(id(node) in picked for node in reads)


def _made(node: ast.expr, division: Division, index: ProjectIndex) -> Origin:
    """Return what makes a divisor in the function itself, changes of shape and casts taken off."""
    here = Origin(node, division.function, division.line)
    for _ in range(3):
        value = bare(here.value)
        found = index.origins(value, here.function, here.line) if isinstance(value, ast.Name) else ()
        if len(found) != 1 or found[0].function is not division.function or found[0].value is value:
            return Origin(value, here.function, here.line)
        here = found[0]
    return Origin(bare(here.value), here.function, here.line)


def _by_sum(division: Division, index: ProjectIndex) -> Quotient | None:
    """Return a mean by hand: what a mask lets through, or one class of a table, over the sum of the same."""
    value = _made(division.divisor, division, index).value
    if not (isinstance(value, ast.Call) and tail_of(dotted(value.func)) in {"sum", "count_nonzero"}):
        return None
    mask, call = operand(value, division.function), call_of(value, division.function)
    if mask is None or call is None or isinstance(mask, ast.Constant):
        return None
    name = ast.unparse(bare(mask))
    tops = [origin.value for origin in index.origins(division.divided, division.function, division.line)]
    is_test = isinstance(mask, ast.Compare)
    for top in (division.divided, *tops):
        node = top.operand if isinstance(top, ast.UnaryOp) else top
        tail = tail_of(dotted(node.func)) if isinstance(node, ast.Call) else ""
        if tail in _PICKING and name in _read_in(node):
            return Quotient(division.node, call, mask, f"nothing of {name!r} is counted")
        if tail != "sum" or not isinstance(node, ast.Call):
            continue
        summed = operand(node, division.function)
        made = index.origins(summed, division.function, division.line) if summed is not None else ()
        if is_test or any(name in _read_in(each.value) and _is_weighed(each.value) for each in made):
            is_padding = not is_test and _PADDING.search(name) is not None
            is_whole = not later_arguments(value, division.function) and not value.keywords
            # A whole mask is seldom empty, a row of one may well be; in a loss either is worth a look.
            if is_padding and is_whole and "loss" not in division.function.qualname.lower():
                return None
            return Quotient(division.node, call, mask, f"{name!r} lets nothing through", is_padding=is_padding)
    return None


def _read_in(node: ast.expr) -> set[str]:
    return {ast.unparse(each) for each in walk(node) if isinstance(each, ast.Name | ast.Attribute | ast.Subscript)}


def _is_weighed(node: ast.expr) -> bool:
    """Return whether something is multiplied, or picked by a mask, in what is summed up."""
    return any(
        (isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult | ast.BitAnd)) or isinstance(each, ast.Subscript)
        for each in walk(node)
    )


def _by_pair(division: Division, index: ProjectIndex) -> Quotient | None:
    """Return a normalised difference, `(a - b) / (a + b)`, and a share of a union, `i / (a + b - i)`."""
    top, bottom = (_made(each, division, index).value for each in (division.divided, division.divisor))
    if not (isinstance(bottom, ast.BinOp) and isinstance(bottom.op, ast.Add | ast.Sub)):
        return None
    leaves = list(_leaves(bottom))
    if any(isinstance(each, ast.Constant) for each, _ in leaves) or not _are_tensors(leaves, division, index):
        return None
    texts = [ast.unparse(each) for each, _ in leaves]
    is_pair = len(leaves) == 2 and isinstance(bottom.op, ast.Add)  # noqa: PLR2004 - two bands
    sides = [top.left, top.right] if isinstance(top, ast.BinOp) and isinstance(top.op, ast.Sub) else []
    if is_pair and sorted(map(ast.unparse, sides)) == sorted(texts):
        return Quotient(division.node, division, leaves[0][0], f"{texts[0]!r} and {texts[1]!r} are both 0")
    taken_off = [ast.unparse(each) for each, sign in leaves if sign < 0]
    if len(leaves) == 3 and taken_off == [ast.unparse(division.divided)]:  # noqa: PLR2004 - a union
        return Quotient(division.node, division, leaves[0][0], "the union is empty")
    return None


def _leaves(node: ast.expr, sign: int = 1) -> Iterator[tuple[ast.expr, int]]:
    """Yield what is added up in an expression, each with its sign."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _leaves(node.left, sign)
        yield from _leaves(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    else:
        yield node, sign


def _are_tensors(leaves: list[tuple[ast.expr, int]], division: Division, index: ProjectIndex) -> bool:
    """Return whether what is added up shows itself to be tensors: parts of one, or what a method of one gives."""
    values = [part.value for leaf, _ in leaves for part in _parts(leaf, division, index)]
    return any(
        (isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant | ast.Tuple | ast.Name))
        or (isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _OF_TENSORS)
        for value in values
    )


def _parts(leaf: ast.expr, division: Division, index: ProjectIndex) -> tuple[Origin, ...]:
    return index.origins(leaf, division.function, division.line)


def _by_count(division: Division, index: ProjectIndex) -> Quotient | None:
    """Return a division by how often each class or each place occurs, or by what is cut off at 0."""
    divisor = _made(division.divisor, division, index)
    value = divisor.value
    call = call_of(value, division.function) if isinstance(value, ast.Call) else None
    if not isinstance(value, ast.Call) or call is None:
        return None
    tensor = operand(value, division.function) or value
    if tail_of(dotted(value.func)) in _COUNTS:
        return Quotient(division.node, call, tensor, "a class or a place never occurs", is_likely=True)
    cut = cut_at_zero(value, divisor, index)
    return Quotient(division.node, call, tensor, f"{cut} makes the divisor 0", is_likely=True) if cut else None


def _by_kept(division: Division, index: ProjectIndex) -> Quotient | None:
    """Return a standardisation by a spread that the object keeps: `(x - self.mean) / self.std`."""
    path = dotted(division.divisor)
    if not path.startswith("self.") or not (
        isinstance(division.divided, ast.BinOp) and isinstance(division.divided.op, ast.Sub)
    ):
        return None
    for origin in index.origins(division.divisor, division.function, division.line):
        value = origin.value
        if not isinstance(value, ast.Call) or tail_of(dotted(value.func)) not in _SPREADS:
            return None
        if not later_arguments(value, origin.function) and not value.keywords:
            # The spread of all values together, which are seldom all the same.
            return None
        return Quotient(
            division.node, division, division.divided.left, "a feature is the same everywhere", is_likely=True
        )
    return None
