"""Commands and prompt text for answering a pending question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.cli.terminal import short
from esper_agents.domain.answer_type import AnswerType

if TYPE_CHECKING:
    from collections.abc import Collection

    from esper_agents.domain.ledger import UserQuestion

_DECISION = {"approve", "deny"}


def is_decision(options: Collection[str]) -> bool:
    """Return whether the options of a question are approve and deny."""
    return set(options) == _DECISION


def commands(question: UserQuestion) -> tuple[str, ...]:
    """Return the commands that answer a question; they contain no text written by an agent."""
    name = short(question.id)
    if is_decision(question.options):
        return f"esper approve {name}", f"esper deny {name}"
    return (f"esper answer {name} ANSWER",)


def choice(question: UserQuestion) -> str:
    """Return the allowed answers in brackets; empty if any text is allowed."""
    wanted = "/".join(question.options) or ("" if question.wants is AnswerType.TEXT else str(question.wants))
    return f" [{wanted}]" if wanted else ""
