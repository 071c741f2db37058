"""Permission rules: allow, ask or deny tool calls by tool and arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class PermissionDecision(StrEnum):
    """Decision about a tool call, least strict first."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class RuleSource(StrEnum):
    """Source of a permission rule."""

    PERSON = "your settings"
    PROJECT = "the project's settings"
    TASK = "the task"
    COMMAND = "your command line"


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """One permission rule for tool calls.

    Attributes:
        tool: Name of the tools concerned; may contain the wildcards `*`, `?` and `[...]`.
        action: The decision.
        arguments: Patterns, with the same wildcards, that arguments of these names must match; empty matches every
            call.
        reason: Reason, in a sentence, or empty.
        source: Source of the rule.
    """

    tool: str
    action: PermissionDecision
    arguments: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    source: RuleSource = RuleSource.PERSON

    def __str__(self) -> str:
        """Return the rule as one line of text."""
        only = "".join(f", {name} = {pattern!r}" for name, pattern in self.arguments.items())
        return f"{self.action} {self.tool}{only}{f' ({self.reason})' if self.reason else ''}"
