"""Shape rules of the operator table: sizes of results from sizes of arguments.

A size is an int, a symbol (any other value that can be compared) or None for unknown. A rule gets the arguments of a
call by parameter name, with defaults filled in; a tensor stands there as its `Shape`. It returns a `Shape`, a tuple of
shapes for several results, or None if the sizes cannot be known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

# An int, a symbol or None.
Size = object
# An argument that is not known; None is the argument None.
UNKNOWN: object = object()
LISTS = (tuple, list)


class Shape(tuple[Size, ...]):
    """Sizes of a tensor whose rank is known."""

    __slots__ = ()


class ShapeMismatchError(ValueError):
    """Sizes that the operator refuses."""


Result = Shape | tuple[Shape, ...] | None
# What a parameter may also be called: torch takes the names of numpy, too.
_SPELLINGS = {"dim": ("dims", "axis", "axes"), "size": ("sizes", "shape")}


def broadcast(shapes: Iterable[Shape]) -> Shape:
    """Return the shape to which all shapes broadcast.

    Raises:
        ShapeMismatchError: If two sizes differ and neither is 1.
    """
    result: list[Size] = []
    for shape in shapes:
        longer, shorter = (list(shape), result) if len(shape) > len(result) else (result, list(shape))
        offset = len(longer) - len(shorter)
        result = longer[:offset] + [_common(one, other) for one, other in zip(longer[offset:], shorter, strict=True)]
    return Shape(result)


def _common(one: Size, other: Size) -> Size:
    if one == 1 or other == 1:
        return other if one == 1 else one
    if one == other:
        return one
    if isinstance(one, int) and isinstance(other, int):
        raise ShapeMismatchError(f"sizes {one} and {other} do not broadcast")
    # An unknown size beside a known one above 1 is that one, or 1, or an error.
    return one if isinstance(one, int) else other if isinstance(other, int) else None


def product(sizes: Iterable[Size]) -> Size:
    """Return the product of sizes, None if one is not an int."""
    result = 1
    for size in sizes:
        if not isinstance(size, int):
            return None
        result *= size
    return result


def argument(call: Mapping[str, object], name: str) -> object:
    """Return the argument of a parameter, also under the names that numpy uses; None if there is none."""
    for spelling in (name, *_SPELLINGS.get(name, ())):
        if spelling in call:
            return call[spelling]
    return None


def tensor(call: Mapping[str, object], *names: str) -> Shape | None:
    """Return the shape of the first tensor argument, or of the one with a name."""
    if names:
        return next((value for name in names if isinstance(value := call.get(name), Shape)), None)
    return next((value for value in call.values() if isinstance(value, Shape)), None)


def axis(call: Mapping[str, object], rank: int, name: str = "dim") -> int | None:
    """Return a dimension counted from the front, None if it is unknown.

    Raises:
        ShapeMismatchError: If the tensor has no such dimension.
    """
    value = argument(call, name)
    if isinstance(value, LISTS) and len(value) == 1:
        value = value[0]
    if not isinstance(value, int):
        return None
    if not -max(rank, 1) <= value < max(rank, 1):
        raise ShapeMismatchError(f"dimension {value} of a tensor of {rank} dimensions")
    return value % rank if rank else 0


def ints(value: object) -> Sequence[object] | None:
    """Return a list of sizes, also from a single one; None if it is neither."""
    if isinstance(value, int):
        return (value,)
    return tuple(value) if isinstance(value, LISTS) and not isinstance(value, Shape) else None


def same(call: Mapping[str, object]) -> Result:
    """Return the shape of the first tensor."""
    return tensor(call)


def broadcasting(call: Mapping[str, object]) -> Result:
    """Return the common shape of all tensors."""
    return broadcast(value for value in call.values() if isinstance(value, Shape))


def reduction(call: Mapping[str, object]) -> Result:
    """Return the shape without the dimensions `dim`, with sizes of 1 for them if `keepdim`."""
    shape = tensor(call)
    if shape is None:
        return None
    keeps = call.get("keepdim", call.get("keepdims", False))
    if not isinstance(keeps, bool):
        return None
    dims = argument(call, "dim")
    if dims is None or (isinstance(dims, LISTS) and not dims):
        return Shape((1,) * len(shape)) if keeps else Shape()
    listed = ints(dims)
    if listed is None:
        return None
    places = {axis({"dim": each}, len(shape)) for each in listed}
    if None in places:
        return None
    return Shape(1 if place in places else size for place, size in enumerate(shape) if keeps or place not in places)


def scalar(_: Mapping[str, object]) -> Result:
    """Return the shape of a single number."""
    return Shape()


def concatenation(call: Mapping[str, object]) -> Result:
    """Return the shape of tensors joined along `dim`."""
    shapes = _listed(call)
    # A tensor of no elements and one dimension joins anything.
    shapes = [shape for shape in shapes or () if shape != (0,)] or shapes
    if not shapes:
        return None
    place = axis(call, len(shapes[0]))
    if place is None:
        return None
    if len({len(shape) for shape in shapes}) > 1:
        raise ShapeMismatchError("tensors of different ranks are concatenated")
    sizes: list[Size] = []
    for position, column in enumerate(zip(*shapes, strict=True)):
        if position == place:
            sizes.append(sum(column) if all(isinstance(size, int) for size in column) else None)
        else:
            sizes.append(_equal(column))
    return Shape(sizes)


def _equal(sizes: Sequence[Size]) -> Size:
    known = {size for size in sizes if isinstance(size, int)}
    if len(known) > 1:
        raise ShapeMismatchError(f"sizes {', '.join(map(str, sorted(known)))} differ")
    return next(iter(known), sizes[0] if len(set(sizes)) == 1 else None)


def _listed(call: Mapping[str, object]) -> list[Shape] | None:
    lists = [value for value in call.values() if isinstance(value, LISTS) and not isinstance(value, Shape)]
    lists = [value for value in lists if value and all(isinstance(each, Shape) for each in value)]
    return [Shape(each) for each in lists[0]] if lists else None


def stacking(call: Mapping[str, object]) -> Result:
    """Return the shape of tensors of one shape, stacked along a new dimension."""
    shapes = _listed(call)
    if not shapes:
        return None
    place = axis(call, len(shapes[0]) + 1)
    if place is None:
        return None
    if len({len(shape) for shape in shapes}) > 1:
        raise ShapeMismatchError("tensors of different ranks are stacked")
    sizes = [_equal(column) for column in zip(*shapes, strict=True)]
    return Shape((*sizes[:place], len(shapes), *sizes[place:]))


def matrix_product(call: Mapping[str, object]) -> Result:
    """Return the shape of a matrix product, by the rules of `torch.matmul`; `mat1` and `mat2` of `addmm`, too."""
    named = [call[name] for name in ("mat1", "mat2", "mat", "vec", "batch1", "batch2") if name in call]
    shapes = [value for value in named or call.values() if isinstance(value, Shape)]
    if len(shapes) != 2 or not all(shapes):  # noqa: PLR2004 - a product of two
        return None
    one, other = shapes
    left = Shape((1, *one)) if len(one) == 1 else one
    right = Shape((*other, 1)) if len(other) == 1 else other
    inner = (left[-1], right[-2])
    if all(isinstance(size, int) for size in inner) and inner[0] != inner[1]:
        raise ShapeMismatchError(f"inner sizes {inner[0]} and {inner[1]} of a matrix product differ")
    front = broadcast([Shape(left[:-2]), Shape(right[:-2])])
    return Shape((*front, *(left[-2:-1] if len(one) > 1 else ()), *(right[-1:] if len(other) > 1 else ())))


def outer_product(call: Mapping[str, object]) -> Result:
    """Return the shape of the outer product of two vectors."""
    shapes = [value for value in call.values() if isinstance(value, Shape)]
    return Shape((shapes[0][0], shapes[1][0])) if len(shapes) == 2 and all(len(each) == 1 for each in shapes) else None  # noqa: PLR2004


def swap(call: Mapping[str, object]) -> Result:
    """Return the shape with two dimensions swapped."""
    shape = tensor(call)
    if shape is None:
        return None
    names = next((pair for pair in (("dim0", "dim1"), ("axis0", "axis1")) if pair[0] in call), None)
    if names is None:
        return None
    first, second = (axis(call, len(shape), name) for name in names)
    if first is None or second is None:
        return None
    sizes = list(shape)
    if sizes:
        sizes[first], sizes[second] = sizes[second], sizes[first]
    return Shape(sizes)


def matrix_transpose(call: Mapping[str, object]) -> Result:
    """Return the shape with the last two dimensions swapped, if there are two."""
    shape = tensor(call)
    if shape is None:
        return None
    return Shape((*shape[:-2], shape[-1], shape[-2])) if len(shape) > 1 else shape


def permutation(call: Mapping[str, object]) -> Result:
    """Return the shape with its dimensions in the order `dims`."""
    shape, order = tensor(call), ints(argument(call, "dim"))
    if shape is None or order is None:
        return None
    places = [axis({"dim": each}, len(shape)) for each in order]
    if sorted(place for place in places if place is not None) != list(range(len(shape))):
        return None
    return Shape(shape[place] for place in places if place is not None)


def move_dimensions(call: Mapping[str, object]) -> Result:
    """Return the shape with dimensions `source` moved to `destination`."""
    shape, source, destination = tensor(call), ints(call.get("source")), ints(call.get("destination"))
    if shape is None or source is None or destination is None or len(source) != len(destination):
        return None
    sources = [axis({"dim": each}, len(shape)) for each in source]
    destinations = [axis({"dim": each}, len(shape)) for each in destination]
    order = [place for place in range(len(shape)) if place not in sources]
    for goal, place in sorted(zip(destinations, sources, strict=True), key=str):
        if goal is None or place is None:
            return None
        order.insert(goal, place)
    return Shape(shape[place] for place in order)


def expansion(call: Mapping[str, object]) -> Result:
    """Return the shape that sizes of 1 are expanded to; -1 keeps a size."""
    shape = tensor(call)
    target = call.get("other") if isinstance(call.get("other"), Shape) else ints(argument(call, "size"))
    if shape is None or not isinstance(target, LISTS):
        return None
    offset = len(target) - len(shape)
    if offset < 0:
        raise ShapeMismatchError(f"{len(shape)} dimensions are expanded to {len(target)}")
    padded = (None,) * offset + tuple(shape)
    return Shape(old if size == -1 else size for size, old in zip(target, padded, strict=True))


def view(call: Mapping[str, object]) -> Result:
    """Return the shape that is asked for, with -1 worked out."""
    shape = tensor(call)
    other = call.get("other")
    target = other if isinstance(other, Shape) else ints(argument(call, "size"))
    if shape is None or not isinstance(target, LISTS):
        return None
    count, rest = product(shape), product(size for size in target if size != -1)
    if -1 not in target:
        if isinstance(count, int) and isinstance(rest, int) and count != rest:
            raise ShapeMismatchError(f"{count} elements do not fit sizes of {rest}")
        return Shape(target)
    if not isinstance(count, int) or not isinstance(rest, int) or not rest:
        return Shape(None if size == -1 else size for size in target)
    if count % rest:
        raise ShapeMismatchError(f"{count} elements do not fit sizes of {rest}")
    return Shape(count // rest if size == -1 else size for size in target)


def repetition(call: Mapping[str, object]) -> Result:
    """Return the shape of a tensor repeated along its dimensions."""
    shape = tensor(call)
    counts = next((ints(call[name]) for name in ("repeats", "repeat", "dims", "reps") if name in call), None)
    if shape is None or counts is None:
        return None
    rank = max(len(shape), len(counts))
    sizes = (1,) * (rank - len(shape)) + tuple(shape)
    times = (1,) * (rank - len(counts)) + tuple(counts)
    return Shape(product(pair) for pair in zip(sizes, times, strict=True))


def squeeze(call: Mapping[str, object]) -> Result:
    """Return the shape without its sizes of 1, or without those of `dim`."""
    shape = tensor(call)
    if shape is None:
        return None
    dims = argument(call, "dim")
    if dims is None:
        return Shape(size for size in shape if size != 1) if all(isinstance(size, int) for size in shape) else None
    listed = ints(dims)
    if listed is None:
        return None
    places = {axis({"dim": each}, len(shape)) for each in listed}
    if any(place is not None and shape and not isinstance(shape[place], int) for place in places):
        return None
    return Shape(size for place, size in enumerate(shape) if place not in places or size != 1)


def unsqueeze(call: Mapping[str, object]) -> Result:
    """Return the shape with a size of 1 inserted at `dim`."""
    shape = tensor(call)
    place = None if shape is None else axis(call, len(shape) + 1)
    return None if shape is None or place is None else Shape((*shape[:place], 1, *shape[place:]))


def flatten(call: Mapping[str, object]) -> Result:
    """Return the shape with the dimensions from `start_dim` to `end_dim` joined."""
    shape = tensor(call)
    if shape is None:
        return None
    first = axis({"dim": call.get("start_dim", 0)}, len(shape))
    last = axis({"dim": call.get("end_dim", -1)}, len(shape))
    if first is None or last is None:
        return None
    return Shape((*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :]))


def unflatten(call: Mapping[str, object]) -> Result:
    """Return the shape with dimension `dim` split into sizes."""
    shape, sizes = tensor(call), ints(argument(call, "size"))
    place = None if shape is None else axis(call, len(shape))
    if shape is None or place is None or sizes is None:
        return None
    inner = view({"input": Shape(shape[place : place + 1]), "size": sizes})
    return Shape((*shape[:place], *inner, *shape[place + 1 :])) if isinstance(inner, Shape) else None


def _with_size(shape: Shape, place: int, *size: Size) -> Shape:
    return Shape((*shape[:place], *size, *shape[place + 1 :]))


def chunks(call: Mapping[str, object]) -> Result:
    """Return the shapes of at most `chunks` parts of equal size, but for the last."""
    shape, count = tensor(call), call.get("chunks")
    place = None if shape is None else axis(call, len(shape))
    length = None if shape is None or place is None else shape[place]
    if not isinstance(count, int) or not isinstance(length, int) or not length:
        return None
    return split(dict(call) | {"split_size": math.ceil(length / count)})


def split(call: Mapping[str, object]) -> Result:
    """Return the shapes of the parts of a split by size, or by a list of sizes."""
    shape = tensor(call)
    place = None if shape is None else axis(call, len(shape))
    names = ("split_size", "split_size_or_sections", "split_sizes")
    size = next((call[name] for name in names if name in call), None)
    if shape is None or place is None:
        return None
    length = shape[place]
    if isinstance(size, int) and size > 0 and isinstance(length, int):
        whole, rest = divmod(length, size)
        return tuple(_with_size(shape, place, each) for each in [size] * whole + [rest] * bool(rest))
    sizes = ints(size) if not isinstance(size, int) else None
    return None if sizes is None else tuple(_with_size(shape, place, each) for each in sizes)


def unbind(call: Mapping[str, object]) -> Result:
    """Return one shape for each element along `dim`."""
    shape = tensor(call)
    place = None if shape is None else axis(call, len(shape))
    length = None if shape is None or place is None else shape[place]
    if shape is None or place is None or not isinstance(length, int):
        return None
    return (_with_size(shape, place),) * length


def select(call: Mapping[str, object]) -> Result:
    """Return the shape without `dim`."""
    shape = tensor(call)
    place = None if shape is None else axis(call, len(shape))
    return None if shape is None or place is None else _with_size(shape, place)


def narrow(call: Mapping[str, object]) -> Result:
    """Return the shape with `length` elements along `dim`; for `topk`, `k` of them."""
    shape = tensor(call)
    place = None if shape is None else axis(call, len(shape))
    size = call.get("length", call.get("k"))
    return None if shape is None or place is None else _with_size(shape, place, size)


def index_select(call: Mapping[str, object]) -> Result:
    """Return the shape with as many elements along `dim` as the index has."""
    shape, index = tensor(call), call.get("index")
    place = None if shape is None else axis(call, len(shape))
    if shape is None or place is None or not isinstance(index, Shape):
        return None
    return _with_size(shape, place, product(index))


def gather(call: Mapping[str, object]) -> Result:
    """Return the shape of the index."""
    return tensor(call, "index", "indices")


def vector_of_unknown_size(_: Mapping[str, object]) -> Result:
    """Return one dimension whose size depends on the elements."""
    return Shape((None,))


def factory(call: Mapping[str, object]) -> Result:
    """Return the sizes that are asked for."""
    sizes = ints(argument(call, "size"))
    return None if sizes is None else Shape(sizes)


RULES: dict[str, Callable[[Mapping[str, object]], Result]] = {
    "reduce": reduction,
    "broadcast": broadcasting,
    "same": same,
    "scalar": scalar,
    "cat": concatenation,
    "stack": stacking,
    "matmul": matrix_product,
    "outer": outer_product,
    "swap": swap,
    "matrix transpose": matrix_transpose,
    "permute": permutation,
    "move": move_dimensions,
    "expand": expansion,
    "view": view,
    "repeat": repetition,
    "squeeze": squeeze,
    "unsqueeze": unsqueeze,
    "flatten": flatten,
    "unflatten": unflatten,
    "chunk": chunks,
    "split": split,
    "unbind": unbind,
    "select": select,
    "narrow": narrow,
    "index select": index_select,
    "gather": gather,
    "vector": vector_of_unknown_size,
    "factory": factory,
}
