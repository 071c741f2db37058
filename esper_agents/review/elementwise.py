"""Loops that compute a tensor one element or one row at a time."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import names_in
from esper_agents.review.gone_over import ELEMENTWISE, Gone, makes_tensor
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.sample_loops import bound_in, indices, picks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.sample_loops import Over
    from esper_agents.review.tables import Function

_PLAIN = frozenset({"abs", "min", "max", "float", "int", "pow", "round", "bool", "len", "divmod"})
_REDUCING = frozenset({"mean", "sum", "max", "min", "amax", "amin", "std", "var", "prod", "norm", "logsumexp"})
_JOINING = frozenset({"stack", "tensor", "cat", "sum"})
# What changes no number: a list of tensors that is only brought into shape is no computation.
_SHAPING = frozenset(
    {"unsqueeze", "squeeze", "reshape", "view", "flatten", "t", "to", "detach", "float", "long", "bool", "tensor"}
)


class Work:
    """What one innermost loop does with the tensors that it and the loops round it go over.

    Attributes:
        over: What the loops go over.
        is_summed: Whether the results are added up to one value.
        depth: How many loops count through tensors, inner ones included.
        goes_over_rows: Whether one of the loops goes over a first axis; others are mostly short.
    """

    def __init__(self, block: Block, index: ProjectIndex) -> None:
        self.over = Gone(block, index)
        self.is_summed = False
        self.depth = self.over.depth
        self.goes_over_rows = any(each.axis == 0 or not each.path for each in self.over.all)
        # Whether the statement at hand runs for elements that a test picked.
        self._is_chosen = False
        # What is added up, with how often the adding itself reads it.
        self._sums = dict[str, int]()
        self._block = block
        self._function: Function = block.function

    def computes_elements(self) -> bool:
        """Return whether every statement of the loop computes elements, and none needs the round before."""
        if not self.over.inner or not self._picks_what_it_counts():
            return False
        if self._block.kind is BlockKind.COMPREHENSION:
            return self._in_comprehension()
        body: list[ast.stmt] = self._block.node.body  # type: ignore[attr-defined]
        results = [self._statement(each) for each in body]
        return all(result is not None for result in results) and any(results) and not self._reads_a_sum()

    def _reads_a_sum(self) -> bool:
        """Return whether the loop reads what it adds up, so that a round needs the rounds before it."""
        read = [
            each.id
            for each in walk(self._block.node)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id in self._sums
        ]
        return len(read) > sum(self._sums.values())

    def _picks_what_it_counts(self) -> bool:
        """Return whether the loop picks along the axis that it counts, goes over elements, or fills a tensor."""
        if self.over.elements:
            return True
        counted = [each for each in self.over.all if each.counter]
        subscripts = [each for each in walk(self._block.node) if isinstance(each, ast.Subscript)]
        return any(
            (_base(subscript) == over.path and (picks(subscript, over.counter, over.axis) or _slides(subscript, over)))
            or (isinstance(subscript.ctx, ast.Store) and picks(subscript, over.counter))
            for subscript in subscripts
            for over in counted
        )

    def _statement(self, node: ast.stmt) -> bool | None:
        """Return whether a statement computes an element; None where it does anything else."""
        computes: bool | None = None
        match node:
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                computes = self._stored(target, value)
            case ast.AugAssign(target=ast.Subscript() as target, value=value):
                computes = self._stored(target, value, is_augmented=True)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                computes = self._named(name, value, node)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
                parts = [self._named(dotted(name), value, node) for name, value in zip(names, values, strict=True)]
                computes = None if any(part is None for part in parts) else any(parts)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                computes = self._added(name, value)
            case ast.If():
                computes = self._branch(node)
            case ast.For(target=ast.Name(id=counter), iter=ast.Call(func=ast.Name(id="range"))):
                computes = self._inner(counter, node)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[value])):
                computes = (self._is_arithmetic(value) and self._reads(value, is_computed=True)) or None
            case _:
                pass
        return computes

    def _inner(self, counter: str, node: ast.For) -> bool | None:
        self.depth += 1
        self.over.counters.add(counter)
        parts = [self._statement(each) for each in node.body]
        return None if any(part is None for part in parts) else any(parts)

    def _branch(self, node: ast.If) -> bool | None:
        if not self._is_arithmetic(node.test):
            return None
        outside, self._is_chosen = self._is_chosen, self._is_chosen or self._reads(node.test)
        parts = [self._statement(each) for each in (*node.body, *node.orelse)]
        self._is_chosen = outside
        return None if any(part is None for part in parts) else any(parts)

    def _named(self, name: str, value: ast.expr, node: ast.stmt) -> bool | None:
        match value:
            case ast.BinOp(left=ast.Name(id=old), op=ast.Add() | ast.Sub(), right=right) if old == name:
                return self._added(name, right, reads=1)
            case _:
                is_own = name not in names_in(value) and not self._is_read_before(name, node)
                return False if is_own and self._is_arithmetic(value) else None

    def _added(self, name: str, value: ast.expr, *, reads: int = 0) -> bool | None:
        if name in self.over.elements or name in names_in(value):
            return None
        if not self._is_arithmetic(value) or not (self._reads(value) or self._is_chosen):
            return None
        self.is_summed = True
        self._sums[name] = self._sums.get(name, 0) + reads
        return True

    def _stored(self, target: ast.Subscript, value: ast.expr, *, is_augmented: bool = False) -> bool | None:
        store = _base(target)
        by_counter = any(isinstance(index, ast.Name) and index.id in self.over.counters for index in indices(target))
        is_whole = self._is_arithmetic(value) and not any(_is_cut(each) for each in walk(target))
        is_made = makes_tensor(store, self._function, target.lineno) or self._is_changed_in_place(target, value)
        if not by_counter or not is_whole or not is_made:
            return None
        if store in names_in(value) and not self._is_changed_in_place(target, value):
            return None
        picked = [
            index for index in indices(target) if not (isinstance(index, ast.Name) and index.id in self.over.counters)
        ]
        is_scattered = any(self._reads(each) for each in picked)
        return True if self._reads(value) or is_augmented or is_scattered or self._is_chosen else None

    def _is_changed_in_place(self, target: ast.Subscript, value: ast.expr) -> bool:
        """Return whether elements of what is gone over are computed from themselves: `x[i] = x[i] / x[i].norm()`."""
        store, own = _base(target), ast.unparse(target)
        if not any(over.path == store and over.counter for over in self.over.inner):
            return False
        reads = sum(isinstance(each, ast.Name | ast.Attribute) and dotted(each) == store for each in walk(value))
        return 0 < reads == sum(isinstance(each, ast.Subscript) and ast.unparse(each) == own for each in walk(value))

    def _is_read_before(self, name: str, node: ast.stmt) -> bool:
        """Return whether the loop reads a name before it binds it, so that it carries the round before."""
        return any(
            isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)
            for each in walk(self._block.node)
            if getattr(each, "lineno", node.lineno) < node.lineno
        )

    def _reads(self, value: ast.expr, *, is_computed: bool = False) -> bool:
        """Return whether a value reads elements by the counters, or the element of the round."""
        if is_computed and not any(_computes(each) for each in walk(value)):
            return False
        for each in walk(value):
            if isinstance(each, ast.Subscript) and any(
                (isinstance(part, ast.Name) and part.id in self.over.counters)
                or (isinstance(part, ast.Slice) and not self.over.counters.isdisjoint(names_in(part)))
                for part in indices(each)
            ):
                return True
            if isinstance(each, ast.Name) and (each.id in self.over.elements or self._reads_through(each)):
                return True
        return False

    def _reads_through(self, name: ast.Name) -> bool:
        found = bound_in(name.id, self._function, self._block, name.lineno)
        return found is not None and name.id not in names_in(found.value) and self._reads(found.value)

    def _is_arithmetic(self, value: ast.expr) -> bool:
        """Return whether an expression is made of arithmetic and of functions that work on whole tensors as well."""
        windows = {part for each in walk(value) for part in _window(each)}
        for each in walk(value):
            is_other = isinstance(each, ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.JoinedStr)
            is_other |= isinstance(each, ast.BinOp) and isinstance(each.left, ast.List | ast.Tuple)
            is_other |= isinstance(each, ast.BinOp) and isinstance(each.right, ast.List | ast.Tuple)
            is_cut = _is_cut(each) and each not in windows
            if is_other or is_cut or (isinstance(each, ast.Call) and not self._is_plain(each)):
                return False
            if isinstance(each, ast.Subscript) and any(_is_looked_up(part) for part in indices(each)):
                return False
        return True

    def _is_plain(self, call: ast.Call) -> bool:
        path = dotted(call.func)
        if _is_size(call):
            return True
        name, tail = resolve(path, self._function), tail_of(path)
        if name.startswith(("torch.", "math.")):
            return tail in ELEMENTWISE
        if isinstance(call.func, ast.Attribute):
            return tail in ELEMENTWISE and root_of(path) not in {"self", "cls"}
        return path in _PLAIN

    def _in_comprehension(self) -> bool:
        node = self._block.node
        if not isinstance(node, ast.ListComp | ast.GeneratorExp) or len(node.generators) != 1:
            return False
        call = next((each for each in self._function.calls if node in each.node.args), None)
        if call is None or node.generators[0].ifs or call.tail not in _JOINING:
            return False
        # Rows lose an axis when they are picked, so what is joined by `cat` is a list of tensors that have it.
        if call.tail == "cat" and self.over.elements:
            return False
        self.is_summed = True
        return self._is_arithmetic(node.elt) and self._reads(node.elt, is_computed=True)


def _is_size(call: ast.Call) -> bool:
    """Return whether a call asks for a plain number: `x.size(0)`, `len(x)`."""
    return dotted(call.func) == "len" or (isinstance(call.func, ast.Attribute) and call.func.attr in {"size", "dim"})


def _is_looked_up(index: ast.expr) -> bool:
    """Return whether an index is what a call gives back, and no size."""
    return isinstance(index, ast.Call) and not _is_size(index)


def _computes(node: ast.AST) -> bool:
    """Return whether a part of the tree makes new numbers."""
    if isinstance(node, ast.Call):
        return not _is_size(node) and tail_of(dotted(node.func)) not in _SHAPING
    return isinstance(node, ast.BinOp | ast.UnaryOp)


def _base(node: ast.Subscript) -> str:
    """Return what a subscript picks from, all its indices left out: `x` of `x[i][j]`."""
    value: ast.expr = node
    while isinstance(value, ast.Subscript):
        value = value.value
    return dotted(value)


def _slides(node: ast.Subscript, over: Over) -> bool:
    """Return whether a piece is cut along the axis that a loop counts, where its counter says."""
    cuts = indices(node)
    cut = cuts[over.axis] if over.axis < len(cuts) else None
    return isinstance(cut, ast.Slice) and over.counter in names_in(cut)


def _window(node: ast.AST) -> Iterator[ast.Slice]:
    """Yield the slices of a piece that is reduced at once: `x[i, max(0, j - k):j + k]` of `x[...].mean()`.

    A table says how long others are, and those are segments of the data.
    """
    if not isinstance(node, ast.Call) or tail_of(dotted(node.func)) not in _REDUCING:
        return
    is_method = isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name)
    piece = node.func.value if is_method else node.args[0] if node.args else None  # type: ignore[attr-defined]
    for each in indices(piece) if isinstance(piece, ast.Subscript) else ():
        if isinstance(each, ast.Slice) and not any(isinstance(part, ast.Subscript) for part in walk(each)):
            yield each


def _is_cut(node: ast.AST) -> bool:
    """Return whether a part of the tree is a slice whose ends are computed: rounds may then differ in size."""
    ends = (node.lower, node.upper, node.step) if isinstance(node, ast.Slice) else ()
    return any(part is not None and not isinstance(part, ast.Constant) for part in ends)
