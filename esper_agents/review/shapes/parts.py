"""What attributes and square brackets give."""

from __future__ import annotations

import ast

from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.shapes import algebra
from esper_agents.review.shapes.arithmetic import integer
from esper_agents.review.shapes.bindings import Bindings
from esper_agents.review.shapes.facts import (
    GIVEN,
    UNKNOWN,
    Extent,
    Fields,
    Handed,
    Items,
    Kind,
    Many,
    Number,
    Object,
    Samples,
    Table,
    Tensor,
    Text,
    Type,
    Value,
)
from esper_agents.review.shapes.frames import END, Frame, Place, reaching
from esper_agents.review.shapes.indexing import indexed
from esper_agents.review.shapes.methods import size_at
from esper_agents.review.shapes.reshaping import mirrored
from esper_agents.review.shapes.sizes import Symbol

_TYPES = {
    **dict.fromkeys(("float", "float32", "float64", "double", "half", "float16", "bfloat16"), Kind.FLOAT),
    **dict.fromkeys(("int", "int64", "int32", "long", "int8", "uint8", "short"), Kind.INTEGER),
    "bool": Kind.BOOLEAN,
}


# What picks several columns or rows of a data frame, as it stands in the code and by its name.
_OF_SEVERAL = (ast.Slice, ast.Compare, ast.List, ast.ListComp, ast.UnaryOp, ast.BinOp)
_SEVERAL = pattern(r"s$|mask|_idx|index|cols|columns|subset|feat")
UNKNOWN_EXTENT = Extent(UNKNOWN)


class Parts(Bindings):
    """Parts of values."""

    def attribute(self, node: ast.Attribute, place: Place, frame: Frame) -> Value:
        """Return what an attribute holds: of `self`, of a tensor, of a data frame."""
        path = dotted(node)
        if path.startswith(("torch.", "np.", "numpy.")) and node.attr in _TYPES:
            return Type(_TYPES[node.attr])
        if node.attr not in {"shape", "T", "mT", "data", "values", "indices"}:
            bound = self.name(path, place, frame) if path and "(" not in path and "[" not in path else None
            if bound is not None:
                return bound
        base = self.of(node.value, place, frame)
        if isinstance(base, Object):
            return self._of_object(node.attr, base)
        return self._of_base(node.attr, base)

    def _of_object(self, name: str, base: Object) -> Value:
        """Return what an attribute of an object holds that its constructor, or the body of a data class, gave it."""
        classes = self.index.lineage(base.owner).classes
        found = [each for one in classes for path in (name, f"self.{name}") for each in one.attributes.get(path, ())]
        if base.made is None or len(found) > 1 or name in self._changed_outside():
            return None
        if base.made.arguments is not None and base.made.function.is_module and name in base.made.arguments:
            return base.made.arguments[name]
        if not found:
            return None
        function = found[0].block.function
        if found[0].target == name and base.made.function.is_module:
            return self.of(found[0].value, Place(function.block, END), self.frame_of(function))
        if found[0].block is not base.made.function.block or found[0].is_augmented:
            return None
        return self.name(f"self.{name}", Place(function.block, END), base.made)

    def _changed_outside(self) -> frozenset[str]:
        """Return the attributes that some code assigns to what is not `self`."""
        return self.index.once(
            "attributes changed outside",
            lambda: frozenset(
                tail_of(path)
                for file in self.index.files.values()
                for function in file.functions
                for path in function.assignments
                if "." in path and not path.startswith("self.")
            ),
        )

    def _of_base(self, name: str, base: Value) -> Value:  # noqa: PLR0911 - one for each kind of value
        match base:
            case Tensor():
                if name == "shape":
                    return Extent(base)
                if name in {"T", "mT"}:
                    return algebra.transposed(base, -1, -2) if name == "mT" else mirrored(base)
                return base if name in {"data", "values", "real"} else (Number() if name == "ndim" else None)
            case Items(values) if name in {"values", "indices"} and len(values) > 1:
                return values[name == "indices"]
            case Fields(values):
                return values.get(name)
            case Handed(Symbol() as dim):
                return UNKNOWN_EXTENT if name == "shape" else Handed(Symbol(1, (f"{dim.names[0]}.{name}",)))
            case Many(Number()):
                return Number()
            case Table():
                if name in {"iloc", "loc"}:
                    return Table(is_by_row=True)
                return (
                    Tensor((None, None), False, is_array=True)
                    if name == "values"
                    else Tensor((None,), False, is_array=True)
                )
            case _:
                return UNKNOWN_EXTENT if name == "shape" else None

    def subscript(self, node: ast.Subscript, place: Place, frame: Frame) -> Value:  # noqa: PLR0911 - one for each kind of value
        """Return what square brackets give."""
        base = self.of(node.value, place, frame)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        match base:
            case Tensor():
                return indexed(
                    base,
                    parts,
                    [None if isinstance(part, ast.Slice) else self.of(part, place, frame) for part in parts],
                )
            case Extent(tensor):
                index = integer(parts[0])
                if index is not None:
                    return self.size_read(getattr(node.value, "value", node.value), index, tensor, place, frame)
                bounds = parts[0]
                return self._shape_part(tensor, bounds) if isinstance(bounds, ast.Slice) else Number()
            case Items(values):
                index = integer(parts[0])
                return values[index] if index is not None and -len(values) <= index < len(values) else None
            case Many(one) | Samples(one):
                return base if isinstance(parts[0], ast.Slice) else one
            case Fields(values):
                key = parts[0].value if isinstance(parts[0], ast.Constant) else None
                return values.get(str(key))
            case Table():
                return _of_table(parts, base, [self.of(part, place, frame) for part in parts])
            case Handed() if len(parts) > 1:
                given = [None if isinstance(part, ast.Slice) else self.of(part, place, frame) for part in parts]
                return indexed(GIVEN, parts, given)
            case _:
                return None

    def size_read(self, node: ast.expr, axis: int, tensor: Tensor, place: Place, frame: Frame) -> Value:
        """Return one size of a tensor; where it is not known, under a name of its own."""
        found, path = size_at(tensor, axis), dotted(node)
        if found.dim is not None or not path or "(" in path or axis < 0:
            return found
        reached = reaching(frame.function, path, place).assignments
        line = reached[0].line if len(reached) == 1 else 0
        return Number(Symbol(1, (f"{frame.function.qualname}.{path}[{axis}]@{line}",))) if len(reached) < 2 else found  # noqa: PLR2004 - one value

    def _shape_part(self, tensor: Tensor, bounds: ast.Slice) -> Value:
        if tensor.is_open:
            return None
        low = integer(bounds.lower) if bounds.lower is not None else None
        high = integer(bounds.upper) if bounds.upper is not None else None
        return Items(tuple(Number(dim) for dim in tensor.dims[low:high]))


def _of_table(parts: list[ast.expr], table: Table, values: list[Value]) -> Value:
    """Return a column of a data frame, a part of it, or one of its rows."""
    column = Tensor((None,), False, is_array=True)
    if len(parts) == 1 and table.is_by_row and not isinstance(parts[0], _OF_SEVERAL):
        return Many(Number())
    if len(parts) == 1:
        kept = _names_several(parts[0], values[0])
        return None if kept is None else (Table() if kept else column)
    rows, columns = parts
    if isinstance(rows, ast.Slice):
        is_one = isinstance(columns, ast.Constant) or isinstance(values[1], Text) or integer(columns) is not None
        return column if is_one else Table()
    return Number() if isinstance(columns, ast.Constant) else None


def _names_several(part: ast.expr, value: Value) -> bool | None:
    """Return whether a key of a data frame names several of its columns or rows; None where that cannot be said."""
    if isinstance(part, _OF_SEVERAL) or isinstance(value, Items | Many | Tensor):
        return True
    if isinstance(part, ast.Constant | ast.JoinedStr) or isinstance(value, Text):
        return False
    name = tail_of(dotted(part))
    return None if not name or _SEVERAL.search(name) else False
