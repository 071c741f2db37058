"""Sizes that differ from round to round where `torch.compile(..., dynamic=False)` compiles each of them anew."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.conditions import names_in
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, Function

_JOINING = frozenset({"cat", "concat", "concatenate", "hstack", "vstack"})
_FROM_LISTS = frozenset({"tensor", "as_tensor", "LongTensor", "FloatTensor", "IntTensor"})
_ENCODING = frozenset({"encode", "tokenize", "encode_plus", "convert_tokens_to_ids", "texttoids", "EncodeAsIds"})
# What says that all inputs have one size after all.
_PADDING = ("padding", "max_length", "pad_to_multiple_of")
_STATIC = pattern(r"\bdynamic\s*=\s*False\b")
_STEPS = 4


def static_names(index: ProjectIndex) -> frozenset[str]:
    """Return the last names under which reviewed files hold what they compiled with `dynamic=False`."""
    return index.once("names compiled for static shapes", lambda: frozenset(_find_names(index)))


def _find_names(index: ProjectIndex) -> Iterator[str]:
    for file in index.files.values():
        # The plain word first: to look for it is much faster.
        if "dynamic" not in file.text or _STATIC.search(file.text) is None:
            continue
        for function in file.functions:
            if _is_decorated_static(function):
                yield function.name
            for target, assignments in function.assignments.items():
                if any(is_static_compile(assignment.value, function) for assignment in assignments):
                    yield tail_of(target)


def is_static_compile(node: ast.expr, function: Function) -> bool:
    """Return whether an expression is `torch.compile(..., dynamic=False)`."""
    return (
        isinstance(node, ast.Call)
        and resolve(dotted(node.func), function) == "torch.compile"
        and any(
            keyword.arg == "dynamic" and isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            for keyword in node.keywords
        )
    )


def calls_static(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call surely runs something compiled for one shape each, whatever it is."""
    callees = index.callees(call)
    if any(_is_decorated_static(callee) for callee in callees):
        return True
    if not isinstance(call.node.func, ast.Name | ast.Attribute):
        return False
    origins = index.origins(call.node.func, call.function, call.line)
    return bool(origins) and all(is_static_compile(origin.value, origin.function) for origin in origins)


def _is_decorated_static(function: Function) -> bool:
    outer = function.outer.function if function.outer else function
    return any(is_static_compile(each, outer) for each in getattr(function.node, "decorator_list", ()))


def varying_size(call: Call, loop: Block) -> str:
    """Return what a call hands over whose size differs from round to round, as written; empty where nothing does."""
    if any(word in ast.unparse(loop.node) for word in _PADDING):
        return ""
    for value in (*call.node.args, *(keyword.value for keyword in call.node.keywords)):
        if _Sizes(call.function, loop).vary(value, call.line):
            return ast.unparse(value)
    return ""


class _Sizes:
    """Which values of a loop have a size that hangs on the round."""

    def __init__(self, function: Function, loop: Block) -> None:
        self._function = function
        self._loop = loop
        self._drawn = {root_of(target) for each in (loop, *loop.loops()) for target in each.targets}

    def vary(self, value: ast.expr, line: int, steps: int = _STEPS) -> bool:
        """Return whether a value on a line surely has another size in another round."""
        if not steps:
            return False
        found = False
        match value:
            case ast.Subscript():
                found = self._is_cut(value, line) or (
                    not _is_bounded(value) and self.vary(value.value, line, steps - 1)
                )
            case ast.Call():
                found = self._made(value, line, steps)
            case ast.Name():
                found = self._named(value, line, steps)
            case ast.Attribute():
                found = self.vary(value.value, line, steps - 1)
            case _:
                pass
        return found

    def _is_cut(self, value: ast.Subscript, line: int) -> bool:
        """Return whether a subscript ends where the round says: `x[:n]`, but not `x[i:i + 32]` or `x[n:n + size]`."""
        parts = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
        return any(
            isinstance(part, ast.Slice)
            and part.step is None
            and sum(end is not None and self._hangs_on_round(end, line) for end in (part.lower, part.upper)) == 1
            for part in parts
        )

    def _hangs_on_round(self, end: ast.expr, line: int, steps: int = _STEPS) -> bool:
        names = {root_of(each) for each in names_in(end)}
        if names & self._drawn:
            return True
        return any(
            self._hangs_on_round(each.value, each.line, steps - 1)
            for name in names
            for each in (self._bound(name, line),)
            if steps and each is not None and not each.is_augmented and not _asks_for_size(each.value)
        )

    def _made(self, value: ast.Call, line: int, steps: int) -> bool:
        tail = tail_of(dotted(value.func))
        name = resolve(dotted(value.func), self._function)
        if name.startswith("torch.") and tail in _FROM_LISTS and value.args:
            return self._is_listed(value) or self._is_encoded(value.args[0], line, steps)
        if any(keyword.arg == "return_tensors" for keyword in value.keywords):
            return any(self._reads_round(arg) for arg in value.args)
        if isinstance(value.func, ast.Attribute) and not name.startswith("torch."):
            return self.vary(value.func.value, line, steps - 1)
        return False

    def _reads_round(self, value: ast.expr) -> bool:
        return bool({root_of(each) for each in names_in(value)} & self._drawn)

    def _is_listed(self, value: ast.Call) -> bool:
        """Return whether a tensor has as many elements as the round at hand: one for each word."""
        parts = [each for each in walk(value) if isinstance(each, ast.ListComp)]
        return any(self._reads_round(part.generators[0].iter) for part in parts)

    def _is_encoded(self, value: ast.expr, line: int, steps: int) -> bool:
        """Return whether a list has as many entries as the round's text has tokens."""
        if isinstance(value, ast.List) and len(value.elts) == 1:
            value = value.elts[0]
        if isinstance(value, ast.Name) and steps:
            bound = self._bound(value.id, line)
            return bound is not None and self._is_encoded(bound.value, bound.line, steps - 1)
        return isinstance(value, ast.Call) and tail_of(dotted(value.func)) in _ENCODING and self._reads_round(value)

    def _named(self, value: ast.Name, line: int, steps: int) -> bool:
        if self._grows(value.id):
            return True
        bound = self._bound(value.id, line)
        return (
            bound is not None
            and not bound.is_augmented
            and not bound.is_unpacked
            and self.vary(bound.value, bound.line, steps - 1)
        )

    def _bound(self, name: str, line: int) -> Assignment | None:
        """Return what the loop last binds a name to above a line."""
        found = self._function.last_assignment(name, line)
        is_own = found is not None and found.block.within(self._loop) and found.statement is not self._loop.node
        return found if is_own else None

    def _grows(self, name: str) -> bool:
        """Return whether every round joins something to what a name held, and never cuts it."""
        made = [each for each in self._function.assignments.get(name, ()) if each.block.within(self._loop)]
        return len(made) == 1 and made[0].block is self._loop and _joins(made[0].value, name)


def _is_bounded(value: ast.Subscript) -> bool:
    """Return whether a subscript cuts a piece off: then its size need not follow that of the whole."""
    parts = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
    return any(isinstance(part, ast.Slice) and (part.lower is not None or part.upper is not None) for part in parts)


def _asks_for_size(value: ast.expr) -> bool:
    """Return whether a value is the size of a tensor, which may be the same in all rounds."""
    return any(isinstance(each, ast.Attribute) and each.attr in {"shape", "size"} for each in walk(value))


def _joins(value: ast.expr, name: str) -> bool:
    """Return whether a value is what a name held with something joined to it, and nothing cut off."""
    first = value.args[0] if isinstance(value, ast.Call) and value.args else None
    if tail_of(dotted(value)).rstrip("()") not in _JOINING or not isinstance(first, ast.List | ast.Tuple):
        return False
    return any(isinstance(elt, ast.Name) and elt.id == name for elt in first.elts) and not any(
        isinstance(each, ast.Subscript) and name in names_in(each.value) and isinstance(each.slice, ast.Slice)
        for each in walk(first)
    )
