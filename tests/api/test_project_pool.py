"""Projects of a worker: a folder that a database row names is opened only if it is that project."""

from __future__ import annotations

import asyncio

import pytest

from esper_agents.api.project_pool import ProjectPool
from esper_agents.errors import UsageError
from esper_agents.git.find_project import find_project
from esper_agents.orchestration.project_services import ServiceOverrides


@pytest.mark.parametrize("key", ["one", "../../outside"])
def test_a_folder_that_is_another_project_is_refused(make_project, home, key):
    one, two = make_project(name="one"), make_project(name="two")
    wanted = find_project([one], one).key if key == "one" else key

    async def open_desk():
        async with ProjectPool(None, publish=False, additions=ServiceOverrides()).at(wanted, str(two)):
            raise AssertionError("it was opened")

    with pytest.raises(UsageError, match="is not the project"):
        asyncio.run(open_desk())
    assert not (home / "projects").exists()
