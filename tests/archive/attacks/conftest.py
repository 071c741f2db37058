"""What attacks begin with: a project with one certificate, and what verifying it says, whatever happens."""

from __future__ import annotations

import asyncio

import pytest

from esper_agents.api import verify_certificate
from esper_agents.errors import EsperError


@pytest.fixture
def judged(judged_project, monkeypatch):
    monkeypatch.chdir(judged_project.root)
    return judged_project


@pytest.fixture
def exit_code():
    """Return what `esper certificates verify` exits with; any other error than one in our words is a failure."""

    def verify(target, where=None):
        try:
            return int(asyncio.run(verify_certificate(str(target), where)).exit_code)
        except EsperError as error:
            assert "\n" not in error.problem  # noqa: PT017 - each error of ours is an answer here
            return int(error.exit_code)

    return verify
