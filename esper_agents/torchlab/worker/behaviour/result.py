"""Result of the job `behaviour`: what calls of a target were seen to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..results import MissingPart
from ..target.source_place import SourcePlace

CallEffect: TypeAlias = Literal["same", "differs", "returns", "not finite", "raises"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSummary:
    """Tensor of the inputs or outputs.

    Attributes:
        name: Its name, such as `x` or `output[0]`.
        shape: Its sizes.
        dtype: Its type, such as `float32`.
        has_gradient: Whether it requires a gradient.
        low: Smallest value; None if it is not a number or there is none.
        high: Largest value.
        is_finite: Whether no value is NaN or infinite.
        sums_to_one: Dimension, from the end, along which non-negative values sum to 1; 0 for none.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    has_gradient: bool = False
    low: float | None = None
    high: float | None = None
    is_finite: bool = True
    sums_to_one: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSummary:
    """Part of a module: its name, class (`kind`), number of calls and the shape of what its first call returned."""

    name: str
    kind: str
    calls: int
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedCall:
    """Call with something changed.

    Attributes:
        what: What was changed, such as `batch of one` or `x: dimension 1 of size 17`.
        mode: `training`, `evaluation`, or empty for code that is no module.
        effect: Its effect; `same` and `differs` compare with the call before the change.
        detail: Type of the output, or the message of the exception.
        place: Line of the project that raised.
    """

    what: str
    mode: str
    effect: CallEffect
    detail: str = ""
    place: SourcePlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """State that a forward pass changed, by mode: names of parameters and buffers, then of attributes."""

    mode: str
    tensors: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientFlow:
    """Gradients after one backward pass from the sum of all outputs.

    Attributes:
        error: Exception of the backward pass; empty without one.
        place: Line of the project that raised.
        parameters: Number of parameters that require a gradient.
        without: Those that got none.
        zero: Those whose gradient is exactly zero.
        frozen: Parameters that require no gradient.
        inputs: Inputs that got a gradient.
        inputs_without: Floating-point inputs that got none.
    """

    error: str = ""
    place: SourcePlace | None = None
    parameters: int = 0
    without: tuple[str, ...] = ()
    zero: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    inputs_without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionEffect:
    """Effect of the last position of an input on outputs at earlier positions, and of the first one on later ones.

    Attributes:
        input: Name of the input.
        output: Name of the output.
        axis: Dimension of the positions.
        is_seen_earlier: Whether the last position changes an output at an earlier one.
        is_seen_later: Whether the first position changes an output at a later one.
    """

    input: str
    output: str
    axis: int
    is_seen_earlier: bool
    is_seen_later: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskEffect:
    """Effect of the positions that a boolean input marks.

    Attributes:
        mask: Name of the mask.
        input: Name of the input whose values were changed there.
        hides: Value of the mask whose positions have no effect on the other ones: `True`, `False`, `both` or `neither`.
    """

    mask: str
    input: str
    hides: Literal["True", "False", "both", "neither"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviourRun:
    """Measured part of a result.

    Attributes:
        inputs: Inputs of the first call.
        outputs: Its outputs, in evaluation mode.
        training_outputs: Outputs in training mode, with the extremes of several calls.
        parts: Parts of the module that it ran.
        state: Whether `state_dict` has a buffer, by its name.
        changes: State that a forward pass changed.
        gradients: Gradients; None if no output requires one.
        changed_inputs: Inputs that a call changes in place.
        random: Whether two calls with other random numbers differ, by mode.
        rows: Whether a row of the output depends on the other rows of the batch, by mode.
        positions: Effects of single positions.
        masks: Effects of boolean inputs.
        tried: Calls with something changed.
        is_lost: Whether a new object that loads the `state_dict` of one that was called returns something else; None if
            that was not tried.
        missing: What was not tried.
    """

    inputs: tuple[TensorSummary, ...]
    outputs: tuple[TensorSummary, ...]
    training_outputs: tuple[TensorSummary, ...] = ()
    parts: tuple[PartSummary, ...] = ()
    state: dict[str, bool]
    changes: tuple[StateChange, ...] = ()
    gradients: GradientFlow | None = None
    changed_inputs: tuple[str, ...] = ()
    random: dict[str, bool]
    rows: dict[str, bool]
    positions: tuple[PositionEffect, ...] = ()
    masks: tuple[MaskEffect, ...] = ()
    tried: tuple[TriedCall, ...] = ()
    is_lost: bool | None = None
    missing: tuple[MissingPart, ...] = ()
