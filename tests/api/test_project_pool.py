"""Projects of a worker: a folder that a database row names is opened only if it is that project."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from esper_agents.api.project_pool import ProjectPool
from esper_agents.errors import UsageError
from esper_agents.git.find_project import find_project
from esper_agents.orchestration.project_services import ProjectServices, ServiceOverrides


@pytest.mark.parametrize("key", ["one", "../../outside"])
def test_a_folder_that_is_another_project_is_refused(make_project, home, key):
    one, two = make_project(name="one"), make_project(name="two")
    wanted = find_project([one], one).key if key == "one" else key

    async def open_desk():
        async with ProjectPool(UNSHARED, publish=False, additions=ServiceOverrides()).at(wanted, str(two)):
            raise AssertionError("it was opened")

    with pytest.raises(UsageError, match="is not the project"):
        asyncio.run(open_desk())
    assert not (home / "projects").exists()


UNSHARED = SimpleNamespace(store=SimpleNamespace(is_shared=False))


def test_a_project_stays_open_while_a_session_of_it_runs_however_long(make_project, monkeypatch):
    root = make_project()
    key = find_project([root], root).key
    closed = []

    async def close(services):
        closed.append(services)

    monkeypatch.setattr(ProjectServices, "close", close)

    async def work():
        pool = ProjectPool(UNSHARED, publish=False, additions=ServiceOverrides())
        async with pool.at(key, str(root)) as services:
            pool._desks[key, ""].until = 0.0
            await pool.leave()
            await pool.leave(everything=True)
            assert closed == []
        await pool.leave()
        assert closed == [services]

    asyncio.run(work())
