"""Permission rules: allow, ask or deny tool calls by tool and arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class PermissionDecision(StrEnum):
    """What becomes of a tool call, from the least strict."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class RuleSource(StrEnum):
    """Who made a rule."""

    PERSON = "your settings"
    PROJECT = "the project's settings"
    TASK = "the task"
    COMMAND = "your command line"


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """One rule.

    Attributes:
        tool: The tools it is for: a name, in which `*`, `?` and `[...]` stand for others.
        action: What becomes of a call.
        arguments: Only calls whose arguments of these names look like this, with the same signs; any where empty.
        reason: Why, in a sentence, or empty.
        source: Who made it.
    """

    tool: str
    action: PermissionDecision
    arguments: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    source: RuleSource = RuleSource.PERSON

    def __str__(self) -> str:
        """Return the rule in one line."""
        only = "".join(f", {name} = {pattern!r}" for name, pattern in self.arguments.items())
        return f"{self.action} {self.tool}{only}{f' ({self.reason})' if self.reason else ''}"
