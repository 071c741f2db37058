"""A project, a submission and a clock for the tests of this room."""

from __future__ import annotations

from esper_agents.domain.project import GitRevision, Project
from esper_agents.domain.session import Submission
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task

PROJECT = Project("/somewhere/toy", "toy", "toy-0123456789ab", is_git=False)


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self):
        self.now_ms = 1_800_000_000_123

    def __call__(self, _connection):
        return self.now_ms


def submission(request="review this"):
    revision = GitRevision("", "", "", "", is_git=False, dirty=())
    return Submission(Task(request, (), QuestionType.APPROVAL, "review"), "toy", revision, {}, "somebody")
