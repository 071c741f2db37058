"""The public API of esper-agents: open a project, submit, stream, resume, read.

    import asyncio

    from esper_agents.api import open_project

    async with open_project("~/my-model") as project:
        session = await project.submit(project.task("review this training code", ["~/my-model/train.py"]))
        running = asyncio.create_task(session.run())
        async for event in session.events():
            print(event.kind)
        outcome = await running
        print(outcome.certificate.status)

`open_project_sync` provides the same without `await`, also in notebooks:

    from esper_agents.api import open_project_sync

    with open_project_sync("~/my-model") as project:
        outcome = project.submit(project.task("review this training code", ["~/my-model/train.py"])).run()
        print(outcome.certificate.status)
"""

from __future__ import annotations

from esper_agents.api.project import OpenProject, TaskPlan, open_project
from esper_agents.api.session import Session, SessionResult
from esper_agents.api.sync import SyncProject, SyncSession, open_project_sync
from esper_agents.domain.agent_action import Ask, CallTools, Conclude, Consult, HandOff, Panel, ToolCall
from esper_agents.domain.answer_type import AnswerType
from esper_agents.domain.budget import read_budget
from esper_agents.domain.evidence import Risk, source_file
from esper_agents.domain.frame import Brief
from esper_agents.renamed import aliases
from esper_agents.tools.tool import Tool, ToolContext, ToolResult, tool

__all__ = [
    "AnswerType",
    "Ask",
    "Brief",
    "CallTools",
    "Conclude",
    "Consult",
    "HandOff",
    "OpenProject",
    "Panel",
    "Risk",
    "Session",
    "SessionResult",
    "SyncProject",
    "SyncSession",
    "TaskPlan",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "open_project",
    "open_project_sync",
    "read_budget",
    "source_file",
    "tool",
]

__getattr__ = aliases(__name__, {"Outcome": "SessionResult", "Plan": "TaskPlan", "UseTools": "CallTools"})
