"""Which tool calls a person must agree to first, and whether an answer is an agreement to this very call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.certificates.statement import digest_of_value
from esper_agents.domain.codec import canonical
from esper_agents.domain.evidence import Risk
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.ledger import Question

if TYPE_CHECKING:
    from esper_agents.domain.move import ToolCall
    from esper_agents.orchestration.history import Call
    from esper_agents.tools.tool import Tool

APPROVE, DENY = "approve", "deny"
_WHAT = {
    Risk.MEDIUM: "writes in the project, or runs its code without a sandbox",
    Risk.HIGH: "uses the shell, the network or something outside the project",
}


def needs_approval(tool: Tool) -> bool:
    """Return whether a person must agree before a tool runs."""
    match tool.risk:
        case Risk.LOW:
            return False
        case Risk.MEDIUM | Risk.HIGH:
            return True


def approval_question(tool: Tool, call: ToolCall) -> Question:
    """Return the question whether one call may be made."""
    arguments = canonical(call.arguments).decode()
    text = f"may {tool.name} run with {arguments}? risk {tool.risk}: it {_WHAT.get(tool.risk, 'only reads')}"
    return Question(
        new_id(Prefix.QUESTION), text, (APPROVE, DENY), tool.name, call.arguments, digest_of_value(call.arguments)
    )


def is_approved(state: Call, call: ToolCall) -> bool:
    """Return whether the recorded answer agrees to this very call: its question, its tool, its arguments."""
    return (
        state.question is not None
        and state.answer is not None
        and state.answer.question == state.question.id
        and state.answer.text == APPROVE
        and state.question.tool == call.tool
        and state.question.arguments_sha256 == digest_of_value(call.arguments)
    )
