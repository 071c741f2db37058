"""A store on every database, with a clock that stands still, and a session to write to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from storage_samples import PROJECT, Clock, submission

from esper_agents.storage import sessions
from esper_agents.storage.store import Store


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
