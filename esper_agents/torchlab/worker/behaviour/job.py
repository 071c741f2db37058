"""Job: call a target in both modes and with changed inputs, and record what the calls do."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..profile.call_runner import tensors_in
from ..results import MissingPart
from . import input_changes, state_changes
from .calls import MOST_NAMES, TRAINING, TargetCalls, dtype_name, is_finite
from .result import BehaviourRun, PartSummary, TensorSummary, TriedCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..target.target import LoadedTarget

_MOST_PARTS = 60
_TRAINING_CALLS = 4


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> BehaviourRun:
    """Call a target and record outputs, state, gradients, and the effects of changed inputs.

    Args:
        target: A function or an nn.Module; each call of a module runs on a copy.
        request: `seed` (int): seed of the inputs.
        tell: Progress callback.

    Raises:
        Exception: Any exception of the target on its first inputs.
    """
    calls = TargetCalls(target, int(request.get("seed", 0)))
    missing = [] if calls.can_copy else [MissingPart("fresh state for each call", "the module cannot be copied")]
    mode = calls.modes[0]
    inputs = calls.inputs()
    parts = _Parts(module := calls.module(mode))
    with parts:
        first = calls.run(inputs, mode, module=module)
    tell("called once", 0.2)
    changes = tuple(state_changes.changes(calls, each) for each in calls.modes)
    found = BehaviourRun(
        inputs=tuple(_summary(name, each) for name, each in calls.named(calls.inputs())),
        outputs=tuple(_outputs(calls, first)),
        training_outputs=_training_outputs(calls),
        parts=parts.listed(),
        state=_buffers(module),
        changes=changes,
        gradients=state_changes.gradients(calls),
        changed_inputs=tuple(input_changes.changed_inputs(calls, mode)),
        random=calls.randomness(),
        rows={},
        is_lost=state_changes.is_lost(calls, changes),
    )
    tell("watched state and gradients", 0.5)
    rows: dict[str, bool] = {}
    tried: list[TriedCall] = []
    for each in calls.modes:
        like = calls.run(calls.inputs(), each)
        tried += input_changes.batches(calls, each, like)
        if not found.random[each] and (depends := input_changes.depends_on_rows(calls, each, like)) is not None:
            rows[each] = depends
    tell("tried other batches", 0.6)
    like = calls.run(calls.inputs(), mode)
    is_steady = not found.random[mode]
    for probe in input_changes.PROBES:
        if calls.is_late:
            missing.append(MissingPart(probe.__name__.replace("_", " "), "the calls took too long"))
        else:
            tried += probe(calls, mode)
    return replace(
        found,
        rows=rows,
        positions=tuple(input_changes.positions(calls, mode, like)) if is_steady else (),
        masks=tuple(input_changes.masks(calls, mode)) if is_steady else (),
        tried=tuple(tried),
        missing=tuple(missing),
    )


class _Parts:
    """Records the parts of a module that run, with the shapes of their first outputs."""

    def __init__(self, module: torch.nn.Module | None) -> None:
        named = list(module.named_modules())[1 : _MOST_PARTS + 1] if module is not None else []
        self._modules = {name: each for name, each in named if not isinstance(each, torch.jit.ScriptModule)}
        self._calls: Counter[str] = Counter()
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._hooks: list[Any] = []

    def __enter__(self) -> None:
        for name, each in self._modules.items():
            self._hooks.append(each.register_forward_hook(self._hook(name)))

    def __exit__(self, *_: object) -> None:
        for each in self._hooks:
            each.remove()

    def _hook(self, name: str) -> Callable[..., None]:
        def seen(_module: object, _inputs: object, output: Any) -> None:
            self._calls[name] += 1
            if tensors := tensors_in(output):
                self._shapes.setdefault(name, tuple(tensors[0].shape))

        return seen

    def listed(self) -> tuple[PartSummary, ...]:
        """Return the parts in the order of their definition, those that no call ran with 0 calls."""
        return tuple(
            PartSummary(name=name, kind=type(each).__name__, calls=self._calls[name], shape=self._shapes.get(name, ()))
            for name, each in self._modules.items()
            if not isinstance(each, torch.nn.ModuleList | torch.nn.ModuleDict)
        )


def _summary(name: str, tensor: torch.Tensor) -> TensorSummary:
    is_number = tensor.numel() > 0 and not tensor.is_complex() and tensor.dtype is not torch.bool
    finite = tensor.detach().double().nan_to_num(0, 0, 0) if is_number else None
    return TensorSummary(
        name=name,
        shape=tuple(tensor.shape),
        dtype=dtype_name(tensor),
        has_gradient=tensor.requires_grad,
        low=float(finite.min()) if finite is not None else None,
        high=float(finite.max()) if finite is not None else None,
        is_finite=is_finite(tensor),
        sums_to_one=_summing_to_one(tensor),
    )


def _summing_to_one(tensor: torch.Tensor) -> int:
    """Return the dimension, from the end, along which non-negative values sum to 1; 0 for none."""
    if not tensor.is_floating_point() or tensor.numel() < 2 or not is_finite(tensor) or bool((tensor < 0).any()):  # noqa: PLR2004
        return 0
    for dim in range(-1, -tensor.dim() - 1, -1):
        sums = tensor.detach().double().sum(dim)
        if tensor.shape[dim] > 1 and bool((sums - 1).abs().max() < 1e-3):  # noqa: PLR2004 - rounding
            return dim
    return 0


def _outputs(calls: TargetCalls, given: Any) -> Iterator[TensorSummary]:
    """Yield the outputs, with `has_gradient` as it is when gradients are recorded."""
    tensors = tensors_in(given)
    try:
        recorded = tensors_in(calls.run(state_changes.floating(calls.inputs()), calls.modes[0], grad=True))
    except Exception:  # noqa: BLE001 - code that takes no gradients
        recorded = []
    for number, each in enumerate(tensors[:MOST_NAMES]):
        name = "output" if len(tensors) == 1 else f"output[{number}]"
        has_gradient = len(recorded) == len(tensors) and recorded[number].requires_grad
        yield replace(_summary(name, each), has_gradient=has_gradient)


def _training_outputs(calls: TargetCalls) -> tuple[TensorSummary, ...]:
    """Return the outputs in training mode, with the extremes of several calls with other random numbers."""
    if TRAINING not in calls.modes:
        return ()
    found: list[TensorSummary] = []
    for number in range(_TRAINING_CALLS):
        tensors = tensors_in(calls.run(calls.inputs(), TRAINING, seed=number))[:MOST_NAMES]
        summaries = [
            _summary("output" if len(tensors) == 1 else f"output[{at}]", each) for at, each in enumerate(tensors)
        ]
        found = [_joined(*pair) for pair in zip(found, summaries, strict=False)] if found else summaries
    return tuple(found)


def _joined(one: TensorSummary, other: TensorSummary) -> TensorSummary:
    return replace(
        one,
        low=min((each.low for each in (one, other) if each.low is not None), default=None),
        high=max((each.high for each in (one, other) if each.high is not None), default=None),
        is_finite=one.is_finite and other.is_finite,
        sums_to_one=one.sums_to_one if one.sums_to_one == other.sums_to_one else 0,
    )


def _buffers(module: torch.nn.Module | None) -> dict[str, bool]:
    if module is None:
        return {}
    saved = set(module.state_dict())
    return {name: name in saved for name, _ in list(module.named_buffers())[:_MOST_PARTS]}
