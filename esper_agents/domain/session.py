"""Sessions: durable executions of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from esper_agents.domain.codec import JsonObject
from esper_agents.domain.origin import SUBMITTED, PredecessorResult, SessionOrigin
from esper_agents.domain.permission_rule import PermissionRule
from esper_agents.domain.project import GitRevision
from esper_agents.domain.relation import Relation
from esper_agents.domain.request import ParsedRequest
from esper_agents.domain.stored_kinds import SessionState as SessionState  # noqa: PLC0414 - exported
from esper_agents.domain.task import Task


@dataclass(frozen=True, slots=True)
class Submission:
    """Input of a session, as recorded at submission.

    Attributes:
        task: The submitted task.
        project: The project's name.
        revision: Git revision at the start.
        environment: Names and versions of the software and hardware used.
        person: Name of the user who submitted it.
        relations: Relations of its future certificate to other certificates.
        question_kinds_sha256: Digest of the table that determined the question type, or empty.
        redactions: Number of secrets removed from the request and the URL of the project.
        policy_sha256: Digest of the policy in force at the start, or empty.
        before: Result of the predecessor session, or None.
        rules: The permission rules in force at the start; they apply until the end.
        rules_sha256: Digest of these rules, or empty.
        request: Content of the request, as parsed at submission; None for sessions of version 0.1.0.
        snapshot: Digest of the artifact with the files to read instead of the checkout, or empty.
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
    request: ParsedRequest | None = None
    snapshot: str = ""


class SessionSummary(NamedTuple):
    """A session in a listing; a tuple, because listings create a thousand at once.

    Attributes:
        id: `ses_` identifier.
        request: The user's request.
        state: Its state.
        agent: The agent that has the task, or had it last.
        certificate: Its certificate, or empty.
        created_at: Time of submission.
        changed_at: Time of its latest event.
        is_owned: Whether a live process works on it.
        origin: Its origin.
        is_queued: Whether a queue worker may claim it.
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
        """Whether the session is unfinished, and neither running nor queued."""
        return self.state is SessionState.OPEN and not self.is_owned and not self.is_queued


@dataclass(frozen=True, slots=True)
class Event:
    """A ledger event for users and programs that watch a session.

    Attributes:
        seq: Sequence number; later events have greater ones.
        at: Time.
        frame: Number of the frame, from 1; 0 for events of the session itself.
        step: Number of the turn in the frame.
        call: Number of the call in the turn.
        kind: `domain.ledger.RowKind` as text.
        body: The event's content.
    """

    seq: int
    at: str
    frame: int
    step: int
    call: int
    kind: str
    body: JsonObject
