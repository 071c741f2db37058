"""Decide whether an agent can act on a task: a playbook or a model, and something to read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.domain.reasoner_names import CLAUDE, PLAYBOOK, REASONER, SECOND_OPINION
from esper_agents.domain.reproduction import REPRODUCE
from esper_agents.domain.request import Material

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.request import ParsedRequest
    from esper_agents.domain.route import Route
    from esper_agents.domain.task import Task
    from esper_agents.orchestration.project_services import ProjectServices

# Tool that answers a stack trace or an error message without files.
EXPLAINS_TRACES = "explain-trace"
_OWN = "esper-agents "
_WHOLE_PROJECT = (".",)
_ABOUT_SCHEDULE = "is the optimizer set up correctly, and the learning rate schedule?"
# A longer request does not fit into a suggested command.
_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class DeclinedTask:
    """Reason why no session starts for a task, and the way to serve it.

    Attributes:
        problem: Missing part, in one line.
        remedy: Command or edit that provides it.
    """

    problem: str
    remedy: str


def can_act(services: ProjectServices, agent: str, reasoner: str = PLAYBOOK) -> bool:
    """Return whether an agent has a playbook, or the reasoner is a language model."""
    return reasoner in {CLAUDE, SECOND_OPINION} or agent in services.playbooks


def declined(services: ProjectServices, task: Task, route: Route, request: ParsedRequest) -> DeclinedTask | None:
    """Return the reason why a task cannot be served with what is available; None if its agent can act.

    Args:
        services: Services of the project.
        task: The task.
        route: Its route; without an agent, the route's own refusal counts unless more can be said.
        request: Content of its request.
    """
    reasoner = task.options.get(REASONER, PLAYBOOK)
    if reasoner == CLAUDE:
        return None
    if words := _search_asked(services, task, route, request):
        problem = f"no agent here trains models: only runs of your training can answer {words!r}"
        return DeclinedTask(problem, _way_without_search(task))
    if route.agent and not can_act(services, route.agent, reasoner):
        return DeclinedTask(
            f"{route.agent} cannot answer this without a language model", _way_to_act(services, task, route)
        )
    # Playbooks of other packages may need no files.
    is_own = bool(route.agent) and services.playbooks[route.agent].provider.startswith(_OWN)
    if not is_own or REPRODUCE in task.options or _has_material(services, task, request):
        return None
    return DeclinedTask(f"{route.agent} has no Python code to read for this request", _way_to_code(services, task))


def command_with_model(task: Task, agent: str = "") -> str:
    """Return the command line that submits a task to an agent with a language model."""
    options = {**task.options, REASONER: CLAUDE}
    return replace(task, request=_shortened(task.request), options=options).command(agent=agent)


def _shortened(request: str) -> str:
    words = " ".join(request[: 4 * _LONGEST_SHOWN].split())
    return words if len(words) <= _LONGEST_SHOWN else words[:_LONGEST_SHOWN].rsplit(" ", 1)[0]


def _has_material(services: ProjectServices, task: Task, request: ParsedRequest) -> bool:
    from esper_agents.review.discover import python_files

    if task.change is not None or (task.paths and task.paths != _WHOLE_PROJECT):
        return True
    if {Material.TRACE, Material.ERROR}.intersection(request.materials) and EXPLAINS_TRACES in services.tools.tools:
        return True
    return bool(task.paths) and bool(python_files(Path(services.project.root), most=1))


def _way_to_act(services: ProjectServices, task: Task, route: Route) -> str:
    command = f"set ANTHROPIC_API_KEY and run: {command_with_model(task, task.agent)}"
    other = next(_others(services, task, route), "")
    return f"{command}; or, without a model: {other}" if other else command


def _others(services: ProjectServices, task: Task, route: Route) -> Iterator[str]:
    """Yield commands that submit the task to agents that fit it and can act, the best first."""
    candidates = services.router.route(task.request, paths=task.paths).candidates if task.agent else route.candidates
    best = max((candidate.score_milli for candidate in candidates), default=0)
    for candidate in candidates:
        is_near = 0 < best <= 2 * candidate.score_milli
        if is_near and candidate.agent != route.agent and can_act(services, candidate.agent):
            yield replace(task, request=_shortened(task.request)).command(agent=candidate.agent)


def _search_asked(services: ProjectServices, task: Task, route: Route, request: ParsedRequest) -> str:
    """Return the words that ask for a search over training runs, unless the agent is of another package."""
    from esper_agents.requests.parsing import search_asked

    playbook = services.playbooks.get(route.agent)
    is_own = playbook is None or playbook.provider.startswith(_OWN)
    return search_asked(task.request, request) if is_own and REPRODUCE not in task.options else ""


def _way_without_search(task: Task) -> str:
    command = replace(task, request=_ABOUT_SCHEDULE).command()
    return f"search with your training (for example Optuna); what the code does to it: {command}"


def _way_to_code(services: ProjectServices, task: Task) -> str:
    from esper_agents.review.discover import python_files

    if python_files(Path(services.project.root), most=1):
        return replace(task, request=_shortened(task.request)).command(".")
    return "start in the folder of the code, or name its files after the request"
