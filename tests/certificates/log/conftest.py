"""A log on every database, with a home, a key, a session to certify, and what somebody with the database could do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from log_samples import Archive

from esper_agents.storage.store import Store


@pytest.fixture
def store(database):
    opened = Store(database)
    yield opened
    opened.close()


@pytest.fixture
def archive(store, home):
    """Return an archive with an empty log."""
    return Archive(store, home)
