"""Where a softmax is taken, along which axis, and how its result is read."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import Layer
from esper_agents.review.shapes.layers import size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

FUNCTIONS = tuple(f"torch.nn.functional.{each}" for each in ("softmax", "log_softmax", "softmin"))
MODULES = ("torch.nn.Softmax", "torch.nn.LogSoftmax", "torch.nn.Softmin")
_TAILS = ("softmax", "log_softmax", "softmin")
_PRODUCTS = frozenset({"matmul", "bmm", "mm", "baddbmm", "einsum"})
# What is done to scores between the product and the softmax, and to weights between the softmax and the next product.
_SCALING = frozenset({"masked_fill", "masked_fill_", "div", "mul", "float", "to", "add", "dropout", "type_as", "clamp"})
_TURNING = frozenset({"transpose", "permute", "t", "T", "mT", "swapaxes"})
# How many names are followed back from scores to the product.
_STEPS = 4
_BEST = ("argmax", "max", "topk")
_LOGARITHMS = frozenset({"log", "log_softmax"})


@dataclass(frozen=True, slots=True)
class Softmax:
    """A softmax, as it is taken of something.

    Attributes:
        call: The call that takes it.
        scores: What it is taken of.
        axis: The axis, as written.
    """

    call: Call
    scores: ast.expr
    axis: int


def softmaxes(file: FileTables, index: ProjectIndex) -> Iterator[Softmax]:
    """Yield the softmaxes of a file whose axis is written out: functions, methods and layers that are called."""
    for call in file.calls_ending(*_TAILS):
        is_function = call.name.startswith("torch.") and "(" not in call.name
        scores = call.argument(0, "input") if is_function else getattr(call.node.func, "value", None)
        axis = written(call.argument(int(is_function), "dim"))
        if axis is not None and isinstance(scores, ast.expr) and (is_function or call.receiver != "self"):
            yield Softmax(call, scores, axis)
    made = file.calls_to(*MODULES)
    names = {tail_of(dotted(target)) for call in made for target in getattr(call.statement, "targets", ())}
    for call in (*file.calls_ending(*sorted(names - {""})), *file.calls_to(*(f"{module}()" for module in MODULES))):
        layer = shapes_of(index).ask(call.node.func, call) if call.node.args else None
        if isinstance(layer, Layer) and layer.name in {"Softmax", "LogSoftmax", "Softmin"}:
            axis_given = size(layer, "dim")
            if isinstance(axis_given, int):
                yield Softmax(call, call.node.args[0], axis_given)


def written(node: ast.expr | None) -> int | None:
    """Return a number that is written out; None where it is none."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = written(node.operand)
        return None if number is None else -number
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def is_product_of_keys(node: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether scores are a product with something transposed, scaled or not: `q @ k.transpose(-2, -1)`."""
    for origin in index.origins(node, call.function, call.line):
        product = _product(origin.value, call, index, _STEPS)
        right = None
        if isinstance(product, ast.BinOp):
            right = product.right
        elif isinstance(product, ast.Call) and product.args:
            right = product.args[-1]
        keys = index.origins(right, call.function, origin.line) if right is not None else ()
        if any(_is_turned(key.value) for key in keys):
            return True
    return False


def is_product(node: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether scores are a product, scaled or not: those of queries and keys are, those of classes are not."""
    origins = index.origins(node, call.function, call.line)
    return any(_product(origin.value, call, index, _STEPS) is not None for origin in origins)


def product_in(found: Softmax, index: ProjectIndex) -> ast.expr | None:
    """Return the matrix product that scores are once scales and masks are taken off; None where they are none."""
    for origin in index.origins(found.scores, found.call.function, found.call.line):
        product = _product(origin.value, found.call, index, _STEPS)
        if product is not None:
            return product
    return None


def _product(node: ast.expr, call: Call, index: ProjectIndex, steps: int) -> ast.expr | None:
    """Return the matrix product that is left of an expression once scales and masks are taken off."""
    found: ast.expr | None = None
    match node:
        case ast.BinOp(op=ast.MatMult()):
            found = node
        case ast.BinOp(left=left, op=operator, right=right):
            found = _product(left, call, index, steps)
            if found is None and isinstance(operator, ast.Mult):
                found = _product(right, call, index, steps)
        case ast.Call(func=called) if tail_of(dotted(called)) in _PRODUCTS:
            found = node
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _SCALING:
            found = _product(value, call, index, steps)
        case ast.Name(id=name) if steps:
            earlier = _earlier(name, call, index)
            found = _product(earlier, call, index, steps - 1) if earlier is not None else None
        case _:
            pass
    return found


def _earlier(name: str, call: Call, index: ProjectIndex) -> ast.expr | None:
    """Return what a name was made of, and not what it was made of itself: `s = s / 8` is passed over."""
    found = index.binding(name, call.function, call.line)
    if found is not None and any(isinstance(each, ast.Name) and each.id == name for each in walk(found.value)):
        found = found.block.function.last_assignment(name, found.line)
    return found.value if found is not None and not found.is_unpacked else None


def _is_turned(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr in _TURNING for each in walk(node))


def weighs_values(found: Softmax) -> bool:
    """Return whether the result is the left factor of a matrix product, as it is: then its rows have to sum to one."""
    return weighing(found) is not None


def weighing(found: Softmax) -> ast.expr | None:
    """Return the matrix product whose left factor the result is, as it is; None where there is none."""
    names = names_of(found)
    whole = found.call.function.node
    for node in walk(whole):
        left = _left_factor(node)
        if left is None or (isinstance(whole, ast.Module) and abs(node.lineno - found.call.line) > 20):  # noqa: PLR2004 - near
            continue
        if left is found.call.node or (isinstance(left, ast.Name) and left.id in names):
            return None if is_normalised(found.call.function, names) else node
    return None


def contracted_axis(found: Softmax) -> tuple[int, int] | None:
    """Return the axis along which an `einsum` sums the result up with values, and how many axes there are."""
    names = names_of(found)
    for call in found.call.function.calls:
        equation = call.argument(0)
        if call.tail != "einsum" or not (isinstance(equation, ast.Constant) and isinstance(equation.value, str)):
            continue
        sources, arrow, out = equation.value.replace(" ", "").partition("->")
        letters = sources.split(",")
        factors = [_without_dropout(arg) for arg in call.node.args[1:]]
        for place, each in enumerate(factors if arrow and len(letters) == len(factors) else ()):
            is_result = each is found.call.node or (isinstance(each, ast.Name) and each.id in names)
            others = "".join(letters[:place] + letters[place + 1 :])
            gone = [axis for axis, one in enumerate(letters[place]) if one not in out and one in others]
            if is_result and len(gone) == 1 and letters[place].isalpha():
                return None if is_normalised(found.call.function, names) else (gone[0], len(letters[place]))
    return None


def _left_factor(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return _without_dropout(node.left)
    if isinstance(node, ast.Call) and tail_of(dotted(node.func)) in _PRODUCTS:
        if len(node.args) == 2:  # noqa: PLR2004 - a function of two
            return _without_dropout(node.args[0])
        return _without_dropout(node.func.value) if isinstance(node.func, ast.Attribute) else None
    return None


def _without_dropout(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and "drop" in dotted(node.func) and node.args:
        node = node.args[0]
    return node


def names_of(found: Softmax) -> set[str]:
    """Return the names that the result is given, also after a dropout or a cast."""
    names = {dotted(each) for each in getattr(found.call.statement, "targets", ())} - {""}
    for name in sorted(names):
        for path, assignments in found.call.function.assignments.items():
            later = [
                assignment
                for assignment in assignments
                if assignment.line > found.call.line and isinstance(assignment.value, ast.Call)
            ]
            if any(dotted(_without_dropout(each.value)) == name for each in later):
                names.add(path)
    return names


def is_normalised(function: Function, names: set[str]) -> bool:
    """Return whether the weights are divided by their sums afterwards."""
    return any(call.tail in {"sum", "normalize"} and call.receiver in names for call in function.calls)


def read_along(found: Softmax) -> tuple[Call, int] | None:
    """Return where the result is read along an axis that is written out, and which.

    That is where the best is taken, where it is drawn from, and where an entropy is summed up.
    """
    names = names_of(found)
    for call in found.call.function.calls:
        if call.line < found.call.line:
            continue
        is_function = call.name.startswith("torch.") and "(" not in call.name
        base = call.argument(0, "input") if is_function else getattr(call.node.func, "value", None)
        axis = written(call.argument(int(is_function) + (call.tail == "topk"), "dim"))
        if call.tail == "sum":
            base = _weighed_logarithm(base)
        elif call.name == "torch.multinomial":
            axis = -1
        elif call.tail not in _BEST:
            continue
        is_same = base is found.call.node or (isinstance(base, ast.Name) and base.id in names)
        if axis is not None and is_same and _is_still(found, base):
            return call, axis
    return None


def _weighed_logarithm(node: object) -> ast.expr | None:
    """Return the weights of an entropy: `p` of `-p * p.log()`."""
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return None
    left = node.left.operand if isinstance(node.left, ast.UnaryOp) else node.left
    for weights, other in ((left, node.right), (node.right, left)):
        if isinstance(other, ast.Call) and tail_of(dotted(other.func)) in _LOGARITHMS:
            return weights
    return None


def is_turned_into_row(found: Softmax) -> bool:
    """Return whether the result becomes the one row of a product, so that its last axis has to sum to one."""
    names = names_of(found)
    for call in found.call.function.calls:
        row = call.argument(0) if call.tail in _PRODUCTS else None
        if isinstance(row, ast.Call) and isinstance(row.func, ast.Attribute) and row.func.attr == "unsqueeze":
            is_middle = len(row.args) == 1 and written(row.args[0]) in {1, -2}
            if is_middle and isinstance(row.func.value, ast.Name) and row.func.value.id in names:
                return True
    return False


def axes_of_divergence(call: Call, index: ProjectIndex) -> tuple[int, int] | None:
    """Return the axes of both softmaxes that `kl_div` compares, where both are written out."""
    found: list[int] = []
    for node in (call.argument(0, "input"), call.argument(1, "target")):
        origins = index.origins(node, call.function, call.line) if node is not None else ()
        values = [origin.value for origin in origins if isinstance(origin.value, ast.Call)]
        made = [value for value in values if tail_of(dotted(value.func)) in _TAILS]
        if len(made) != 1:
            return None
        axes = [keyword.value for keyword in made[0].keywords if keyword.arg == "dim"] or made[0].args[-1:]
        axis = written(axes[0]) if axes else None
        if axis is None:
            return None
        found.append(axis)
    return found[0], found[1]


def _is_still(found: Softmax, base: object) -> bool:
    """Return whether a name is bound once, so that it is still the result."""
    return not isinstance(base, ast.Name) or len(found.call.function.assignments.get(base.id, ())) == 1


def is_over_edges(found: Softmax, index: ProjectIndex) -> bool:
    """Return whether a softmax is of the scores of all edges of a graph that are then added up node by node."""
    function = found.call.function
    ends: set[str] = set()
    for origin in index.origins(found.scores, function, found.call.line):
        read = [each.slice for each in walk(origin.value) if isinstance(each, ast.Subscript)]
        ends |= {each.id for each in read if isinstance(each, ast.Name)}
    pairs = [made.statement for name in ends for made in function.assignments.get(name, ()) if made.is_unpacked]
    is_pair = len(ends) == 2 and len(pairs) == 2 and pairs[0] is pairs[1]  # noqa: PLR2004 - source and target
    return is_pair and any(
        call.tail.startswith(("index_add", "scatter")) and ends & {dotted(arg) for arg in call.node.args}
        for call in function.calls
    )


def is_of_leading_axes(found: Softmax, index: ProjectIndex) -> bool:
    """Return whether scores are a product that is written for axes in front of two: `q @ k.transpose(-2, -1)`."""
    product = product_in(found, index)
    right = product.right if isinstance(product, ast.BinOp) else None
    if isinstance(product, ast.Call) and product.args:
        right = product.args[-1]
    match right:
        case ast.Call(func=ast.Attribute(attr="transpose" | "swapaxes"), args=[one, two]):
            axes = {written(one), written(two)}
            return axes == {-1, -2} or (None not in axes and max(axes) > 1)  # type: ignore[type-var, operator]
        case ast.Attribute(attr="mT"):
            return True
        case _:
            return False
