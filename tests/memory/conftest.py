"""A store on every database with a session to come from, and notes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "storage"))
sys.path.insert(0, str(Path(__file__).parent))

from storage_samples import PROJECT, Clock, submission

from esper_agents.storage import sessions
from esper_agents.storage.store import Store


@pytest.fixture
def store(database):
    opened = Store(database, clock=Clock())
    yield opened
    opened.close()


@pytest.fixture
def session(store):
    """Return the identifier of a session, of which a session's notes are."""
    return sessions.create(store, PROJECT, submission()).session


@pytest.fixture
def write(store, session):
    """Write notes as a session's end does."""
    from esper_agents.memory import notes

    def done(*wanted, project=PROJECT.key):
        with store.writing() as transaction:
            notes.write(transaction, project, wanted)

    return done
