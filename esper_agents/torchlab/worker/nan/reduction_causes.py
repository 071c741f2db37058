"""Causes of NaN or Inf in reductions: softmax, products, norms, means, losses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from .tensor_statistics import first_bad, is_finite

if TYPE_CHECKING:
    from collections.abc import Callable

    from .operation_call import OperationCall

_Explained = tuple[str, str]
# Names of the factors of a matrix product: rows of the first are multiplied by columns of the second.
_FACTORS = {
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "baddbmm": ("batch1", "batch2"),
    "mv": ("self", "vec"),
    "addmv": ("mat", "vec"),
    "dot": ("self", "tensor"),
}


def by_structure(call: OperationCall, what: str) -> _Explained | None:
    """Explain a reduction; None for other operations."""
    explain = _BY_NAME.get(call.plain)
    if explain is None:
        explain = next((each for parts, each in _BY_PARTS if all(part in call.base for part in parts)), None)
    if explain is None or "backward" in call.base:
        return None
    return explain(call, what)


def _softmax(call: OperationCall, what: str) -> _Explained | None:
    given = call.arguments["self"]
    index = first_bad(call.outputs[0], what)
    dim = call.arguments["dim"]
    if index is None or what != "nan" or not isinstance(dim, int) or len(index) != given.ndim or given.ndim == 0:
        return None
    row = given.movedim(dim, -1)[tuple(position for number, position in enumerate(index) if number != dim % given.ndim)]
    if bool((row == -math.inf).all()):
        return "softmax-of-masked-row", f"every one of the {row.numel()} elements of the row is -inf"
    return ("inf-minus-inf", "the row holds +inf, and softmax subtracts the largest") if not is_finite(row) else None


def _attention(call: OperationCall, _what: str) -> _Explained | None:
    mask = next(
        (call.arguments[each] for each in ("attn_mask", "attn_bias") if call.arguments.get(each) is not None), None
    )
    if isinstance(mask, torch.Tensor):
        rows = ~mask if mask.dtype is torch.bool else mask == -math.inf
        if rows.ndim and bool(rows.all(dim=-1).any()):
            return "softmax-of-masked-row", "the mask leaves a query nothing to attend to"
    return None


def _product(call: OperationCall, what: str) -> _Explained | None:
    first, second = (call.argument(name) for name in _FACTORS[call.plain])
    index = first_bad(call.outputs[call.member], what)
    if what != "nan" or index is None or not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return None
    row = first[tuple(index[: first.ndim - 1])]
    column = second if second.ndim == 1 else second.movedim(-1, -2)[(*index[: second.ndim - 2], index[-1])]
    is_zero_times_inf = ((row == 0) & column.isinf()) | (row.isinf() & (column == 0))
    if bool(is_zero_times_inf.any()):
        return "zero-times-inf", "a factor of the product is 0 where the other is Inf"
    if is_finite(row) and is_finite(column):
        return "inf-minus-inf", "partial sums overflow with both signs"
    return "inf-minus-inf", "terms of the sum are Inf with both signs"


def _reduced(call: OperationCall) -> int:
    """Return the number of elements per result."""
    given, dim = call.arguments["self"], call.arguments.get("dim")
    dims = [dim] if isinstance(dim, int) else list(dim or range(given.ndim))
    return math.prod(given.shape[each] for each in dims) if given.ndim else 1


def _spread(call: OperationCall, _what: str) -> _Explained | None:
    correction = call.arguments.get("correction")
    if correction is None:
        correction = 1 if call.arguments.get("unbiased", True) else 0
    elements = _reduced(call)
    if elements <= correction:
        return (
            "std-of-one-element",
            f"{call.plain} of {elements} with correction {correction:g} divides by {elements - correction:g}",
        )
    return None


def _weight_norm(call: OperationCall, _what: str) -> _Explained | None:
    if not is_finite(call.arguments["v"]):
        return None
    return "division-by-zero", "a row of weights is all zero, and weight_norm divides by its norm"


def _alignment(_call: OperationCall, what: str) -> _Explained | None:
    return ("impossible-alignment", "a target is longer than its input allows") if what == "inf" else None


def _factors(_call: OperationCall, what: str) -> _Explained | None:
    return ("zero-times-inf", "the factors hold both 0 and Inf") if what == "nan" else None


def _mean(call: OperationCall, _what: str) -> _Explained | None:
    return ("empty-reduction", f"{call.plain} of no elements is 0 / 0") if _reduced(call) == 0 else None


def _targets(call: OperationCall, _what: str) -> _Explained | None:
    ignored = call.arguments.get("ignore_index", -100)
    target = call.arguments["target"]
    if target.numel() == 0:
        return "empty-reduction", "the mean over no targets is 0 / 0"
    if bool((target == ignored).all()):
        return (
            "empty-reduction",
            f"all {target.numel()} targets are ignored ({ignored}), and the mean over none is 0 / 0",
        )
    weight = call.arguments.get("weight")
    if weight is not None and float(call.outputs[-1].sum()) == 0:
        return "empty-reduction", "the weights of all targets are 0, and the mean divides by their sum"
    return None


def _normalisation(call: OperationCall, _what: str) -> _Explained | None:
    variance = call.arguments.get("running_var")
    epsilon = call.arguments.get("eps") or call.arguments.get("epsilon") or 0.0
    if isinstance(variance, torch.Tensor) and not call.arguments.get("training") and is_finite(variance):
        lowest = float(variance.min()) + epsilon
        if lowest < 0:
            return "sqrt-of-negative", f"the running variance goes down to {float(variance.min()):.6g}"
        if lowest == 0:
            return "division-by-zero", "the running variance is 0 and eps is 0"
    given = call.arguments.get("input", call.arguments.get("self"))
    if isinstance(given, torch.Tensor) and not is_finite(given):
        return "inf-minus-inf", "the input holds Inf, and its mean is subtracted"
    return ("division-by-zero", "the variance is 0 and eps is 0") if epsilon == 0 else None


_BY_NAME: dict[str, Callable[[OperationCall, str], _Explained | None]] = {
    **dict.fromkeys(("softmax", "log_softmax", "safe_softmax"), _softmax),
    **dict.fromkeys(_FACTORS, _product),
    **dict.fromkeys(("std", "var", "std_mean", "var_mean"), _spread),
    **dict.fromkeys(("mean", "median", "nanmedian"), _mean),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), _targets),
    **dict.fromkeys(("ctc_loss", "cudnn_ctc_loss"), _alignment),
    **dict.fromkeys(("prod", "cumprod"), _factors),
    "weight_norm_interface": _weight_norm,
}
_BY_PARTS: tuple[tuple[tuple[str, ...], Callable[[OperationCall, str], _Explained | None]], ...] = (
    (("scaled_dot_product",), _attention),
    (("batch", "norm"), _normalisation),
    (("layer", "norm"), _normalisation),
    (("group", "norm"), _normalisation),
    (("rms", "norm"), _normalisation),
)
