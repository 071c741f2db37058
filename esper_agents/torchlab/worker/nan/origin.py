"""Origins of numbers that are not finite."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .result import NonfiniteOperation, OperationSite

if TYPE_CHECKING:
    from ..results import UserFrame
    from .call_sites import Sites, SiteVisit
    from .causes import Mechanism
    from .result import BadElement, NonfiniteCarrier, NonfiniteKind, ReportedNumber, TensorStatistics


@dataclass(frozen=True)
class OperationDetails:
    """Arguments and output of an operation whose result is not finite.

    Attributes:
        stack: Frames of the project, outermost first.
        outside: Caller, if there are none.
        inputs: The arguments.
        output: The first non-finite output.
        at: Its first non-finite element; None if it cannot be located.
        member: For a list of tensors, the position of the first non-finite one; None without a list.
        is_overwritten: Whether an argument was overwritten, so that its statistics are those after it.
    """

    stack: tuple[UserFrame, ...]
    outside: str | None
    inputs: tuple[TensorStatistics, ...]
    output: TensorStatistics
    at: BadElement | None
    member: int | None
    is_overwritten: bool


@dataclass(eq=False)
class NonfiniteOrigin:
    """Origin of non-finite numbers, or of a change of their kind.

    Attributes:
        order: Increasing number.
        kind: `made` by an operation from finite inputs; `turned` from Inf to NaN; intentional (`deliberate`);
            from `outside` of all monitored operations; `uninitialised` memory.
        what: `nan` or `inf`.
        step: Number of the step, from 0.
        operation: Name of the operation, such as `aten.div.Tensor`.
        found: Site and phase.
        parents: Origins of the operation's inputs.
        carrier: Tensor that carried it in from outside: an `input`, `parameter`, `buffer`, `optimizer state`,
            `constant` or other `tensor`.
        mechanism: Mechanism of the operation.
        details: Its arguments and output; None beyond the first operations of a step.
        masks: Masks above its autograd node, nearest first.
        reader: For outside and uninitialised numbers, the first operation that used them.
    """

    order: int
    kind: str
    what: NonfiniteKind
    step: int
    operation: str
    found: SiteVisit
    parents: tuple[NonfiniteOrigin, ...] = ()
    carrier: NonfiniteCarrier | None = None
    mechanism: Mechanism | None = None
    details: OperationDetails | None = None
    masks: tuple[str, ...] = ()
    reader: NonfiniteOrigin | None = None

    @property
    def operands(self) -> dict[str, ReportedNumber]:
        """Operands of the first non-finite element; empty if unknown."""
        return self.details.at.operands if self.details is not None and self.details.at is not None else {}


def described(origin: NonfiniteOrigin, sites: Sites) -> NonfiniteOperation:
    """Return the origin as stored in results."""
    found, details = origin.found, origin.details
    started = None if found.started is None else sites.described(found.started, OperationSite)
    operation = sites.described(
        found.site,
        NonfiniteOperation,
        operation=origin.operation,
        phase=found.phase,
        step=origin.step,
        holds=origin.what,
        how=origin.kind,
        node=found.node,
        forward_operation=None if found.node is None else found.site.operation,
        backward_started=started and replace(started, module=None),
        carrier=origin.carrier,
    )
    if details is None:
        return operation
    return replace(
        operation,
        stack=details.stack,
        outside=details.outside if found.site.code is None else None,
        inputs=details.inputs,
        output=details.output,
        at=details.at,
        overwritten=details.is_overwritten or None,
    )
