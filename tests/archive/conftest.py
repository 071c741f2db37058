"""An archive on every database."""

from __future__ import annotations

import pytest
from archive_samples import Archive

from esper_agents.storage.store import Store


@pytest.fixture
def archived(database):
    opened = Store(database)
    yield Archive(opened)
    opened.close()
