"""One call of a playbook, whose report counts only if the call completed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.ledger import Refusal

if TYPE_CHECKING:
    from collections.abc import Generator

    from esper_agents.domain.agent_action import Move, ToolCall, ToolReport


def completed_call(call: ToolCall) -> Generator[Move, Any, ToolReport | None]:
    """Return the report of a call; None if it was refused or did not complete."""
    given = yield CallTools((call,))
    if isinstance(given, Refusal) or given[0].evidence.outcome is not CallOutcome.COMPLETED:
        return None
    report: ToolReport = given[0]
    return report
