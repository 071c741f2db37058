"""Origins of numbers that are not finite."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .call_sites import Sites, SiteVisit
    from .causes import Mechanism


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
        carrier: Kind of tensor that carried it in from outside: `input`, `parameter`, `buffer`, `constant` or `tensor`.
        name: The carrier's name, if it has one.
        mechanism: Mechanism of the operation.
        details: Statistics and the first non-finite element.
        reader: For outside and uninitialised numbers, the first operation that used them.
    """

    order: int
    kind: str
    what: str
    step: int
    operation: str
    found: SiteVisit
    parents: tuple[NonfiniteOrigin, ...] = ()
    carrier: str | None = None
    name: str | None = None
    mechanism: Mechanism | None = None
    details: dict[str, Any] = field(default_factory=dict)
    reader: NonfiniteOrigin | None = None


def described(origin: NonfiniteOrigin, sites: Sites) -> dict[str, Any]:
    """Return the origin as stored in results."""
    found = origin.found
    known: dict[str, Any] = {
        "operation": origin.operation,
        "phase": found.phase,
        "step": origin.step,
        "holds": origin.what,
        "how": origin.kind,
        **sites.described(found.site),
    }
    if found.node is not None:
        known["node"] = found.node
        known["forward_operation"] = found.site.operation
    if found.started is not None:
        known["backward_started"] = {
            key: each for key, each in sites.described(found.started).items() if key != "module"
        }
    if origin.carrier is not None:
        known["carrier"] = {"kind": origin.carrier, "name": origin.name, **origin.details.get("carrier", {})}
    hidden = {"carrier", "masks", "member"} | ({"outside"} if found.site.code is not None else set())
    return known | {key: each for key, each in origin.details.items() if key not in hidden}
