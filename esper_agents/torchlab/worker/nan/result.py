"""Result of the job `nan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, Union

from ..results import JSON_NAMES, MissingPart, UserFrame

# A number, or `nan`, `inf` and the like as text.
ReportedNumber: TypeAlias = Union[bool, int, float, str]  # noqa: UP007 - evaluated, and Python 3.10 has to
NonfiniteKind: TypeAlias = Literal["nan", "inf"]


@dataclass(frozen=True, slots=True)
class ModuleLocation:
    """Module in which an operation was called: the variable of its root, the path from there and its class."""

    root: str
    path: str
    class_: str
    __pydantic_config__: ClassVar[dict[str, Any]] = JSON_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSite:
    """Place of a call, as far as known.

    Attributes:
        file: File of the project.
        line: Line number.
        function: Function of the line.
        source: Text of the line.
        expression: Evaluated part of the line.
        module: Module whose forward was running.
        outside: Caller, if no line of the project was running.
    """

    file: str | None = None
    line: int | None = None
    function: str | None = None
    source: str | None = None
    expression: str | None = None
    module: ModuleLocation | None = None
    outside: str | None = None

    @property
    def place(self) -> str:
        """The best known location: `file:line`, the module, or the caller."""
        if self.file:
            return f"{self.file}:{self.line}"
        return self.module_name or self.outside or "an unknown place"

    @property
    def module_name(self) -> str:
        """The module, such as `Encoder.blocks.1 (Attention)`; empty if unknown."""
        if self.module is None:
            return ""
        return f"{self.module.root}.{self.module.path} ({self.module.class_})" if self.module.path else self.module.root


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorStatistics:
    """Statistics of a tensor, or a plain number, among the arguments of an operation."""

    name: str | None = None
    number: ReportedNumber | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    numel: int | None = None
    min: ReportedNumber | None = None
    max: ReportedNumber | None = None
    mean: ReportedNumber | None = None
    nan: int | None = None
    inf: int | None = None
    zeros: int | None = None
    negatives: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NonfiniteCarrier(TensorStatistics):
    """Tensor that held the number before the run: its kind, and the index of the first such element."""

    kind: str
    first_index: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class BadElement:
    """First non-finite element of an output: its index, and the elements that it was made from."""

    index: tuple[int, ...]
    operands: dict[str, ReportedNumber]


@dataclass(frozen=True, slots=True, kw_only=True)
class NonfiniteOperation(OperationSite):
    """Operation that produced a NaN or Inf.

    Attributes:
        operation: Name, such as `aten.div.Tensor`.
        phase: `forward`, `backward` or `optimizer`.
        step: Number of the step, from 0.
        holds: Kind of the number.
        how: `made`, `turned`, `deliberate`, `outside` or `uninitialised`.
        node: Autograd node of a backward operation.
        forward_operation: Operation whose derivative that is.
        backward_started: Line that started the backward pass.
        carrier: Tensor that held the number before the run.
        stack: Frames of the project, outermost first.
        inputs: Its arguments, before it ran.
        output: Its output.
        at: First non-finite element.
        overwritten: Whether its input was overwritten, so that the statistics are those after it.
    """

    operation: str
    phase: str
    step: int
    holds: NonfiniteKind
    how: str
    node: str | None = None
    forward_operation: str | None = None
    backward_started: OperationSite | None = None
    carrier: NonfiniteCarrier | None = None
    stack: tuple[UserFrame, ...] | None = None
    inputs: tuple[TensorStatistics, ...] | None = None
    output: TensorStatistics | None = None
    at: BadElement | None = None
    overwritten: bool | None = None

    @property
    def short(self) -> str:
        """The name without namespace and overload: `div` for `aten.div.Tensor`."""
        return short_name(self.operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmlessOperation(OperationSite):
    """Operation whose NaN or Inf had no effect, with its first step and the number of times."""

    operation: str
    phase: str
    holds: NonfiniteKind
    how: str
    first_step: int
    times: int


@dataclass(frozen=True, slots=True)
class LayerGain:
    """Parameter whose layer makes its outputs larger than its inputs, by a factor."""

    parameter: str
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NonfiniteCause:
    """Cause of a NaN or Inf.

    Attributes:
        class_: Class of the cause, such as `division-by-zero`.
        because: The reason in words.
        mechanism: What the operation did, if the class is a cause further up.
        layers: Layers whose weights are out of scale, each with its gain.
    """

    class_: str
    because: str
    mechanism: str | None = None
    layers: tuple[LayerGain, ...] | None = None
    __pydantic_config__: ClassVar[dict[str, Any]] = JSON_NAMES


@dataclass(frozen=True, slots=True)
class ReachedTensor:
    """Tensor that a NaN or Inf reached: its kind, its name and the number."""

    what: str
    name: str
    holds: NonfiniteKind


@dataclass(frozen=True, slots=True)
class AffectedBatch:
    """First affected batch: its step, the seed of its inputs and the sample."""

    step: int
    seed: int
    sample: int | None = None


@dataclass(frozen=True, slots=True)
class StepHistory:
    """Loss, largest weight and largest gradient of a step."""

    step: int
    loss: ReportedNumber | None = None
    largest_weight: ReportedNumber | None = None
    largest_gradient: ReportedNumber | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NanRun:
    """Measured part of a result.

    Attributes:
        status: Kind of the first harmful number; `clean` without one.
        steps_asked: Maximum number of steps.
        steps_run: Number of steps that ran.
        operations: Number of checked operations.
        skipped_steps: Steps whose update was skipped because gradients overflowed.
        noticed: Operations whose numbers had no effect.
        history: Course of the run.
        missing: Parts that were not measured.
        first: First operation that produced the number.
        became_nan: Operation in which an Inf became NaN.
        cause: Cause.
        reached: Affected tensors.
        batch: First affected batch.
    """

    status: Literal["clean", "inf", "nan"]
    steps_run: int
    skipped_steps: tuple[int, ...]
    steps_asked: int | None = None
    operations: int | None = None
    noticed: tuple[HarmlessOperation, ...] | None = None
    history: tuple[StepHistory, ...] | None = None
    missing: tuple[MissingPart, ...] | None = None
    first: NonfiniteOperation | None = None
    became_nan: NonfiniteOperation | None = None
    cause: NonfiniteCause | None = None
    reached: tuple[ReachedTensor, ...] | None = None
    batch: AffectedBatch | None = None


def short_name(operation: str) -> str:
    """Return an operation without namespace and overload: `div` for `aten.div.Tensor`."""
    parts = operation.split(".")
    return parts[1] if len(parts) > 1 else operation
