"""Route node: select the agent for a task and record the reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.domain.route import Route, RouteCandidate, RouteOutcome

if TYPE_CHECKING:
    from esper_agents.domain.task import Task
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.orchestration.session_run import SessionRun

_MOST_CODE = 20_000


async def route(run: SessionRun) -> None:
    """Record the selected agent and open the first frame, or record that no agent takes the task, atomically."""
    from esper_agents.domain.ledger import RowKind
    from esper_agents.domain.session import SessionState
    from esper_agents.orchestration.frame_start import opening
    from esper_agents.orchestration.session_run import session_row

    if run.history.is_cancelled:
        return
    chosen = route_of(run.services, run.history.begun.task)
    match chosen.outcome:
        case RouteOutcome.REFUSED:
            await run.record((session_row(RowKind.REFUSED), chosen), state=SessionState.REFUSED)
        case RouteOutcome.ASSIGNED | RouteOutcome.TRIAGE:
            first = await opening(run, chosen.agent)
            run.note((session_row(RowKind.ROUTED), chosen), first, agent=chosen.agent)


def route_of(services: ProjectServices, task: Task) -> Route:
    """Return the route of a task.

    Raises:
        NotFoundError: The user named an unknown agent.
    """
    if task.agent:
        name = services.agents.get(task.agent).name
        because = f"you asked for {name}"
        return Route(RouteOutcome.ASSIGNED, name, (RouteCandidate(name, 1000, (because,), ()),), f"because: {because}")
    return services.router.route(task.request, code=_code(services, task), paths=task.paths)


def _code(services: ProjectServices, task: Task) -> str:
    """Return the beginning of the attached code; the names of folders are sufficient."""
    root = Path(services.project.root)
    texts = [
        (root / path).read_bytes()[:_MOST_CODE].decode("utf-8", "replace")
        for path in task.paths
        if (root / path).is_file()
    ]
    return "\n".join(texts)[:_MOST_CODE]
