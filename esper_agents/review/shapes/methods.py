"""What the methods of tensors give, as far as shapes go."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.shapes import algebra
from esper_agents.review.shapes.facts import UNKNOWN, Extent, Items, Kind, Number, Tensor, Type, Value, fresh, scalar
from esper_agents.review.shapes.reshaping import RESHAPING, Operation
from esper_agents.review.shapes.sizes import Symbol

if TYPE_CHECKING:
    from esper_agents.review.shapes.given import Given

ELEMENTWISE = frozenset(
    {"abs", "exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "rsqrt", "square", "sin", "cos", "tan", "tanh"}
    | {"sigmoid", "relu", "relu_", "gelu", "silu", "elu", "leaky_relu", "softplus", "selu", "mish", "hardtanh", "relu6"}
    | {
        "clamp",
        "clamp_",
        "clamp_min",
        "clamp_max",
        "clip",
        "neg",
        "round",
        "floor",
        "ceil",
        "sign",
        "erf",
        "nan_to_num",
    }
    | {"dropout", "detach", "detach_", "cpu", "cuda", "pin_memory", "requires_grad_", "half", "bfloat16", "clone"}
    | {"masked_fill", "masked_fill_", "mul_", "add_", "sub_", "div_", "fill_", "zero_", "numpy", "copy"}
    | {
        "logsigmoid",
        "reciprocal",
        "astype",
        "type",
        "cumsum",
        "cumprod",
        "flip",
        "roll",
        "retain_grad",
        "logit",
        "share_memory_",
    }
)


# Methods of a column of pandas that give another as long, or its values.
_OF_COLUMNS = frozenset({"to_numpy", "fillna", "map", "apply", "replace", "ffill", "bfill", "interpolate"})


_CASTING = frozenset({"to", "astype", "type", "type_as"})


_LIKE = frozenset(
    {"zeros_like", "ones_like", "rand_like", "randn_like", "full_like", "empty_like", "tril", "triu", "triu_"}
)


_NORMALISING = frozenset(
    {"softmax", "log_softmax", "normalize", "layer_norm", "batch_norm", "group_norm", "softmin", "rms_norm"}
)


BINARY = frozenset({"add", "sub", "mul", "div", "true_divide", "pow", "maximum", "minimum", "fmod", "remainder"})


COMPARING = frozenset({"eq", "ne", "gt", "lt", "ge", "le", "logical_and", "logical_or", "isclose"})


_REDUCING = frozenset(
    {"sum", "mean", "std", "var", "norm", "amax", "amin", "prod", "logsumexp", "any", "all", "median"}
)


_KINDS = {
    **dict.fromkeys(("float", "double", "half", "bfloat16"), Kind.FLOAT),
    **dict.fromkeys(("long", "int", "short"), Kind.INTEGER),
    "bool": Kind.BOOLEAN,
}


# Results whose shape this module does not work out, but that are tensors.
_OPAQUE = frozenset(
    {"masked_select", "nonzero", "repeat_interleave", "scatter", "scatter_", "bincount", "unfold", "pad"}
)


def method(name: str, tensor: Tensor, given: Given) -> Value:  # noqa: PLR0911 - one for each kind of method
    """Return what a method of a tensor gives; None where it is none that is known."""
    if name in _KINDS:
        return replace(tensor, kind=_KINDS[name])
    if name in _CASTING:
        return _cast(tensor, given)
    if tensor.is_array and name in _OF_COLUMNS:
        return replace(tensor, kind=None)
    if name in ELEMENTWISE:
        return _pointwise(tensor, given)
    if name in _NORMALISING:
        places = tensor.places if tensor.places == tuple(range(len(tensor.dims))) else None
        return replace(tensor, places=places, kind=Kind.FLOAT)
    if name in _LIKE:
        return tensor if tensor.is_open else replace(tensor, kind=None)
    if name in BINARY | COMPARING:
        other = given.at(0, "other")
        whole = algebra.broadcast(tensor, other) if isinstance(other, Tensor) else tensor
        whole = whole if isinstance(other, Tensor | Number) else UNKNOWN
        return replace(whole, kind=Kind.BOOLEAN) if name in COMPARING else whole
    if name in _REDUCING:
        return _reduced(tensor, given)
    operation = _METHODS.get(name)
    return operation(tensor, given) if operation is not None else (UNKNOWN if name in _OPAQUE else None)


def _cast(tensor: Tensor, given: Given) -> Tensor:
    kinds = [each.kind for each in (*given.values, *given.named.values()) if isinstance(each, Type)]
    return replace(tensor, kind=kinds[0] if kinds else None)


def _pointwise(tensor: Tensor, given: Given) -> Tensor:
    bounds = [each for each in (*given.values, *given.named.values()) if isinstance(each, Tensor) and each.dims]
    return tensor if not bounds else algebra.broadcast(tensor, bounds[0])


def _reduced(tensor: Tensor, given: Given) -> Value:
    keeps = given.number(1, "keepdim", given.number(1, "keepdims", 0))
    if not given.has(0, "dim") and "axis" not in given.named:
        return scalar(tensor.kind)
    axes = given.numbers(0, "dim" if given.has(0, "dim") else "axis")
    if axes is None or keeps is None:
        return UNKNOWN
    return algebra.reduced(tensor, axes, keeps=bool(keeps))


def _extreme(tensor: Tensor, given: Given) -> Value:
    """Return what `max`, `min` and `sort` along a dimension give: values and indices."""
    other = given.at(0)
    if isinstance(other, Tensor):
        return algebra.broadcast(tensor, other)
    found = _reduced(tensor, given)
    if not given.has(0, "dim") or tensor.is_array:
        return found
    if tensor.is_open and len(tensor.dims) == 1 and given.number(0, "dim") == 1 and not given.has(1, "keepdim"):
        # The best of each row: as many as there are rows.
        found = Tensor((Symbol(1, ("batch@rows",)),), kind=tensor.kind)
    return Items((found, replace(found, kind=Kind.INTEGER))) if isinstance(found, Tensor) else None


def _position(tensor: Tensor, given: Given) -> Value:
    found = _reduced(tensor, given)
    return replace(found, kind=Kind.INTEGER) if isinstance(found, Tensor) else found


def _sorted(tensor: Tensor, given: Given) -> Value:  # noqa: ARG001 - one signature for all
    return Items((tensor, replace(tensor, kind=Kind.INTEGER)))


def _topk(tensor: Tensor, given: Given) -> Value:
    axis = tensor.axis(given.number(1, "dim", -1) or -1)
    if axis is None:
        return Items((UNKNOWN, UNKNOWN))
    count = given.at(0, "k")
    size = count.dim if isinstance(count, Number) else None
    found = fresh((*tensor.dims[:axis], size, *tensor.dims[axis + 1 :]), tensor.kind, is_open=tensor.is_open)
    return Items((found, replace(found, kind=Kind.INTEGER)))


def _gathered(tensor: Tensor, given: Given) -> Value:
    index = given.at(1, "index")
    if not isinstance(index, Tensor):
        index = UNKNOWN
    axis = given.number(0, "dim")
    is_flat = tensor.rank == 2 or (tensor.is_open and len(tensor.dims) == 1)  # noqa: PLR2004 - rows and columns
    if index.is_open and axis == 1 and is_flat and index.last in {1, None}:
        # One column is picked from each row, as an index has to be as deep as what it picks from.
        return fresh((None, 1), tensor.kind)
    return fresh(index.dims, tensor.kind, is_open=index.is_open)


def _index_selected(tensor: Tensor, given: Given) -> Value:
    axis = tensor.axis(given.number(0, "dim") or 0)
    return UNKNOWN if axis is None or tensor.is_open else fresh((*tensor.dims[:axis], None, *tensor.dims[axis + 1 :]))


def _multiplied(tensor: Tensor, given: Given) -> Value:
    other = given.at(0, "other")
    return algebra.multiplied(tensor, other if isinstance(other, Tensor) else UNKNOWN)


def _batch_multiplied(tensor: Tensor, given: Given) -> Value:
    other = given.at(0, "mat2")
    batches = [each if isinstance(each, Tensor) and each.rank == 3 else None for each in (tensor, other)]  # noqa: PLR2004 - what `bmm` takes
    one, two = (batch or fresh((None, None, None)) for batch in batches)
    return algebra.multiplied(one, two)


def _size(tensor: Tensor, given: Given) -> Value:
    axis = given.number(0, "dim")
    if not given.values and not given.named:
        return Extent(tensor)
    return size_at(tensor, axis) if axis is not None else Number()


def size_at(tensor: Tensor, axis: int) -> Number:
    """Return one size of a tensor."""
    place = tensor.axis(axis)
    return Number(None if place is None else tensor.dims[place])


def _item(tensor: Tensor, given: Given) -> Value:  # noqa: ARG001 - one signature for all
    return Number()


_METHODS: dict[str, Operation] = {
    **RESHAPING,
    **dict.fromkeys(("max", "min"), _extreme),
    **dict.fromkeys(("argmax", "argmin"), _position),
    **dict.fromkeys(("matmul", "mm", "dot"), _multiplied),
    "bmm": _batch_multiplied,
    **dict.fromkeys(("item", "dim", "numel", "ndimension"), _item),
    "gather": _gathered,
    "index_select": _index_selected,
    "size": _size,
    "topk": _topk,
    "sort": _sorted,
}
