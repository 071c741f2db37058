"""What the layers of `torch.nn` make of shapes, and what they ask of what they are given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.review.shapes.algebra import flattened
from esper_agents.review.shapes.facts import UNKNOWN, Handed, Items, Kind, Layer, Number, Tensor, Value, fresh
from esper_agents.review.shapes.sizes import Dim, divided, plus, times

if TYPE_CHECKING:
    from collections.abc import Callable

_CONVOLUTION = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias")
_TRANSPOSED = (*_CONVOLUTION[:5], "output_padding", "groups", "bias", "dilation")
_POOLING = ("kernel_size", "stride", "padding", "dilation")
_AVERAGING = ("kernel_size", "stride", "padding", "ceil_mode")
_RECURRENT = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
_NORM = ("num_features",)
# The parameters of each layer's constructor, in order; what is not here is no layer that is known.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "Linear": ("in_features", "out_features", "bias"),
    "LazyLinear": ("out_features",),
    **{f"Conv{n}d": _CONVOLUTION for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": _TRANSPOSED for n in (1, 2, 3)},
    **{f"LazyConv{n}d": _CONVOLUTION[1:] for n in (1, 2, 3)},
    **{f"MaxPool{n}d": (*_POOLING, "return_indices", "ceil_mode") for n in (1, 2, 3)},
    **{f"AvgPool{n}d": _AVERAGING for n in (1, 2, 3)},
    **{f"Adaptive{kind}Pool{n}d": ("output_size",) for n in (1, 2, 3) for kind in ("Avg", "Max")},
    **{f"BatchNorm{n}d": _NORM for n in (1, 2, 3)},
    **{f"InstanceNorm{n}d": _NORM for n in (1, 2, 3)},
    "SyncBatchNorm": _NORM,
    "GroupNorm": ("num_groups", "num_channels"),
    "LayerNorm": ("normalized_shape",),
    "RMSNorm": ("normalized_shape",),
    "Flatten": ("start_dim", "end_dim"),
    "Embedding": ("num_embeddings", "embedding_dim"),
    "EmbeddingBag": ("num_embeddings", "embedding_dim"),
    "LSTM": _RECURRENT,
    "GRU": _RECURRENT,
    "RNN": ("input_size", "hidden_size", "num_layers", "nonlinearity", *_RECURRENT[3:]),
    "TransformerEncoderLayer": ("d_model", "nhead", "dim_feedforward"),
    "TransformerDecoderLayer": ("d_model", "nhead", "dim_feedforward"),
    "MultiheadAttention": ("embed_dim", "num_heads", "dropout"),
    "Bilinear": ("in1_features", "in2_features", "out_features"),
    "Softmax": ("dim",),
    "LogSoftmax": ("dim",),
    "Softmin": ("dim",),
}
# Layers that change numbers and not shapes.
_SAME = frozenset(
    {"ReLU", "ReLU6", "LeakyReLU", "PReLU", "RReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Sigmoid", "Tanh"}
    | {"Softplus", "Softsign", "Hardtanh", "Hardsigmoid", "Hardswish", "LogSigmoid", "Tanhshrink", "Threshold"}
    | {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "Identity"}
    | {"Softmax", "LogSoftmax", "Softmin", "Softmax2d", "LayerNorm", "RMSNorm", "GroupNorm", "LocalResponseNorm"}
    | {f"{kind}Norm{n}d" for kind in ("Batch", "Instance", "LazyBatch", "LazyInstance") for n in (1, 2, 3)}
    | {"SyncBatchNorm", "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoderLayer"}
)
# What a layer calls the number of features that it was made for.
_FEATURES = {
    "Linear": "in_features",
    **dict.fromkeys(("LSTM", "GRU", "RNN"), "input_size"),
    **dict.fromkeys(("TransformerEncoderLayer", "TransformerDecoderLayer"), "d_model"),
    "MultiheadAttention": "embed_dim",
}
LOSSES = frozenset(
    {"MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "NLLLoss"}
)
KNOWN = frozenset(PARAMETERS) | _SAME | LOSSES | {"Sequential"}


@dataclass(frozen=True, slots=True)
class Misfit:
    """A size that a layer cannot take.

    Attributes:
        wanted: What the layer was made for.
        given: What reaches it.
        what: What is counted, in words.
    """

    wanted: Dim
    given: Dim
    what: str


def size(layer: Layer, name: str) -> Dim:
    """Return what a layer's constructor was given for a parameter, as a size."""
    given = layer.sizes.get(name)
    return given.dim if isinstance(given, Number | Handed) else None


def wanted(layer: Layer) -> Misfit | None:
    """Return the size of its input that a layer was made for, with what is counted; `given` stays unknown."""
    if layer.name.startswith("Conv"):
        return Misfit(size(layer, "in_channels"), None, "channels")
    if layer.name.startswith(("BatchNorm", "InstanceNorm", "SyncBatchNorm")):
        return Misfit(size(layer, "num_features"), None, "channels")
    if layer.name == "GroupNorm":
        return Misfit(size(layer, "num_channels"), None, "channels")
    if layer.name in _FEATURES:
        return Misfit(size(layer, _FEATURES[layer.name]), None, "features")
    if layer.name in {"LayerNorm", "RMSNorm"}:
        shape = layer.sizes.get("normalized_shape")
        last = shape.values[-1] if isinstance(shape, Items) and shape.values else shape
        return Misfit(last.dim if isinstance(last, Number | Handed) else None, None, "features")
    return None


def given(layer: Layer, tensor: Tensor) -> Dim:
    """Return the size of a tensor that a layer looks at: its channels, or its features."""
    ask = wanted(layer)
    if ask is None:
        return None
    if ask.what == "features":
        return tensor.last
    spatial = _spatial(layer)
    if spatial is not None:
        channels = len(tensor.dims) - 1 - spatial
        is_batch = layer.name == "BatchNorm1d" and tensor.rank == 2  # noqa: PLR2004 - batch and features
        return (
            tensor.dims[1] if is_batch else (tensor.dims[channels] if channels >= 0 and _fits(layer, tensor) else None)
        )
    return tensor.dims[1] if tensor.rank is not None and tensor.rank > 1 else None


def _fits(layer: Layer, tensor: Tensor) -> bool:
    """Return whether the number of dimensions is one that says where the channels are."""
    spatial = _spatial(layer) or 0
    is_whole = tensor.rank == spatial + 2 or (tensor.rank == spatial + 1 and layer.name.startswith("Conv"))
    return tensor.is_open or is_whole


def _spatial(layer: Layer) -> int | None:
    return int(layer.name[-2]) if layer.name[-2:] in {"1d", "2d", "3d"} else None


def applied(layer: Layer, value: Value, apply_part: Callable[[Value, Value], Value]) -> Value:
    """Return what a layer makes of a value.

    Args:
        layer: The layer.
        value: What it is given.
        apply_part: Applies a part of a `Sequential`, which may be an object of a reviewed class.
    """
    if layer.name == "Sequential":
        for part in layer.parts:
            value = apply_part(part, value)
        return value
    tensor = value if isinstance(value, Tensor) else UNKNOWN
    if layer.name in {"LSTM", "GRU", "RNN"}:
        return _recurrent(layer, tensor)
    if layer.name in _SAME:
        return replace(tensor, kind=Kind.FLOAT, places=_kept(layer, tensor))
    return _single(layer, tensor)


def _kept(layer: Layer, tensor: Tensor) -> tuple[int, ...] | None:
    is_pointwise = "Norm" not in layer.name and "oftm" not in layer.name
    return tensor.places if is_pointwise or tensor.places == tuple(range(len(tensor.dims))) else None


def _single(layer: Layer, tensor: Tensor) -> Value:
    name = layer.name
    if name in {"Linear", "LazyLinear"}:
        out = size(layer, "out_features")
        return fresh((*tensor.dims[:-1], out), Kind.FLOAT, is_open=tensor.is_open)
    if name == "MultiheadAttention":
        first = layer.sizes.get("batch_first", Number(0))
        is_turned = isinstance(first, Number) and first.dim == 1 and tensor.rank == 3  # noqa: PLR2004 - as for recurrent ones
        return Items((Tensor(tensor.dims, tensor.is_open, Kind.FLOAT, (1, 0, 2) if is_turned else None), UNKNOWN))
    if name == "Flatten":
        start, end = layer.sizes.get("start_dim", Number(1)), layer.sizes.get("end_dim", Number(-1))
        return _flat(tensor, start, end)
    if name == "Embedding":
        return fresh((*tensor.dims, size(layer, "embedding_dim")), Kind.FLOAT, is_open=tensor.is_open)
    spatial = _spatial(layer)
    if spatial is not None and name in PARAMETERS:
        return _windowed(layer, tensor, spatial)
    return UNKNOWN


def _flat(tensor: Tensor, start: Value, end: Value) -> Tensor:
    if (
        isinstance(start, Number)
        and isinstance(end, Number)
        and isinstance(start.dim, int)
        and isinstance(end.dim, int)
    ):
        return flattened(tensor, start.dim, end.dim)
    return UNKNOWN


def _recurrent(layer: Layer, tensor: Tensor) -> Value:
    both = layer.sizes.get("bidirectional", Number(0))
    directions = both.dim if isinstance(both, Number) and both.dim in {0, 1} else None
    if isinstance(directions, int):
        directions += 1
    hidden = size(layer, "hidden_size")
    if "proj_size" in layer.sizes:
        hidden = None
    first = layer.sizes.get("batch_first", Number(0))
    if tensor.is_open:
        # Without a batch it would have two dimensions, which is rare.
        tensor = Tensor((None, None, tensor.last), False)
    is_turned = isinstance(first, Number) and first.dim == 1 and tensor.rank == 3  # noqa: PLR2004 - batch, time, features
    # The batch is put first by turning the result, without a copy.
    places = ((1, 0, 2) if is_turned else tuple(range(len(tensor.dims)))) if isinstance(first, Number) else None
    out = Tensor((*tensor.dims[:-1], times(hidden, directions)), False, Kind.FLOAT, places, is_fresh=True)
    layers = layer.sizes.get("num_layers", Number(1))
    count = times(layers.dim if isinstance(layers, Number) else None, directions)
    batch: Dim = None
    if tensor.rank == 3 and isinstance(first, Number) and first.dim in {0, 1}:  # noqa: PLR2004 - batch, time, features
        batch = tensor.dims[0] if first.dim else tensor.dims[1]
    state = Tensor((count, batch, hidden), tensor.rank != 3, Kind.FLOAT)  # noqa: PLR2004 - likewise
    return Items((out, Items((state, state)) if layer.name == "LSTM" else state))


def _windowed(layer: Layer, tensor: Tensor, spatial: int) -> Value:
    """Return what a convolution or pooling gives: its channels, and the sizes that the window leaves."""
    channels = size(layer, "out_channels") if "Conv" in layer.name else None
    if not tensor.is_open and len(tensor.dims) not in {spatial + 1, spatial + 2}:
        return UNKNOWN
    if len(tensor.dims) < spatial + 1:
        if tensor.is_open and channels is not None:
            return fresh((None, channels, *([None] * spatial)), Kind.FLOAT)
        return UNKNOWN
    if "Conv" not in layer.name:
        channels = tensor.dims[-spatial - 1]
    inner = [_window(layer, dim, axis) for axis, dim in enumerate(tensor.dims[-spatial:])]
    made = fresh((*tensor.dims[: -spatial - 1], channels, *inner), Kind.FLOAT, is_open=tensor.is_open)
    # Channels-last memory goes through convolutions and pooling as it came.
    return made if tensor.is_fresh or tensor.is_open else replace(made, is_fresh=False)


def _window(layer: Layer, dim: Dim, axis: int) -> Dim:
    if layer.name.startswith("Adaptive"):
        return _at(layer, "output_size", axis, None)
    kernel = _at(layer, "kernel_size", axis, None)
    stride = _at(layer, "stride", axis, kernel if "Pool" in layer.name else 1)
    padding, dilation = _at(layer, "padding", axis, 0), _at(layer, "dilation", axis, 1)
    numbers = [each for each in (kernel, stride, padding, dilation) if isinstance(each, int)]
    if len(numbers) < 4 or 0 in numbers[:2] or "ceil_mode" in layer.sizes:  # noqa: PLR2004 - all four
        return None
    return _slid(layer, dim, axis, numbers)


def _slid(layer: Layer, dim: Dim, axis: int, numbers: list[int]) -> Dim:
    """Return how often a window of a known size fits, or of a transposed convolution what it spreads to."""
    kernel, stride, padding, dilation = numbers
    if layer.name.startswith("ConvTranspose"):
        inner = plus(times(plus(dim, 1, -1), stride), dilation * (kernel - 1) + 1 - 2 * padding)
        return plus(inner, _at(layer, "output_padding", axis, 0))
    span = dilation * (kernel - 1) - 2 * padding
    if isinstance(dim, int):
        return (dim - span - 1) // stride + 1
    if span == 0 and stride == 1:
        return dim
    return divided(dim, stride) if span + 1 == stride else None


def _at(layer: Layer, name: str, axis: int, absent: Dim) -> Dim:
    """Return a parameter of a window along one axis: one number for all of them, or one for each."""
    if name not in layer.sizes:
        return absent
    value = layer.sizes[name]
    if isinstance(value, Items):
        value = value.values[axis] if axis < len(value.values) else None
    return value.dim if isinstance(value, Number | Handed) else None


def layer(name: str, arguments: list[Value], keywords: dict[str, Value]) -> Layer | None:
    """Return the layer that a constructor of `torch.nn` makes; None where it is none that is known."""
    if name not in KNOWN:
        return None
    if name == "Sequential":
        if len(arguments) == 1 and isinstance(arguments[0], Items):
            # An ordered dictionary, as pairs of a name and a layer.
            arguments = [value.values[-1] if isinstance(value, Items) else None for value in arguments[0].values]
        return Layer(name, {}, tuple(arguments))
    names = PARAMETERS.get(name, ())
    return Layer(name, {**dict(zip(names, arguments, strict=False)), **keywords})
