"""`where(ledger)`: total function that selects the next graph node of a session."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.domain.session import SessionState

if TYPE_CHECKING:
    from esper_agents.orchestration.session_projection import SessionProjection


class GraphNode(StrEnum):
    """The nodes of the graph. Whatever ends a run, `certify` is the last of them."""

    ROUTE = "route"
    SPECIALIST = "specialist"
    CERTIFY = "certify"


def where(history: SessionProjection) -> GraphNode:
    """Return which node a session needs next.

    Certify is where every run ends: with a conclusion it issues the certificate; a session that waits for a person,
    was refused or was cancelled leaves it without a verdict.
    """
    match history.state:
        case SessionState.DONE | SessionState.REFUSED | SessionState.CANCELLED | SessionState.WAITING:
            return GraphNode.CERTIFY
        case SessionState.OPEN:
            if history.route is None or not history.frames:
                return GraphNode.ROUTE
            return GraphNode.SPECIALIST if history.conclusion is None else GraphNode.CERTIFY
