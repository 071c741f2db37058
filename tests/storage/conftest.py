"""A store on every database, with a clock that stands still, and a session to write to."""

from __future__ import annotations

import pytest

from esper_agents.domain.project import Project, Revision
from esper_agents.domain.session import Submission
from esper_agents.domain.status import Kind
from esper_agents.domain.task import Task
from esper_agents.storage import sessions
from esper_agents.storage.store import Store

PROJECT = Project("/somewhere/toy", "toy", "toy-0123456789ab", is_git=False)


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self):
        self.now_ms = 1_800_000_000_123

    def __call__(self, _connection):
        return self.now_ms


def submission(request="review this"):
    revision = Revision("", "", "", "", is_git=False, dirty=())
    return Submission(Task(request, (), Kind.APPROVAL, "review"), "toy", revision, {}, "somebody")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(database, clock):
    opened = Store(database, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def create(store):
    """Make a session and return its lease."""

    def make(request="review this", *, project=PROJECT):
        return sessions.create(store, project, submission(request))

    return make


@pytest.fixture
def held(create):
    """Return the lease of a fresh session."""
    return create()
