"""Route node: select the agent for a task and record the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.domain.reasoner_names import CLAUDE, REASONER
from esper_agents.domain.route import Route, RouteCandidate, RouteOutcome

if TYPE_CHECKING:
    from esper_agents.domain.task import Task
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.orchestration.session_run import SessionRun

_MOST_CODE = 20_000
_REVIEWER = "pytorch-code-reviewer"
_COMPARING = "pytorch-ultimate-performance-engineer"
_TESTING = "test-engineer"
_MOST_COMPARED_FILES = 200


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
    """Return the route of a task; without a model, agents with a playbook are preferred to those that fit equally.

    Raises:
        NotFoundError: The user named an unknown agent.
    """
    if task.agent:
        name = services.agents.get(task.agent).name
        because = f"you asked for {name}"
        return Route(RouteOutcome.ASSIGNED, name, (RouteCandidate(name, 1000, (because,), ()),), f"because: {because}")
    able = None if task.options.get(REASONER) == CLAUDE else services.playbooks.keys()
    route = services.router.route(task.request, code=_code(services, task), paths=task.paths, able=able)
    for agent, reason_of in (
        ((_TESTING, _test_run), (_COMPARING, _alternatives), (_TESTING, _tests)) if able is not None else ()
    ):
        is_able = agent in services.playbooks and agent in services.agents.agents and agent != route.agent
        is_able = is_able and (bool(route.agent) or reason_of is _test_run)
        if is_able and (reason := reason_of(services, task)):
            return replace(route, outcome=RouteOutcome.ASSIGNED, agent=agent, explanation=f"because: {reason}")
    is_unserved = not route.agent or (able is not None and route.agent not in able)
    if is_unserved and (reason := _trace(services, task) or _usage(services, task) or _question(services, task)):
        return replace(route, outcome=RouteOutcome.ASSIGNED, agent=_REVIEWER, explanation=f"because: {reason}")
    if able is None or not route.agent or route.agent in able or not _has_rules(services, task):
        return route
    explanation = f"because: rules of the review concern it; {route.agent} fits better but needs a model"
    return replace(route, outcome=RouteOutcome.ASSIGNED, agent=_REVIEWER, explanation=explanation)


def _trace(services: ProjectServices, task: Task) -> str:
    """Return the reason to explain a stack trace from the code; empty if the request has none."""
    from esper_agents.domain.request import Material
    from esper_agents.requests.parsing import parse_request

    can_review = _REVIEWER in services.playbooks and _REVIEWER in services.agents.agents
    has_trace = can_review and Material.TRACE in parse_request(task.request).materials
    return "the code explains the stack trace" if has_trace else ""


def _usage(services: ProjectServices, task: Task) -> str:
    """Return the reason to answer a direct question about an API from the code; empty if it is none, or has no code."""
    from esper_agents.requests.parsing import parse_request

    can_review = _REVIEWER in services.playbooks and _REVIEWER in services.agents.agents
    usages = parse_request(task.request).usages if can_review and task.paths and task.change is None else ()
    return f"lines of the code answer the question about `{usages[0].words}`" if usages else ""


def _question(services: ProjectServices, task: Task) -> str:
    """Return the reason to answer a question about what the code does from its lines; empty if it is none."""
    from esper_agents.requests.parsing import parse_request

    can_review = _REVIEWER in services.playbooks and _REVIEWER in services.agents.agents
    if not can_review or not task.paths or task.change is not None:
        return ""
    grounded = parse_request(task.request, Path(services.project.root)).grounded
    words = next((each.words for each in grounded if each.path), "")
    return f"lines of the code answer the question about `{words}`" if words else ""


def _has_rules(services: ProjectServices, task: Task) -> bool:
    """Return whether the reviewer has code to read and rules about a topic of the request."""
    from esper_agents.requests.parsing import topics_of

    can_review = _REVIEWER in services.playbooks and _REVIEWER in services.agents.agents
    return can_review and bool(task.paths) and bool(topics_of(task.request))


def _alternatives(services: ProjectServices, task: Task) -> str:
    """Return the reason to compare two implementations of one function by a run; empty if none is meant."""
    from esper_agents.domain.request import Wish
    from esper_agents.errors import EsperError
    from esper_agents.reasoning.alternatives import AlternativePair, pairs_about
    from esper_agents.requests.parsing import NO_WISH, parse_request
    from esper_agents.review.discover import discover
    from esper_agents.review.fact_query import InspectionSubject
    from esper_agents.review.inspection import inspect

    root = Path(services.project.root)
    spoken = parse_request(task.request)
    may_choose = spoken.wish in {Wish.COMPARE, Wish.PLAN} or spoken.wish_because == NO_WISH
    if not task.paths or task.change is not None or not may_choose:
        return ""
    request = parse_request(task.request, root)
    if request.wish is not Wish.COMPARE:
        return ""
    places = [root / path for path in task.paths]
    symbols = tuple(f"{symbol.path}:{symbol.name}" for symbol in request.symbols)
    subject = InspectionSubject(("alternatives",), Wish.COMPARE, symbols)
    try:
        if len(discover(root, places)) > _MOST_COMPARED_FILES:
            return ""
        # The files in question alone: routing is no review.
        found = inspect(root, places, subject, most_bytes=0).results[0].facts
    except EsperError:
        return ""
    pairs = [AlternativePair(*each.definitions) for each in found if len(each.definitions) > 1]
    about = pairs_about(request, task.request, task.paths, pairs)
    reason = "are two implementations, which a run can compare"
    return f"`{about[0].baseline}` and `{about[0].candidate}` {reason}" if about else ""


def _test_run(_services: ProjectServices, task: Task) -> str:
    """Return the reason to run tests; empty if the request asks for anything else."""
    from esper_agents.requests.run_requests import asks_to_run_tests

    return "the request asks to run tests" if task.change is None and asks_to_run_tests(task.request) else ""


def _tests(_services: ProjectServices, task: Task) -> str:
    """Return the reason to draft a test; empty if the request asks for none."""
    from esper_agents.domain.request import Material, Wish
    from esper_agents.domain.status import QuestionType
    from esper_agents.requests.parsing import parse_request

    request = parse_request(task.request)
    is_asked = task.kind is QuestionType.ADVICE and request.wish in {Wish.WRITE, Wish.PLAN, Wish.JUDGE}
    if not is_asked or task.change is not None or Material.TRACE in request.materials:
        return ""
    words = next((topic.words for topic in request.topics if topic.name == "tests"), ())
    return f"'{words[0]}' asks for a test" if words else ""


def _code(services: ProjectServices, task: Task) -> str:
    """Return the beginning of the attached code; the names of folders are sufficient."""
    root = Path(services.project.root)
    texts = [
        (root / path).read_bytes()[:_MOST_CODE].decode("utf-8", "replace")
        for path in task.paths
        if (root / path).is_file()
    ]
    return "\n".join(texts)[:_MOST_CODE]
