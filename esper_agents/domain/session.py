"""Sessions: durable executions of a task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from esper_agents.domain.codec import JsonObject
from esper_agents.domain.origin import SUBMITTED, PredecessorResult, SessionOrigin
from esper_agents.domain.permission_rule import PermissionRule
from esper_agents.domain.project import GitRevision
from esper_agents.domain.relation import Relation
from esper_agents.domain.task import Task


class SessionState(StrEnum):
    """Where a session is, as its ledger says."""

    OPEN = "open"
    WAITING = "waiting"
    DONE = "done"
    REFUSED = "refused"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Submission:
    """What a session begins with.

    Attributes:
        task: What was submitted.
        project: The project's name.
        revision: What git knew at the start.
        environment: Names and versions of what it runs on.
        person: Who submitted it.
        relations: How its certificate will stand to others.
        question_kinds_sha256: Digest of the table that the kind of question was read from, or empty.
        redactions: How many secrets were struck out of the request and the address of the project.
        policy_sha256: Digest of the policy that verdicts were bounded by at the start, or empty.
        before: What the session came to that this one continues, or None.
        rules: The rules about tools that held at the start; they hold to the end.
        rules_sha256: Digest of these rules, or empty.
    """

    task: Task
    project: str
    revision: GitRevision
    environment: dict[str, str]
    person: str
    relations: tuple[Relation, ...] = ()
    question_kinds_sha256: str = ""
    redactions: int = 0
    policy_sha256: str = ""
    before: PredecessorResult | None = None
    rules: tuple[PermissionRule, ...] = ()
    rules_sha256: str = ""


class SessionSummary(NamedTuple):
    """A session in a listing: a tuple, as a thousand of them are made at once.

    Attributes:
        id: `ses_` identifier.
        request: What was asked.
        state: Where it is.
        agent: Who has the task, or had it last.
        certificate: The certificate it ended with, or empty.
        created_at: When it was submitted.
        changed_at: When it last got a row.
        is_owned: Whether a live process is working on it.
        origin: Where it comes from.
        is_queued: Whether a worker may take it.
    """

    id: str
    request: str
    state: SessionState
    agent: str
    certificate: str
    created_at: str
    changed_at: str
    is_owned: bool
    origin: SessionOrigin = SUBMITTED
    is_queued: bool = False

    @property
    def is_interrupted(self) -> bool:
        """Whether it is not over, and neither a process works on it nor a worker may take it."""
        return self.state is SessionState.OPEN and not self.is_owned and not self.is_queued


@dataclass(frozen=True, slots=True)
class Event:
    """A ledger row as people and programs watch it.

    Attributes:
        seq: The row's number; later rows have greater ones.
        at: When.
        frame: Whose turn, from 1; 0 for rows of the session itself.
        step: Which turn of the frame.
        call: Which call of the turn.
        kind: `domain.ledger.RowKind` as text.
        body: The row's content.
    """

    seq: int
    at: str
    frame: int
    step: int
    call: int
    kind: str
    body: JsonObject
