"""Divisions by a norm, a spread, a largest value or a count, also where divisor or dividend have names of their own."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.index import Origin
from esper_agents.review.magnitudes import bare, is_number, later_arguments, operand, squared, sum_of_squares
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.roots import statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_DIVIDING = frozenset({"div", "div_", "divide", "divide_", "true_divide", "true_divide_"})
_NORMS = frozenset({"norm", "vector_norm", "matrix_norm"})
_SPREADS = frozenset({"std", "var"})
_LARGEST = frozenset({"max", "amax"})
_BOTH = frozenset({"std_mean", "var_mean"})
_TESTS = frozenset({"ne", "eq", "gt", "lt", "ge", "le", "not_equal", "greater", "less", "isfinite", "isnan", "bool"})
_TWO = 2


@dataclass(frozen=True, slots=True)
class Quotient:
    """A division by what may be zero.

    Attributes:
        node: The division.
        call: What makes the divisor, or the division where no call does.
        tensor: What the divisor is made of.
        where: When it is zero, in words.
        is_likely: Whether ordinary inputs get there.
        is_padding: Whether the divisor counts what is no padding, of which there commonly is some.
    """

    node: ast.AST
    call: Call | Division
    tensor: ast.expr
    where: str
    is_likely: bool = False
    is_padding: bool = False


@dataclass(frozen=True, slots=True)
class Division:
    """A division, as it stands in a statement.

    Attributes:
        node: The division.
        divided: What is divided.
        divisor: What it is divided by.
        block: Where it stands.
        statement: The statement.
    """

    node: ast.AST
    divided: ast.expr
    divisor: ast.expr
    block: Block
    statement: ast.stmt

    @property
    def function(self) -> Function:
        """The function it stands in."""
        return self.block.function

    @property
    def line(self) -> int:
        """The line its divisor stands on."""
        return self.divisor.lineno


def quotients(file: FileTables, index: ProjectIndex) -> Iterator[Quotient]:
    """Yield the divisions of a file by what may be zero."""
    for division in divisions(file):
        found = _judged(division, index)
        if found is not None:
            yield found


def divisions(file: FileTables) -> tuple[Division, ...]:
    """Return the divisions in a file's plain statements."""
    return file.once("divisions", lambda: tuple(_find_divisions(file)))


def inverse_powers(file: FileTables) -> Iterator[Division]:
    """Yield the negative powers in a file's plain statements as divisions: `x.pow(-0.5)`, `x ** -1`, `x.rsqrt()`."""
    if not any("pow(" in text or "** -" in text or "rsqrt" in text or "reciprocal" in text for text in file.lines):
        return
    for statement, block in statements(file):
        for node in walk(statement):
            base = _inverted(node)
            if base is not None:
                yield Division(node, ast.Constant(1.0), base, block, statement)


def _inverted(node: ast.AST) -> ast.expr | None:
    """Return what a negative power is taken of."""
    match node:
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.UnaryOp(op=ast.USub())):
            return base
        case ast.Call(func=ast.Attribute(value=base, attr="pow" | "pow_"), args=[ast.UnaryOp(op=ast.USub())]):
            return base
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="rsqrt" | "reciprocal"), args=[base]):
            return base
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="pow"), args=[base, ast.UnaryOp(op=ast.USub())]
        ):
            return base
        case ast.Call(func=ast.Attribute(value=base, attr="rsqrt" | "rsqrt_" | "reciprocal" | "reciprocal_"), args=[]):
            return base
        case _:
            return None


def _find_divisions(file: FileTables) -> Iterator[Division]:
    lines = [number for number, text in enumerate(file.lines, 1) if "/" in text or "div" in text]
    places = {place: number for number, place in enumerate(lines)}
    seen: set[ast.stmt] = set()
    for statement, block in statements(file):
        if statement in seen:
            continue
        seen.add(statement)
        last = statement.end_lineno or statement.lineno
        if any(each in places for each in range(statement.lineno, last + 1)):
            yield from _in(statement, block)


def _in(statement: ast.stmt, block: Block) -> Iterator[Division]:
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Div):
        yield Division(statement, statement.target, statement.value, block, statement)
    for node in walk(statement):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield Division(node, node.left, node.right, block, statement)
        elif isinstance(node, ast.Call) and tail_of(dotted(node.func)) in _DIVIDING and node.args:
            divided = operand(node, block.function)
            if divided is not None and node.args[-1] is not divided:
                yield Division(node, divided, node.args[-1], block, statement)


def _judged(division: Division, index: ProjectIndex) -> Quotient | None:
    """Return what is wrong with a division; None where nothing is."""
    divisor = _made(division.divisor, division, index)
    value = divisor.value
    match value:
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _by_range(division, left, right, index)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _by_product(division, left, right, index)
        case ast.Call():
            return _by_reduction(division, divisor, value, index)
        case _:
            return None


def _made(node: ast.expr, division: Division, index: ProjectIndex) -> Origin:
    """Return what makes a value in the function itself, roots, squares and changes of shape taken off."""
    here = Origin(node, division.function, division.line)
    while True:
        value = _under_root(bare(here.value, here.function), here.function)
        if isinstance(value, ast.Name):
            unpacked = index.binding(value.id, here.function, here.line)
            if unpacked is not None and unpacked.is_unpacked and _is_spread_of_pair(unpacked.node, unpacked.statement):
                return Origin(unpacked.value, here.function, unpacked.line)
            found = index.origins(value, here.function, here.line)
            if len(found) != 1 or found[0].function is not division.function or found[0].value is value:
                return Origin(value, here.function, here.line)
            here = found[0]
        elif value is here.value:
            return here
        else:
            here = Origin(value, here.function, here.line)


def _under_root(value: ast.expr, function: Function) -> ast.expr:
    if isinstance(value, ast.Call) and tail_of(dotted(value.func)) == "sqrt":
        return operand(value, function) or value
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow) and is_number(value.right, 0.5):
        return value.left
    base = squared(value, function)
    return base if base is not None and isinstance(base, ast.Call) else value


def _is_spread_of_pair(target: ast.expr, statement: ast.stmt) -> bool:
    """Return whether a name takes the first of `torch.std_mean(x)`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return False
    whole = statement.targets[0]
    is_first = isinstance(whole, ast.Tuple) and whole.elts[0] is target
    return is_first and tail_of(dotted(statement.value.func)) in _BOTH


def _by_reduction(division: Division, divisor: Origin, value: ast.Call, index: ProjectIndex) -> Quotient | None:
    tail, tensor = tail_of(dotted(value.func)), operand(value, division.function)
    call = call_of(value, division.function)
    if tensor is None or call is None:
        return None
    squares = sum_of_squares(divisor, index) if tail in {"sum", "mean", "einsum"} else None
    if tail in _NORMS or squares is not None:
        base = squares.value if squares is not None else tensor
        is_own = _is_itself(division, base, index) or isinstance(division.divided, ast.Constant)
        return Quotient(division.node, call, base, f"{ast.unparse(base)!r} is 0") if is_own else None
    if tail in _SPREADS | _BOTH and _is_itself(division, tensor, index):
        return Quotient(division.node, call, tensor, f"all of {ast.unparse(tensor)!r} is the same", is_likely=True)
    if tail in _LARGEST and len(value.args) < _TWO and _is_itself(division, tensor, index):
        return Quotient(division.node, call, tensor, f"the largest of {ast.unparse(tensor)!r} is 0")
    if tail == "sum" and _is_test(tensor, division, index) and _is_read_in(tensor, division, index):
        return Quotient(division.node, call, tensor, f"{ast.unparse(tensor)!r} lets nothing through")
    return None


def _by_range(division: Division, left: ast.expr, right: ast.expr, index: ProjectIndex) -> Quotient | None:
    top, bottom = (_made(each, division, index).value for each in (left, right))
    if not (isinstance(top, ast.Call) and isinstance(bottom, ast.Call)):
        return None
    tails = tail_of(dotted(top.func)), tail_of(dotted(bottom.func))
    tensor, call = operand(top, division.function), call_of(top, division.function)
    if tails not in {("max", "min"), ("amax", "amin")} or tensor is None or call is None:
        return None
    if any(_is_of_two(each, division.function) for each in (top, bottom)):
        return None
    return Quotient(division.node, call, tensor, f"all of {ast.unparse(tensor)!r} is the same")


def _is_of_two(node: ast.Call, function: Function) -> bool:
    """Return whether `torch.max` and its kind take the larger of two tensors, and no largest value of one."""
    axes = (ast.Constant, ast.UnaryOp, ast.Tuple, ast.List)
    return any(
        not isinstance(later_argument, axes) and "dim" not in dotted(later_argument)
        for later_argument in later_arguments(node, function)[:1]
    )


def _by_product(division: Division, left: ast.expr, right: ast.expr, index: ProjectIndex) -> Quotient | None:
    """Return a correlation or a cosine by hand: a division by two norms or two spreads."""
    sides = [_made(each, division, index).value for each in (left, right)]
    calls = [side for side in sides if isinstance(side, ast.Call)]
    if len(calls) != _TWO or any(tail_of(dotted(each.func)) not in _NORMS | {"std"} for each in calls):
        return None
    tensor, call = operand(calls[0], division.function), call_of(calls[0], division.function)
    if tensor is None or call is None:
        return None
    where = f"the norm of {ast.unparse(tensor)!r} or of its partner is 0"
    return Quotient(division.node, call, tensor, where, is_likely="loss" in division.function.qualname.lower())


def _is_itself(division: Division, tensor: ast.expr, index: ProjectIndex) -> bool:
    """Return whether what is divided is the tensor, plain or with its mean or its least value taken off."""
    texts = {ast.unparse(tensor)}
    if isinstance(tensor, ast.Call) and tail_of(dotted(tensor.func)) == "abs":
        texts |= {ast.unparse(each) for each in (operand(tensor, division.function),) if each is not None}
    for node in (division.divided, *(origin.value for origin in _origins(division.divided, division, index))):
        if ast.unparse(node) in texts:
            return True
        match node:
            case ast.BinOp(left=left, op=ast.Sub()) | ast.Call(func=ast.Attribute(value=left, attr="sub")):
                if ast.unparse(left) in texts:
                    return True
            case _:
                pass
    return False


def _origins(node: ast.expr, division: Division, index: ProjectIndex) -> list[Origin]:
    found = index.origins(node, division.function, division.line)
    return [each for each in found if each.function is division.function]


def _is_test(mask: ast.expr, division: Division, index: ProjectIndex) -> bool:
    """Return whether a mask was made by a test of values, so that it may be empty."""
    return any(
        isinstance(part, ast.Compare) or (isinstance(part, ast.Call) and tail_of(dotted(part.func)) in _TESTS)
        for origin in _origins(bare(mask, division.function), division, index)
        for part in walk(origin.value)
    )


def _is_read_in(mask: ast.expr, division: Division, index: ProjectIndex) -> bool:
    """Return whether what is divided is a sum over what a mask lets through."""
    name = dotted(bare(mask, division.function))
    return bool(name) and any(
        dotted(part) == name
        for origin in _origins(division.divided, division, index)
        for part in walk(origin.value)
        if isinstance(part, ast.Name | ast.Attribute)
    )


def call_of(node: ast.Call, function: Function) -> Call | None:
    """Return a call of a function by its node."""
    return next((call for call in function.calls if call.node is node), None)
