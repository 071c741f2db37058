"""Drift: differences between the definitions a session recorded and the current ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from esper_agents.domain.certificate import Definition


class DriftKind(StrEnum):
    """What has changed."""

    AGENT = "agent"
    PLAYBOOK = "playbook"
    SKILL = "skill"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """Something that is not what it was when the session began.

    Attributes:
        kind: What it is.
        name: Its name; of a playbook and a skill, the agent's with it.
        before: Digest of what it was; empty where there was none.
        now: Digest of what it is; empty where it is gone.
    """

    kind: DriftKind
    name: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """A person let a session go on with what has changed.

    Attributes:
        by: Who.
        changes: What has changed.
        definitions: What the agents go by from here on.
        policy_sha256: Digest of the policy from here on.
    """

    by: str
    changes: tuple[DefinitionChange, ...]
    definitions: tuple[Definition, ...]
    policy_sha256: str
