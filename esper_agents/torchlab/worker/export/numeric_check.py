"""Run an exported program next to the eager code and compare their numbers."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_flatten

from ..explain.call_variants import eagerly
from ..target.input_spec import Inputs
from ..target.target import seed_all

_Make = Callable[[], Inputs]


def as_module(call: Callable[..., Any]) -> torch.nn.Module:
    """Return a callable as a module, because only modules can be exported; a function keeps its parameters' names."""
    if isinstance(call, torch.nn.Module):
        return call
    if inspect.isfunction(call):
        named: type[torch.nn.Module] = type("Function", (torch.nn.Module,), {"forward": staticmethod(call)})
        return named()
    return _Callable(call)


class _Callable(torch.nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)


def copied(module: Any) -> Any:
    """Return a copy with its own parameters and buffers, or the module itself if it cannot be copied."""
    try:
        return copy.deepcopy(module)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return module


@dataclass(frozen=True)
class NumericComparison:
    """Comparison of a program with eager mode.

    Attributes:
        outcome: `exports` if they agree, `differs`, or `raises` if the program does.
        compared: Number of sets of inputs on which they agree.
        inputs: Set of inputs on which they do not; None without one.
        difference: The difference there; None without one.
        error: Exception of the program.
        is_repeatable: Whether the eager code returns the same each time; without that, nothing is known.
    """

    outcome: Literal["exports", "differs", "raises"]
    compared: int
    inputs: str | None = None
    difference: str | None = None
    error: Exception | None = None
    is_repeatable: bool = True


def check(program: Any, module: torch.nn.Module, inputs: dict[str, _Make]) -> NumericComparison:
    """Call a program and the eager module twice on each set of inputs, and compare the outputs.

    Twice, because a value frozen during tracing, such as a counter or a random number, is right only once.

    Args:
        program: Exported program; a copy for each set of inputs.
        module: Eager module; a copy for each set of inputs.
        inputs: Factories of the sets of inputs, by description.
    """
    compared = 0
    for what, make in inputs.items():
        wanted = _twice(copied(module), make)
        try:
            given = _twice(copied(program), make)
        except Exception as error:  # noqa: BLE001 - a program with wrong assumptions raises any error
            return NumericComparison("raises", compared, what, error=error)
        difference = _difference(given[0], wanted[0])
        if not difference and (again := _difference(given[1], wanted[1])):
            difference = f"in a second call, {again}"
        if difference:
            is_frozen = not _difference(given[1], given[0])
            is_repeatable = not _difference(_twice(copied(module), make)[0], wanted[0])
            if not is_repeatable and is_frozen:
                difference = "eager returns something else in each call, the program the same: it froze a value"
            if is_repeatable or is_frozen:
                return NumericComparison("differs", compared, what, difference)
            return NumericComparison("exports", compared, is_repeatable=False)
        compared += 1
    return NumericComparison("exports", compared)


def _twice(module: Any, make: _Make) -> tuple[Any, Any]:
    return _run(module, make), _run(module, make)


def _run(module: Any, make: _Make) -> Any:
    inputs = make()
    # Both sides draw the same random numbers in dropout and noise.
    seed_all(0)
    with torch.no_grad(), eagerly():
        return module(*inputs.args, **inputs.kwargs)


def _difference(given: Any, wanted: Any) -> str:
    """Return the difference of two results, in one line; empty if they are equal up to rounding."""
    ours, our_shape = tree_flatten(given)
    theirs, their_shape = tree_flatten(wanted)
    if our_shape != their_shape or len(ours) != len(theirs):
        return f"it returns {our_shape} in place of {their_shape}"[:300]
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        said = _leaf_difference(one, other)
        if said:
            return f"output {number}: {said}"
    return ""


def _leaf_difference(given: Any, wanted: Any) -> str:
    if not isinstance(wanted, torch.Tensor):
        return "" if type(given) is type(wanted) and given == wanted else f"{given!r} in place of {wanted!r}"[:200]
    if not isinstance(given, torch.Tensor):
        return f"a {type(given).__name__} in place of a tensor"
    try:
        torch.testing.assert_close(given, wanted, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:300]
    return ""
