"""ESP209: `view` or `reshape` where the dimensions were meant to change places."""

from __future__ import annotations

import ast
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.shapes import shapes_of
from esper_agents.review.shapes.facts import GIVEN, Number, Tensor, shown
from esper_agents.review.shapes.sizes import Symbol, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.shapes.facts import Value
    from esper_agents.review.shapes.sizes import Dim
    from esper_agents.review.tables import Call, FileTables, Function


class ViewAsPermute(Rule):
    """A `view` or `reshape` that names the sizes of a tensor in another order than the tensor has them.

    ## Why it costs
    `view` and `reshape` read memory in its order and cut it anew: asked for `(batch, width, channels)` of a tensor
    `(batch, channels, width)` they mix the numbers of different channels, without an error, because the count is right.
    The model trains on scrambled input.

    ## When it is right
    Two of the sizes are always the same, or one of them is 1. Sizes are compared only where the code itself names them,
    as in `B, C, W = x.shape`; splitting and merging neighbours is not reported.

    ## Sources
    PyTorch documentation of `torch.Tensor.view` and `torch.permute`.
    """

    code, name = "ESP209", "view-as-permute"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def channels_last(images):\n"
        "    B, C, H, W = images.shape\n"
        "    return images.reshape(B, H, W, C)\n"
    )
    good = bad.replace("images.reshape(B, H, W, C)", "images.permute(0, 2, 3, 1)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the views whose sizes stand in another order than those of the tensor."""
        shapes = shapes_of(index)
        for call in file.calls_ending("view", "reshape") if file.imports_torch else ():
            asked = [arg for arg in call.node.args if not isinstance(arg, ast.Constant | ast.UnaryOp)]
            has_two = len(asked) > 1 or any(isinstance(each, ast.Tuple | ast.List) for each in asked)
            if not has_two or not _reads_sizes(call.function):
                continue
            is_function = call.name == "torch.reshape"
            given = shapes.given(call)
            sizes = (given.rest() if is_function else given).sizes(0, "shape")
            names = [size for size in sizes or () if isinstance(size, Symbol)]
            node = call.argument(0, "input") if is_function else getattr(call.node.func, "value", None)
            if len(names) > 1 and isinstance(node, ast.expr):
                base = shapes.ask(node, call)
                base = base if isinstance(base, Tensor) else GIVEN
                is_turned = _is_turned(base.dims, sizes or ())
                is_turned = is_turned or _is_in_other_order(shapes.sizes_named(node, call), names)
                is_turned = is_turned or _is_moved(base.dims, sizes or (), _read_from_shapes(call))
                if is_turned and not _is_shifted(call):
                    yield self._found(call, base)

    def _found(self, call: Call, base: Tensor) -> RuleMatch:
        return self.hit(
            call.node,
            f"`{call.tail}` cuts a tensor{_shape(base)} anew and does not move its dimensions: values are mixed",
            remedy="use `permute` or `transpose` to change the order, and `reshape` only to merge or split neighbours",
            confidence=Confidence.HIGH if base.is_fresh else Confidence.MODERATE,
            basis=SEEN,
        )


def _shape(base: Tensor) -> str:
    return "" if base.is_open else f" of shape {shown(base)}"


def _reads_sizes(function: Function) -> bool:
    """Return whether a function asks for sizes by name or number at all."""
    return any(call.tail == "size" for call in function.calls) or any(
        ".shape" in dotted(assignment.value)
        for assignments in function.assignments.values()
        for assignment in assignments
    )


def _is_in_other_order(own: list[Value], names: list[Symbol]) -> bool:
    """Return whether sizes that were read from the tensor one by one are asked for in another order."""
    found = [own.index(Number(name)) for name in names if Number(name) in own]
    return len(set(found)) == len(found) and found != sorted(found)


def _is_turned(dims: tuple[Dim, ...], sizes: tuple[Dim, ...]) -> bool:
    """Return whether two sizes of a tensor are asked for in the other order, alone or as factors of others."""
    own = [dim.names[0] for dim in dims if isinstance(dim, Symbol) and dim.factor == 1 and len(dim.names) == 1]
    if len(set(own)) != len(own):
        return False
    order: list[int] = []
    for size in sizes:
        if isinstance(size, Symbol) and size.factor == 1 and all(name in own for name in size.names):
            order += sorted(own.index(name) for name in size.names)
    if len(set(order)) == len(order) > 1 and order != sorted(order):
        return True
    return any(_leaves_out(dims, sizes, *pair) for pair in pairwise(_meetings(dims, sizes)))


def _read_from_shapes(call: Call) -> list[bool]:
    """Return which sizes of a call are names that were unpacked from a shape: `b, c, h, w = x.shape`."""
    found = []
    for node in call.node.args[1:] if call.name == "torch.reshape" else call.node.args:
        for each in node.elts if isinstance(node, ast.Tuple | ast.List) else [node]:
            made = call.function.last_assignment(each.id, call.line) if isinstance(each, ast.Name) else None
            found.append(made is not None and made.is_unpacked and dotted(made.value).endswith((".shape", ".size()")))
    return found


def _is_moved(dims: tuple[Dim, ...], sizes: tuple[Dim, ...], are_read: list[bool]) -> bool:
    """Return whether a dimension is asked for behind more, or fewer, elements than it lies in memory.

    `(b, n, d)` as `(b, heads, n, d / heads)`: before `n` there are `b` parts in memory, and `b * heads` are asked for.
    Both begin with the same size: a view of other sizes throughout may undo another one.
    """
    if not dims or not sizes or dims[0] is None or dims[0] != sizes[0]:
        return False
    for place, size in enumerate(sizes):
        is_name = isinstance(size, Symbol) and size.factor == 1 and len(size.names) == 1
        is_number = isinstance(size, int) and size > 1 and place < len(are_read) and are_read[place]
        if not (is_name or is_number) or dims.count(size) != 1 or sizes.count(size) != 1:
            continue
        own = dims.index(size)
        one, two = _product(dims[:own]), _product(sizes[:place])
        if one is None or two is None or dims[own + 1 :] == sizes[place + 1 :]:
            continue
        more, fewer = Counter(two.names) - Counter(one.names), Counter(one.names) - Counter(two.names)
        has_more = bool(more) or two.factor > one.factor
        has_fewer = bool(fewer) or one.factor > two.factor
        if has_more != has_fewer:
            return True
    return False


def _product(sizes: tuple[Dim, ...]) -> Symbol | None:
    """Return the product of sizes; None if one is unknown, or stands for the rest."""
    found: Dim = 1
    for size in sizes:
        found = times(found, size) if size != -1 else None
    return found if found is None or isinstance(found, Symbol) else Symbol(found, ())


def _is_shifted(call: Call) -> bool:
    """Return whether the result is sliced and reshaped again: the shift of relative positions, done so on purpose."""
    names = {dotted(each) for each in getattr(call.statement, "targets", ())} - {""}
    later = [
        each for each in call.function.calls if each.line > call.line and each.tail in {"view", "reshape", "view_as"}
    ]
    again = {each.receiver.removesuffix("[]") for each in later}
    cut = {
        dotted(assignment.value.value)
        for assignments in call.function.assignments.values()
        for assignment in assignments
        if isinstance(assignment.value, ast.Subscript) and assignment.line > call.line
    }
    return bool(names & again) and bool(
        names & (cut | {each.receiver[:-2] for each in later if each.receiver[-2:] == "[]"})
    )


def _meetings(dims: tuple[Dim, ...], sizes: tuple[Dim, ...]) -> list[tuple[int, int]]:
    """Return where the named sizes of a tensor stand in it and in what is asked for."""
    return [(dims.index(each), place) for place, each in enumerate(sizes) if isinstance(each, Symbol) and each in dims]


def _leaves_out(dims: tuple[Dim, ...], sizes: tuple[Dim, ...], one: tuple[int, int], two: tuple[int, int]) -> bool:
    """Return whether a dimension between two others is asked for behind both: `(b, n, c)` as `(b, c, h, w)`."""
    has_gap = two[0] - one[0] > 1 and two[1] - one[1] == 1
    behind = len(sizes) - two[1] > len(dims) - two[0]
    return has_gap and behind and not {1, None} & set(dims[one[0] + 1 : two[0]])
