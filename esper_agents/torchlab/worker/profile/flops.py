"""Count the floating-point operations of one operation from its shapes; a multiply-add counts as two.

torch's own table is used for the operations it covers correctly. It lacks those that the CPU and the inference fast
paths really run (attention, LSTM, matrix times vector), and counts the weight gradient of a grouped convolution once
for every group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_Args = Sequence[Any]


def flops_of(operation: torch._ops.OpOverload, args: _Args, kwargs: dict[str, Any], out: Any) -> int | None:
    """Return the number of floating-point operations of a call; None if it is not counted.

    Counted are contractions: matrix products, convolutions, attention, recurrent layers. Bias additions and
    elementwise work are not, as is customary. A causal mask is not deducted.

    Args:
        operation: The operation.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        out: Its result.
    """
    ours = _OURS.get(operation._schema.name)  # noqa: SLF001 - the name without the overload
    if ours is not None:
        return ours(args, out)
    from torch.utils.flop_counter import flop_registry

    theirs = flop_registry.get(operation._overloadpacket)  # noqa: SLF001 - torch's table is keyed by it
    return None if theirs is None else int(theirs(*args, **kwargs, out_val=out))


def _multiplied(*sizes: int) -> int:
    return 2 * prod(sizes)


def _matrix_vector(args: _Args, _out: Any) -> int:
    return _multiplied(*args[-2].shape)


def _dot(args: _Args, _out: Any) -> int:
    return _multiplied(*args[0].shape)


def _addbmm(args: _Args, _out: Any) -> int:
    return _multiplied(*args[1].shape, args[2].shape[-1])


def _last_two_matrices(args: _Args, _out: Any) -> int:
    return _multiplied(*args[-2].shape, args[-1].shape[-1])


def _distance(args: _Args, _out: Any) -> int:
    # |x|^2 + |y|^2 - 2xy as one product: two columns are appended to both.
    points, width = args[0].shape[-2:]
    return _multiplied(*args[0].shape[:-2], points, width + 2, args[1].shape[-2])


def _convolution_backward(args: _Args, _out: Any) -> int:
    grad, given, weight = args[:3]
    is_transposed, mask = args[7], args[10]
    places = (given if is_transposed else grad).shape[2:]
    once = _multiplied(given.shape[0], *places, *weight.shape)
    return once * (int(mask[0]) + int(mask[1]))


def _scores(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[int, int]:
    *batch_heads_queries, width = query.shape
    return _multiplied(*batch_heads_queries, key.shape[-2], width), _multiplied(
        *batch_heads_queries, key.shape[-2], value.shape[-1]
    )


def _attention(args: _Args, _out: Any) -> int:
    return sum(_scores(*args[:3]))


def _attention_backward(args: _Args, _out: Any) -> int:
    # The scores again, then two products for each of the two of the forward pass.
    by_key, by_value = _scores(*args[1:4])
    return 3 * by_key + 2 * by_value


def _recurrent(args: _Args, _out: Any) -> int:
    steps_and_batch = args[0].shape[:-1]
    return _multiplied(*steps_and_batch, args[1].shape[0], args[1].shape[1] + args[2].shape[1])


def _recurrent_backward(args: _Args, out: Any) -> int:
    return 2 * _recurrent(args, out)


def _native_attention(args: _Args, _out: Any) -> int:
    query, key, width = args[0], args[1], args[3]
    return _projected(query.shape[0], query.shape[1], key.shape[1], width)


def _projected(batch: int, queries: int, keys: int, width: int) -> int:
    """Return the count of attention over all heads, with projections of query, key, value and output."""
    return _multiplied(batch, 2 * queries + 2 * keys, width, width) + 2 * _multiplied(batch, queries, keys, width)


def _encoder_layer(args: _Args, _out: Any) -> int:
    batch, length, width = args[0].shape
    feed_forward = 2 * _multiplied(batch, length, *args[14].shape)
    return _projected(batch, length, length, width) + feed_forward


def _trilinear(args: _Args, _out: Any) -> int:
    """Return the count of `at::_trilinear`: products of pairs along the summed dimension."""
    tensors, expanded, summed = args[:3], [set(arg) for arg in args[3:6]], set(args[6])
    unrolled = args[7] if len(args) > 7 else 1  # noqa: PLR2004 - the place of `unroll_dim` in the schema
    sizes: dict[int, int] = {}
    present: list[set[int]] = []
    total = max(each.ndim + len(gone) for each, gone in zip(tensors, expanded))  # noqa: B905 - Python 3.10
    for tensor, gone in zip(tensors, expanded):  # noqa: B905 - same reason
        kept = [each for each in range(total) if each not in gone]
        sizes.update(zip(kept, tensor.shape))  # noqa: B905 - a size for each dimension that is not expanded
        present.append(set(kept))
    inner = (summed - {unrolled}) & expanded[2]
    outer = (summed - {unrolled}) - expanded[2]
    first = (present[0] | present[1] | {unrolled}) if inner else set()
    second = ((present[0] | present[1]) - inner) | present[2] | {unrolled} if outer else set()
    return sum(_multiplied(*(sizes[each] for each in stage)) for stage in (first, second) if stage)


_OURS: dict[str, Callable[[_Args, Any], int]] = {
    "aten::mv": _matrix_vector,
    "aten::addmv": _matrix_vector,
    "aten::addmv_": _matrix_vector,
    "aten::dot": _dot,
    "aten::vdot": _dot,
    "aten::addbmm": _addbmm,
    "aten::_int_mm": _last_two_matrices,
    "aten::_addmm_activation": lambda args, _out: _multiplied(*args[1].shape, args[2].shape[-1]),
    "aten::_euclidean_dist": _distance,
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "aten::mkldnn_rnn_layer": _recurrent,
    "aten::mkldnn_rnn_layer_backward": _recurrent_backward,
    "aten::_native_multi_head_attention": _native_attention,
    "aten::_transformer_encoder_layer_fwd": _encoder_layer,
    "aten::_trilinear": _trilinear,
}
