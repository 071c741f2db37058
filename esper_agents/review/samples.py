"""How a value comes from the sample that a loop is at."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.sample_loops import bound_in, indices, picks

if TYPE_CHECKING:
    from esper_agents.review.blocks import Block
    from esper_agents.review.sample_loops import Over
    from esper_agents.review.tables import Function

_STEPS = 4
_LOADING = pattern(r"(?:open|load|imread|read|fetch|get|download|decode|from_file|next)(?:_\w+)?|read_image")
# What makes a batch of one sample.
_REPEATING = frozenset({"repeat", "repeat_interleave", "expand", "tile"})
_MAKING = frozenset({"tensor", "from_numpy", "as_tensor", "Tensor", "FloatTensor"})


@dataclass(frozen=True, slots=True)
class Sample:
    """How a value comes from the round's sample.

    Attributes:
        is_sample: Whether it does.
        adds_axis: Whether an axis of one is put before it on the way.
        is_prepared: Whether an unknown function changes it on the way.
        is_loaded: Whether it is read from somewhere, cut to a length of its own, or repeated to a batch on the way.
        is_tokenized: Whether a tokenizer makes a batch of one text of it, as it would of many.
    """

    is_sample: bool = False
    adds_axis: bool = False
    is_prepared: bool = False
    is_loaded: bool = False
    is_tokenized: bool = False

    def __or__(self, other: Sample) -> Sample:
        return Sample(
            self.is_sample or other.is_sample,
            self.adds_axis or other.adds_axis,
            self.is_prepared or other.is_prepared,
            self.is_loaded or other.is_loaded,
            self.is_tokenized or other.is_tokenized,
        )


@dataclass(frozen=True, slots=True)
class SampleTrace:
    """Follows values back to the round's sample.

    Attributes:
        over: What the loop goes over.
        loop: The loop.
        function: The function it stands in.
    """

    over: Over
    loop: Block
    function: Function

    def of(self, value: ast.expr, line: int, steps: int = _STEPS) -> Sample:
        """Return how a value on a line comes from the round's sample, through the names that the loop binds."""
        found = Sample()
        match value:
            case ast.Subscript() if picks(value, self.over.counter, self.over.axis):
                found = self._picked(value)
            case ast.Subscript():
                inner = self.of(value.value, line, steps)
                found = inner | Sample(
                    adds_axis=inner.is_sample and _starts_with_none(value),
                    is_loaded=inner.is_sample and self._is_cut(value),
                )
            case ast.Name():
                found = self._named(value, line, steps)
            case ast.Attribute(attr="T" | "data"):
                found = self.of(value.value, line, steps)
            case ast.BinOp():
                found = self.of(value.left, line, steps) | self.of(value.right, line, steps)
            case ast.Call():
                found = self._through(value, line, steps)
            case _:
                pass
        return found

    def _picked(self, value: ast.Subscript) -> Sample:
        has_axes = self.over.is_tensor or self.over.has_shape
        if self.over.path and dotted(value.value).rstrip("[]") != self.over.path and not has_axes:
            return Sample()
        is_cut = self._is_cut(value)
        return Sample(is_sample=not is_cut, adds_axis=_keeps_axis(value), is_loaded=is_cut)

    def _is_cut(self, value: ast.Subscript) -> bool:
        """Return whether a subscript cuts the sample to a size of its own: `x[i, :lengths[i]]`, `x[i][mask]`."""
        parts = indices(value)
        if picks(value, self.over.counter, self.over.axis):
            del parts[self.over.axis]
        return any(_is_computed(part) for part in parts)

    def _named(self, value: ast.Name, line: int, steps: int) -> Sample:
        found = bound_in(value.id, self.function, self.loop, line, with_unpacked=True) if steps else None
        if found is None:
            return Sample(is_sample=value.id == self.over.element)
        if found.is_unpacked and not picks(found.value, self.over.counter, self.over.axis):
            return Sample()
        return self.of(found.value, found.line, steps - 1)

    def _through(self, value: ast.Call, line: int, steps: int) -> Sample:
        tail = tail_of(dotted(value.func))
        parts: list[ast.expr] = []
        for arg in value.args:
            parts += arg.elts if isinstance(arg, ast.List | ast.Tuple) else [arg]
        is_method = isinstance(value.func, ast.Attribute) and not self._is_module(value.func.value)
        if is_method and isinstance(value.func, ast.Attribute):
            parts.append(value.func.value)
        found = Sample()
        for part in parts:
            found |= self.of(part, line, steps)
        if not found.is_sample:
            return found
        wraps = tail in {"stack", "array", "tensor"} and bool(value.args) and isinstance(value.args[0], ast.List)
        is_tokenized = any(keyword.arg == "return_tensors" for keyword in value.keywords)
        wraps |= is_tokenized
        adds_axis = (
            wraps or tail in {"unsqueeze", "expand_dims"} or (tail in {"view", "reshape"} and _is_one(value.args))
        )
        is_known = is_method or adds_axis or tail in _MAKING
        return found | Sample(
            adds_axis=adds_axis,
            is_prepared=not is_known,
            is_loaded=tail in _REPEATING or _LOADING.fullmatch(tail) is not None,
            is_tokenized=is_tokenized,
        )

    def _is_module(self, value: ast.expr) -> bool:
        """Return whether what stands before a name is an imported module: `torch`, and not `torch.tensor(x)`."""
        path = dotted(value)
        return "(" not in path and "[" not in path and root_of(path) in self.function.file.imports


def _is_computed(index: ast.expr) -> bool:
    """Return whether an index is no plain number, `None`, `...` or slice between such."""
    ends = (index.lower, index.upper, index.step) if isinstance(index, ast.Slice) else (index,)
    return any(
        not isinstance(end, ast.Constant | ast.UnaryOp) and dotted(end) not in {"np.newaxis", "numpy.newaxis"}
        for end in ends
        if end is not None
    )


def _is_one(arguments: list[ast.expr]) -> bool:
    return bool(arguments) and isinstance(arguments[0], ast.Constant) and arguments[0].value == 1


def _starts_with_none(value: ast.Subscript) -> bool:
    first = value.slice.elts[0] if isinstance(value.slice, ast.Tuple) and value.slice.elts else value.slice
    return (isinstance(first, ast.Constant) and first.value is None) or dotted(first) in {"np.newaxis", "numpy.newaxis"}


def _keeps_axis(value: ast.Subscript) -> bool:
    """Return whether a subscript leaves an axis of one where it picks: `x[i:i + 1]`, `x[i, None]`."""
    return any(
        (isinstance(each, ast.Slice) and each.lower is not None)
        or (isinstance(each, ast.Constant) and each.value is None)
        for each in walk(value.slice)
    )
