"""`where(ledger)`: total function that selects the next graph node of a session."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.domain.session import SessionState

if TYPE_CHECKING:
    from esper_agents.orchestration.session_projection import SessionProjection


class GraphNode(StrEnum):
    """Nodes of the graph. Every run ends with `certify`."""

    ROUTE = "route"
    SPECIALIST = "specialist"
    CERTIFY = "certify"


def where(history: SessionProjection) -> GraphNode:
    """Return the node that a session needs next.

    Every run ends with certify: a conclusion gets its certificate; a session that is waiting, was refused or was
    cancelled ends without a verdict.
    """
    match history.state:
        case SessionState.DONE | SessionState.REFUSED | SessionState.CANCELLED | SessionState.WAITING:
            return GraphNode.CERTIFY
        case SessionState.OPEN:
            if history.route is None or not history.frames:
                return GraphNode.ROUTE
            return GraphNode.SPECIALIST if history.conclusion is None else GraphNode.CERTIFY
