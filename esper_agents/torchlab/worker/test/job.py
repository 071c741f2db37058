"""Job: observe a target in a few calls from one seed, or run the functions of a drafted test."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..process.devices import bound
from ..target.target import put_on_path, seed_all
from .result import DraftedTestRun, DraftedTestRuns, ObservedBehaviour, ObservedValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOST_VALUES, _DEEPEST, _MOST_NAMES, _MOST_TEXT = 6, 2, 20, 300


def run(
    _target: object, request: dict[str, Any], tell: Callable[[str, float], None]
) -> ObservedBehaviour | DraftedTestRuns:
    """Observe a target, or run a test of it.

    Args:
        _target: Not used: the source text makes the target.
        request: `root`; `file` of the test and its `text`; `phase`: `observe` or `run`; `memory_bytes`; `seed`.
        tell: Progress callback.

    Returns:
        The behaviour of what the text's `make` returns, or the runs of the text's test functions.

    Raises:
        Exception: Any exception of the target in its first call.
    """
    root = str(request["root"])
    bound("cpu", int(request["memory_bytes"]))
    put_on_path(root)
    seed_all(int(request["seed"]))
    names: dict[str, Any] = {"__name__": "drafted_test", "__file__": f"{root}/{request['file']}"}
    # The text consists of plain constructions, which the lab has checked, and runs in this process only.
    exec(compile(str(request["text"]), str(request["file"]), "exec"), names)  # noqa: S102 - as above
    if request["phase"] == "observe":
        tell("observing calls", 0.3)
        return _observed(names["make"])
    found = []
    for name, test in [(name, each) for name, each in names.items() if name.startswith("test_")]:
        tell(f"running {name}", 0.6)
        found.append(DraftedTestRun(name, _error_of(test)))
    return DraftedTestRuns(tuple(found))


def _error_of(test: Callable[[], object]) -> str:
    """Return the exception of a test; empty if it raises none."""
    try:
        test()
    except Exception as error:  # noqa: BLE001 - the exception is the result
        return f"{type(error).__name__}: {error}"[:_MOST_TEXT]
    return ""


def _observed(make: Callable[[], Any]) -> ObservedBehaviour:
    call, args, kwargs = make()
    before = copy.deepcopy(args)
    first = call(*args, **kwargs)
    changed = [
        number
        for number, (one, other) in enumerate(zip(before, args, strict=True))
        if isinstance(one, torch.Tensor) and not _is_same(one, other)
    ]
    again, more, named = make()
    second = again(*more, **named)
    values = list(_values(first))
    owner = call if isinstance(call, nn.Module) else getattr(call, "__self__", None)
    module = owner if isinstance(owner, nn.Module) else None
    return ObservedBehaviour(
        values=tuple(each for _, each in values[:_MOST_VALUES]),
        left_out=max(0, len(values) - _MOST_VALUES),
        is_repeatable=_are_equal(first, second),
        is_module=isinstance(call, nn.Module),
        is_method_of_module=module is not None and module is not call,
        parameters=sum(parameter.requires_grad for parameter in module.parameters()) if module is not None else 0,
        **_gradients(make),
        **_modes(make),
        **(_updates(make) if module is None else {}),
        changed=tuple(changed),
        tensors=sum(isinstance(arg, torch.Tensor) for arg in args),
    )


def _values(thing: Any, steps: tuple[int | str, ...] = ()) -> Iterator[tuple[Any, ObservedValue]]:
    """Yield the parts of a result, with their descriptions."""
    name = type(thing).__name__
    if isinstance(thing, torch.Tensor):
        is_float = thing.is_floating_point()
        finite = bool(thing.isfinite().all()) if is_float or thing.is_complex() else True
        dtype = str(thing.dtype).removeprefix("torch.")
        shape = tuple(thing.shape)
        yield (
            thing,
            ObservedValue(
                steps=steps,
                kind="tensor",
                type=name,
                shape=shape,
                dtype=dtype,
                is_finite=finite,
            ),
        )
    elif isinstance(thing, (list, tuple)) and len(steps) < _DEEPEST:
        for number, each in enumerate(thing):
            yield from _values(each, (*steps, number))
    elif isinstance(thing, dict) and len(steps) < _DEEPEST and all(isinstance(each, (str, int)) for each in thing):
        for key, each in thing.items():
            yield from _values(each, (*steps, key))
    elif isinstance(thing, (int, float)):
        yield thing, ObservedValue(steps=steps, kind="number", type=name, is_finite=math.isfinite(thing))
    else:
        yield thing, ObservedValue(steps=steps, kind="none" if thing is None else "other", type=name)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
    return isinstance(one, (int, float, type(None))) and type(one) is type(other) and one == other


def _are_equal(one: Any, other: Any) -> bool:
    """Return whether two results have the same parts; of an object that is no number or tensor nothing is known."""
    first, second = ([(each, seen) for each, seen in _values(thing)] for thing in (one, other))
    known = [(a, b) for (a, seen), (b, _) in zip(first, second, strict=False) if seen.kind != "other"]
    return len(first) == len(second) and bool(known) and all(_is_same(a, b) for a, b in known)


def _gradients(make: Callable[[], Any]) -> dict[str, Any]:
    """Return which parameters of a module, or which arguments of a function, get a gradient from the result."""
    call, args, kwargs = make()
    owner = call if isinstance(call, nn.Module) else getattr(call, "__self__", None)
    module = owner if isinstance(owner, nn.Module) else None
    if module is not None and not any(parameter.requires_grad for parameter in module.parameters()):
        # A loss without parameters is a function of its arguments.
        module = None
    floats = [] if module is not None else [n for n, each in enumerate(args) if _may_have_gradient(each)]
    try:
        for number in floats:
            args[number].requires_grad_()
        parts = [each for each, _ in _values(call(*args, **kwargs))]
        graded = [number for number, each in enumerate(parts) if isinstance(each, torch.Tensor) and each.requires_grad]
        if not graded:
            return {"inputs_unreached": tuple(floats)}
        sum(parts[number].sum() for number in graded if parts[number].is_floating_point()).backward()
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        return {"backward": f"{type(error).__name__}: {error}"[:_MOST_TEXT]}
    if module is not None:
        unreached = [name for name, each in module.named_parameters() if each.requires_grad and each.grad is None]
        return {"graded": tuple(graded), "unreached": tuple(unreached[:_MOST_NAMES])}
    reached = [n for n in floats if args[n].grad is not None and bool(args[n].grad.isfinite().all())]
    unreached_inputs = tuple(n for n in floats if n not in reached)
    return {"graded": tuple(graded), "inputs_reached": tuple(reached), "inputs_unreached": unreached_inputs}


def _may_have_gradient(thing: Any) -> bool:
    return isinstance(thing, torch.Tensor) and thing.is_floating_point() and thing.is_leaf


def _modes(make: Callable[[], Any]) -> dict[str, Any]:
    """Return whether a module contains dropout, and whether it acts in training alone."""
    call, args, kwargs = make()
    if not isinstance(call, nn.Module):
        return {}
    if not any("Dropout" in type(module).__name__ and getattr(module, "p", 0) > 0 for module in call.modules()):
        return {}
    try:
        with torch.no_grad():
            call.eval()
            is_quiet = _are_equal(call(*args, **kwargs), call(*args, **kwargs))
            call.train()
            is_random = not _are_equal(call(*args, **kwargs), call(*args, **kwargs))
    except Exception:  # noqa: BLE001 - the user's code may raise anything
        return {"has_dropout": True}
    return {"has_dropout": True, "is_moded": is_quiet and is_random}


def _updates(make: Callable[[], Any]) -> dict[str, Any]:
    """Return which modules that a method's object holds get other parameters by a call."""
    call, args, kwargs = make()
    owner = getattr(call, "__self__", None)
    held = {name: each for name, each in getattr(owner, "__dict__", {}).items() if isinstance(each, nn.Module)}
    before = {name: [parameter.detach().clone() for parameter in module.parameters()] for name, module in held.items()}
    try:
        call(*args, **kwargs)
    except Exception:  # noqa: BLE001 - the user's code may raise anything
        return {}
    for name, module in held.items():
        after = [parameter.detach() for parameter in module.parameters()]
        if any(not torch.equal(one, other) for one, other in zip(before[name], after, strict=False)):
            return {"updated": str(name)}
    return {"kept": tuple(map(str, held))}
