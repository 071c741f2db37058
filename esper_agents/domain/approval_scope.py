"""Scopes of approvals: one call, the same tool in one session, or commands with one prefix."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from esper_agents.domain.evidence import Risk


class ScopeKind(StrEnum):
    """Calls that an approval covers."""

    ONCE = "once"
    SESSION = "session"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True)
class ApprovalScope:
    """Calls that an approval covers besides the one that was asked about.

    Attributes:
        kind: `session` for calls of the same tool, `prefix` for commands that begin with the same words.
        session: `ses_` identifier of the session; a fork of it is another session.
        tool: Name of the tool.
        risk: Risk of the approved call; a call with another risk is asked about.
        prefix: First words of the approved command; empty for the kind `session`.
    """

    kind: ScopeKind
    session: str
    tool: str
    risk: Risk
    prefix: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the scope in words."""
        if self.kind is ScopeKind.PREFIX:
            return f"in this session for {self.tool} commands that begin with {' '.join(self.prefix)!r}"
        return f"in this session for {self.tool}"


@dataclass(frozen=True, slots=True)
class AnswerReach:
    """What an answer applies to besides its question.

    Attributes:
        is_all: Whether it also answers the other approvals of the turn.
        kind: Scope of an approval.
        prefix: First words of the approved command, for the kind `prefix`.
    """

    is_all: bool = False
    kind: ScopeKind = ScopeKind.ONCE
    prefix: str = ""


ONE_QUESTION = AnswerReach()
