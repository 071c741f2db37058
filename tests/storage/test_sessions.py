from __future__ import annotations

import pytest
from conftest import PROJECT, submission

from esper_agents.domain.project import Project
from esper_agents.domain.session import SessionState
from esper_agents.errors import NotFoundError, StorageError
from esper_agents.storage import sessions
