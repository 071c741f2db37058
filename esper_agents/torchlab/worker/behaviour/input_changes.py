"""Calls with changed inputs: other batches, values, positions, masks, sizes, types and devices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..explain.call_variants import leading, resized
from ..profile.call_runner import tensors_in
from ..target.target import mapped
from .calls import MOST_NAMES, TRAINING, cloned, is_close, is_same
from .result import MaskEffect, PositionEffect, TriedCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..target.input_spec import Inputs
    from .calls import TargetCalls

_MOST_TRIED = 8
# Dimensions 1 and 2 may be positions, as in (batch, length, width) and (batch, channels, length).
_POSITIONAL = 3


def changed_inputs(calls: TargetCalls, mode: str) -> Iterator[str]:
    """Yield the names of the inputs that a call changes in place."""
    inputs = calls.inputs()
    before = [(name, each, each.detach().clone()) for name, each in calls.named(inputs)]
    calls.run(inputs, mode)
    for name, each, old in before:
        if not is_close(each.detach(), old):
            yield name


def batches(calls: TargetCalls, mode: str, like: Any) -> Iterator[TriedCall]:
    """Yield the effects of a batch of one and of an empty one."""
    size = leading(calls.inputs())
    if size is None or size == 1:
        return
    is_whole = all(each.dim() and each.shape[0] == size for each in tensors_in(like))
    row = _rows(like, size, slice(0, 1)) if is_whole else None
    yield calls.tried("batch of one", resized(calls.inputs(), 1), mode, row)
    if mode != TRAINING:
        yield calls.tried("empty batch", _none_of(calls.inputs(), size), mode)


def _none_of(inputs: Inputs, size: int) -> Inputs:
    return mapped(inputs, lambda each: each[:0] if each.dim() and each.shape[0] == size else each)


def _rows(given: Any, size: int, rows: slice) -> Any:
    """Return rows of those tensors of a result that have the batch dimension; None without any."""
    with_rows = [each for each in tensors_in(given) if each.dim() and each.shape[0] == size]
    return [each[rows] for each in with_rows] or None


def depends_on_rows(calls: TargetCalls, mode: str, like: Any) -> bool | None:
    """Return whether the first row of the output changes with the other rows of the input; None if unknown."""
    size = leading(calls.inputs())
    first = _rows(like, size or 0, slice(0, 1))
    if size is None or size == 1 or first is None:
        return None
    chance = torch.Generator().manual_seed(1)

    def others(each: torch.Tensor) -> torch.Tensor:
        if not each.is_floating_point() or not each.dim() or each.shape[0] != size:
            return each
        fresh = each.detach().clone()
        fresh[1:] = fresh[1:] * 2 + torch.randn(fresh[1:].shape, generator=chance).to(fresh)
        return fresh

    changed = mapped(calls.inputs(), others)
    if is_same(tensors_in((changed.args, changed.kwargs)), tensors_in(_values(calls.inputs()))):
        return None
    try:
        given = _rows(calls.run(changed, mode), size, slice(0, 1))
    except Exception:  # noqa: BLE001 - the user's code may refuse other values
        return None
    return None if given is None else not is_same(given, first)


def _values(inputs: Inputs) -> Any:
    return (inputs.args, inputs.kwargs)


def _altered(tensor: torch.Tensor, at: Any) -> torch.Tensor:
    """Return a tensor with other values at an index: of integers, those of another element, so that they stay valid."""
    fresh = tensor.detach().clone()
    if fresh.is_floating_point():
        fresh[at] = fresh[at] * 2 + 1
    elif fresh.dtype is torch.bool:
        fresh[at] = ~fresh[at]
    else:
        fresh[at] = torch.where(fresh[at] == fresh.max(), fresh.min(), fresh.max())
    return fresh


def positions(calls: TargetCalls, mode: str, like: Any) -> Iterator[PositionEffect]:
    """Yield the effects of the last and the first position of dimensions 1 and 2, where outputs have them as well."""
    for number, (name, tensor) in enumerate(calls.named(calls.inputs())):
        for axis in range(1, min(tensor.dim(), _POSITIONAL)):
            if tensor.shape[axis] < 2 or tensor.dtype is torch.bool:  # noqa: PLR2004 - two positions
                continue
            before = (slice(None),) * axis
            sizes = int(tensor.shape[0]), int(tensor.shape[axis])
            last, first = (
                _moved_positions(
                    calls, mode, like, _with(calls, number, _altered(tensor, (*before, at))), axis=axis, sizes=sizes
                )
                for at in (-1, 0)
            )
            for at in sorted(last.keys() & first.keys()):
                # An output that does not depend on a position at all says nothing about its direction.
                if last[at][-1] and first[at][0]:
                    yield PositionEffect(
                        input=name,
                        output="output" if len(last) == 1 else f"output[{at}]",
                        axis=axis,
                        is_seen_earlier=any(last[at][:-1]),
                        is_seen_later=any(first[at][1:]),
                    )


def _moved_positions(
    calls: TargetCalls, mode: str, like: Any, changed: Inputs, *, axis: int, sizes: tuple[int, int]
) -> dict[int, list[bool]]:
    """Return for each output that has the positions of an input whether it changes at each of them."""
    try:
        given = tensors_in(calls.run(changed, mode))
    except Exception:  # noqa: BLE001 - the user's code may refuse other values
        return {}
    return {
        at: [not is_close(one.select(axis, each), other.select(axis, each)) for each in range(one.shape[axis])]
        for at, (one, other) in enumerate(zip(given, tensors_in(like), strict=False))
        if one.dim() > axis and one.shape == other.shape and (one.shape[0], one.shape[axis]) == sizes
    }


def _with(calls: TargetCalls, number: int, tensor: torch.Tensor) -> Inputs:
    """Return the inputs with one tensor replaced, by its number."""
    inputs = calls.inputs()
    old = calls.named(inputs)[number][1]
    return mapped(inputs, lambda each: tensor if each is old else each)


def masks(calls: TargetCalls, mode: str) -> Iterator[MaskEffect]:
    """Yield which value of a boolean input hides positions of another input from the outputs at other positions."""
    named = calls.named(calls.inputs())
    marking = [
        (number, name, each)
        for number, (name, each) in enumerate(named)
        if each.dtype is torch.bool and each.dim() == 2  # noqa: PLR2004 - batch and positions
    ]
    for number, name, mask in marking[:1]:
        for at, (other, tensor) in enumerate(named):
            if tensor.dtype is torch.bool or tensor.dim() < 2 or tensor.shape[:2] != mask.shape:  # noqa: PLR2004
                continue
            marked = torch.ones_like(mask)
            marked[:, mask.shape[1] // 2 :] = False
            effects = {value: _has_effect(calls, mode, (number, at), marked, value=value) for value in (True, False)}
            if None in effects.values():
                continue
            hides = {(True, True): "neither", (False, False): "both", (False, True): "True", (True, False): "False"}
            yield MaskEffect(mask=name, input=other, hides=hides[bool(effects[True]), bool(effects[False])])  # type: ignore[arg-type]


def _has_effect(
    calls: TargetCalls, mode: str, numbers: tuple[int, int], marked: torch.Tensor, *, value: bool
) -> bool | None:
    """Return whether values of an input where a mask has a value change outputs where it has the other one."""
    where = marked == value

    def result(*, is_changed: bool) -> list[torch.Tensor]:
        inputs = calls.inputs()
        named = calls.named(inputs)
        mask, tensor = named[numbers[0]][1], named[numbers[1]][1]
        fresh = _altered(tensor, where) if is_changed else tensor
        changed = mapped(inputs, lambda each: marked if each is mask else fresh if each is tensor else each)
        return tensors_in(calls.run(changed, mode))

    try:
        before, after = result(is_changed=False), result(is_changed=True)
    except Exception:  # noqa: BLE001 - the user's code may refuse other values
        return None
    pairs = [
        (one[~where], other[~where]) if one.dim() > 1 and one.shape[:2] == where.shape else (one, other)
        for one, other in zip(before, after, strict=False)
    ]
    return any(not is_close(one, other) for one, other in pairs)


def sizes(calls: TargetCalls, mode: str) -> Iterator[TriedCall]:
    """Yield the effects of one more element along each further dimension of the inputs."""
    size = leading(calls.inputs())
    tried = 0
    for name, tensor in calls.named(calls.inputs()):
        for dim in range(1 if tensor.dim() and tensor.shape[0] == size else 0, tensor.dim()):
            old = int(tensor.shape[dim])
            if tried >= _MOST_TRIED or not old:
                return
            tried += 1
            inputs = mapped(calls.inputs(), partial(_longer, dim=dim, old=old))
            yield calls.tried(f"{name}: dimension {dim} of size {old + 1}", inputs, mode)


def _longer(tensor: torch.Tensor, dim: int, old: int) -> torch.Tensor:
    """Return a tensor with its first element along a dimension repeated, if the dimension has that size."""
    if tensor.dim() <= dim or tensor.shape[dim] != old:
        return tensor
    return torch.cat([tensor, tensor.narrow(dim, 0, 1)], dim)


def precisions(calls: TargetCalls, mode: str) -> Iterator[TriedCall]:
    """Yield the effects of autocast and of half-precision weights and inputs."""
    with torch.autocast("cpu", torch.bfloat16):
        tried = calls.tried("autocast to bfloat16", calls.inputs(), mode)
    yield tried
    for dtype in (torch.bfloat16, torch.float64):
        module = calls.module(mode)
        inputs = mapped(calls.inputs(), partial(_cast, dtype=dtype))
        what = f"{'weights and inputs' if module is not None else 'inputs'} in {str(dtype).removeprefix('torch.')}"
        yield calls.tried(what, inputs, mode, module=module.to(dtype) if module is not None else None)


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def half_inputs(calls: TargetCalls, mode: str) -> Iterator[TriedCall]:
    """Yield the effect of float16 inputs on a module in float32, and the parameters whose type the call changes."""
    module = calls.module(mode)
    if module is None or not calls.can_copy:
        return
    before = {name: each.dtype for name, each in module.state_dict().items()}
    inputs = mapped(calls.inputs(), partial(_cast, dtype=torch.float16))
    tried = calls.tried("inputs in float16, weights as they are", inputs, mode, module=module)
    changed = [name for name, each in module.state_dict().items() if before.get(name, each.dtype) != each.dtype]
    detail = f"{tried.detail}, and changes the type of {', '.join(changed[:MOST_NAMES])} to float16"
    yield TriedCall(
        what=tried.what, mode=mode, effect=tried.effect, detail=detail if changed else tried.detail, place=tried.place
    )


def other_device(calls: TargetCalls, mode: str) -> Iterator[TriedCall]:
    """Yield the effect of moving weights and inputs to another device, by torch's meta device."""
    if not calls.can_copy:
        return
    module = calls.module(mode)
    inputs = mapped(cloned(calls.inputs()), lambda each: each.to("meta"))
    tried = calls.tried("another device", inputs, mode, module=module.to("meta") if module is not None else None)
    # Code that reads values cannot run on the meta device; only a mixture of devices says something.
    is_mixture = tried.effect == "raises" and any(
        word in tried.detail for word in ("same device", "cpu and meta", "meta and cpu", "device meta", "device cpu")
    )
    if tried.effect != "raises" or is_mixture:
        yield tried


# Effects that a changed call alone shows, in the order in which they are tried.
PROBES = (sizes, half_inputs, precisions, other_device)
