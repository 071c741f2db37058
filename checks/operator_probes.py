"""What sample calls of the operators of torch show: shapes, dtypes, aliases, graphs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from operator_samples import SAMPLERS, SampleCall, meta, samples
from torch.utils._python_dispatch import TorchDispatchMode

from esper_agents.review.model.operators import Overload
from esper_agents.review.model.shape_rules import RULES, Result, Shape, ShapeMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.bool)
# Tries for each rule; of the forms of a product most operators take one or two.
_TRIES = {"matmul": 60}


def shape_of(result: Any) -> Result:
    """Return the shape of a tensor, or the shapes of several."""
    if isinstance(result, torch.Tensor):
        return Shape(result.shape)
    if isinstance(result, tuple | list) and result and all(isinstance(each, torch.Tensor) for each in result):
        return tuple(Shape(each.shape) for each in result)
    return None


def agrees(expected: Result, found: Result) -> bool:
    """Return whether a rule's shape is that of a result; one shape stands for several results that all have it."""
    if isinstance(expected, Shape) and isinstance(found, tuple) and not isinstance(found, Shape):
        return bool(found) and all(each == expected for each in found)
    return expected is not None and expected == found


def working_maker(call: SampleCall, function: Callable[..., Any]) -> Callable[[str, Shape], torch.Tensor] | None:
    """Return a maker of tensors with which a call runs, on the meta device if there it can; None if none does."""
    for device in ("meta", "cpu"):
        for dtype in (torch.float32, torch.int64, torch.bool):
            try:
                call.run(function, meta(dtype, device))
            except Exception:  # noqa: BLE001, S112 - any refusal means that this call is no sample
                continue
            return meta(dtype, device)
    return None


def shape_rule(
    overload: Overload, function: Callable[..., Any], seed: str
) -> tuple[str, list[tuple[SampleCall, Callable[[str, Shape], torch.Tensor]]]]:
    """Return the rule that predicts the shapes of an overload's results, with calls that ran; empty if none does."""
    ran: list[tuple[SampleCall, Callable[[str, Shape], torch.Tensor]]] = []
    for rule in SAMPLERS:
        matching, failures = 0, 0
        tries = _TRIES.get(rule, 14)
        for call in samples(rule, overload, random.Random(f"{seed} {rule}"), tries):
            make = working_maker(call, function)
            if make is None:
                failures += 1
                if failures > tries // 2 - 2 and not matching:
                    break
                continue
            ran.append((call, make))
            if not predicts(rule, call, call.run(function, make)):
                matching = 0
                break
            matching += 1
        if matching >= 3:
            return rule, ran[-matching:]
    return "", ran


def predicts(rule: str, call: SampleCall, result: Any) -> bool:
    """Return whether a rule gives the shape of a call's result."""
    positional, named = call.split()
    bound = Overload(call.overload.parameters, rule).bind(positional, named)
    try:
        return bound is not None and agrees(RULES[rule](bound), shape_of(result))
    except ShapeMismatchError:
        return False


@dataclass(slots=True)
class Observations:
    """What calls of one callable showed.

    Attributes:
        results: Kinds of results.
        aliases: Whether the result shares memory with a tensor argument, for each call.
        graphs: Whether the first result needs gradients if the first argument does.
        written: Names of the parameters that were written.
        dtypes: Dtype of the first result by dtype of the arguments.
        orders: What became of a transposed argument.
        fetches: Whether an element was read on the host, for each call.
    """

    results: set[str] = field(default_factory=set)
    aliases: list[bool] = field(default_factory=list)
    graphs: list[bool] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    dtypes: dict[torch.dtype, set[torch.dtype]] = field(default_factory=dict)
    orders: set[str] = field(default_factory=set)
    fetches: list[bool] = field(default_factory=list)


def observe(
    calls: list[tuple[SampleCall, Callable[[str, Shape], torch.Tensor]]], function: Callable[..., Any]
) -> Observations:
    """Return what sample calls of one callable show."""
    seen = Observations()
    for call, make in calls:
        for change in (_alias_and_writes, _graph, _dtypes, _order):
            try:
                change(call, make, function, seen)
            except Exception:  # noqa: BLE001, S112 - what a call refuses it does not show
                continue
        seen.fetches.append(_fetches(call, make, function))
    return seen


def first_tensor(result: Any) -> torch.Tensor | None:
    """Return a result, or the first of several, if it is a tensor."""
    if isinstance(result, tuple | list) and result:
        result = result[0]
    return result if isinstance(result, torch.Tensor) else None


def _alias_and_writes(call: SampleCall, make: Callable[..., torch.Tensor], function: Any, seen: Observations) -> None:
    for maker in (make, partial(transposed, make)):
        made: dict[str, list[torch.Tensor]] = {}
        try:
            result = call.run(function, partial(_remember, maker, made))
        except RuntimeError:
            # A view of a transposed tensor may be refused.
            continue
        seen.results.add(_kind(result))
        first = first_tensor(result)
        given = [each for tensors in made.values() for each in tensors]
        if first is not None and given:
            storage = first.untyped_storage()._cdata
            seen.aliases.append(any(each.untyped_storage()._cdata == storage for each in given))
        seen.written |= {name for name, tensors in made.items() if any(each._version for each in tensors)}


def _remember(
    make: Callable[[str, Shape], torch.Tensor], made: dict[str, list[torch.Tensor]], name: str, shape: Shape
) -> torch.Tensor:
    tensor = make(name, shape)
    made.setdefault(name, []).append(tensor)
    return tensor


def transposed(make: Callable[..., torch.Tensor], name: str, shape: Shape) -> torch.Tensor:
    """Return a tensor of a shape whose dimensions lie in memory in opposite order."""
    return make(name, Shape(reversed(shape))).permute(*reversed(range(len(shape))))


def _kind(result: Any) -> str:
    match result:
        case torch.Tensor():
            return "tensor"
        case tuple() | list():
            return "tensors" if shape_of(result) is not None else ""
        case bool() | int() | float() | torch.dtype():
            return "number" if not isinstance(result, torch.dtype) else ""
        case None:
            return "none"
        case str():
            return "text"
        case _:
            return ""


def _graph(call: SampleCall, make: Callable[..., torch.Tensor], function: Any, seen: Observations) -> None:
    def asking(name: str, shape: Shape) -> torch.Tensor:
        tensor = make(name, shape)
        return tensor.requires_grad_() * 1 if tensor.is_floating_point() else tensor

    first = first_tensor(call.run(function, asking))
    if first is not None and make("input", Shape((1,))).is_floating_point():
        seen.graphs.append(first.requires_grad)


def _dtypes(call: SampleCall, make: Callable[..., torch.Tensor], function: Any, seen: Observations) -> None:
    device = make("input", Shape((1,))).device.type
    for dtype in _DTYPES:
        try:
            first = first_tensor(call.run(function, meta(dtype, device)))
        except Exception:  # noqa: BLE001, S112 - a dtype that is refused has no result
            continue
        if first is not None:
            seen.dtypes.setdefault(dtype, set()).add(first.dtype)
            if first.dtype != dtype:
                # `float()` returns a tensor that is a float already as it is, others as copies.
                seen.aliases.append(False)


def _order(call: SampleCall, make: Callable[..., torch.Tensor], function: Any, seen: Observations) -> None:
    shapes = [value for value in call.arguments.values() if isinstance(value, Shape)]
    if not shapes or 1 in shapes[0] or len(shapes[0]) < 2:
        return
    first = first_tensor(call.run(function, lambda name, shape: transposed(make, name, shape)))
    if first is not None and tuple(first.shape) == tuple(shapes[0]) and first.numel() > 1:
        kept = transposed(make, "input", shapes[0]).stride()
        seen.orders.add("kept" if first.stride() == kept else "contiguous" if first.is_contiguous() else "other")


class _ReadElements(TorchDispatchMode):
    """Notes whether an operator ran that needs the value of an element on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.has_read = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tags = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
        self.has_read = self.has_read or bool(tags & set(func.tags))
        return func(*args, **(kwargs or {}))


def _fetches(call: SampleCall, make: Callable[..., torch.Tensor], function: Any) -> bool:
    dtype = make("input", Shape((1,))).dtype
    reader = _ReadElements()
    try:
        with reader:
            call.run(function, meta(dtype, "cpu"))
    except Exception:  # noqa: BLE001 - what ran until then counts
        return reader.has_read
    return reader.has_read
