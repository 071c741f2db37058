"""Drift: differences between the definitions a session recorded and the current ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from esper_agents.domain.certificate import Definition


class DriftKind(StrEnum):
    """Kind of definition that has changed."""

    AGENT = "agent"
    PLAYBOOK = "playbook"
    SKILL = "skill"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """One difference from the definitions recorded at the start of the session.

    Attributes:
        kind: Kind of definition.
        name: Its name; for a playbook or a skill, together with the agent's name.
        before: Recorded digest; empty if it did not exist.
        now: Current digest; empty if it no longer exists.
    """

    kind: DriftKind
    name: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """A user's decision to continue a session with the current definitions.

    Attributes:
        by: Name of the user.
        changes: The accepted changes.
        definitions: The agents' definitions from this event on.
        policy_sha256: Digest of the policy from this event on.
    """

    by: str
    changes: tuple[DefinitionChange, ...]
    definitions: tuple[Definition, ...]
    policy_sha256: str
