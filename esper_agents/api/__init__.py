"""The public face of esper-agents: open a project, submit, stream, resume, read. The command line uses only this.

    async with open_project("~/my-model") as project:
        session = await project.submit("review this training code", ["train.py"])
        async for event in session.events():
            print(event.kind)
        outcome = await session.run()

`open_project_sync` gives the same without `await`, in notebooks too.
"""

from __future__ import annotations

from esper_agents.api.project import OpenProject, Plan, open_project
from esper_agents.api.session import Outcome, Session
from esper_agents.api.sync import SyncProject, SyncSession, open_project_sync

__all__ = [
    "OpenProject",
    "Outcome",
    "Plan",
    "Session",
    "SyncProject",
    "SyncSession",
    "open_project",
    "open_project_sync",
]
