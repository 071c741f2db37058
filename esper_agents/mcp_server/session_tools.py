"""Tools for sessions: submit a task or a claim, follow it, answer questions, cancel."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from esper_agents.domain.session import SessionState
from esper_agents.errors import UsageError
from esper_agents.mcp_server.calls import READS, RUNS, CallActivity, ToolCallContext, answered, project_of, working
from esper_agents.mcp_server.certificate_rows import answer_parts
from esper_agents.mcp_server.claims import claim_answer, claim_request, refuse_unknown_names
from esper_agents.mcp_server.paging import page_of
from esper_agents.mcp_server.results import (
    ClaimAnswer,
    QuestionRow,
    QuestionsAnswer,
    SessionAnswer,
    clipped,
)
from esper_agents.mcp_server.review_tools import Cursor, Limit
from esper_agents.mcp_server.suggested_calls import SuggestedCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.api import OpenProject
    from esper_agents.domain.session import Event, SessionSummary
    from esper_agents.domain.task import Task
    from esper_agents.mcp_server.server_project import ServerProject

SessionId = Annotated[str, Field(description="`ses_` identifier, a unique part of it, or `latest`")]
Wait = Annotated[
    int, Field(description="Seconds to wait for the result; then call get_session with the session", ge=0, le=600)
]
_LOOK_S = 0.2
_MOST_STEPS = 5
_LONGEST_STEP = 200


class ClientAnswer(BaseModel):
    """Answer that a client gives to a question of a session."""

    answer: str = Field(description="The answer; approve or deny for an approval")


async def _submitted(context: ToolCallContext, task: Task, wait_s: int) -> str:
    """Start the session of a task, wait for it, and return its identifier; on cancellation it is stopped."""
    project = project_of(context)
    project.refuse_if_busy()
    opened = await project.opened()
    if project.allowed:
        task = opened.tasks.restrict(task, allow=project.allowed)
    session = await opened.tasks.submit(task)
    project.start(session)
    try:
        await _followed(context, opened, session.id, wait_s)
    except asyncio.CancelledError:
        project.stop(session.id)
        raise
    return session.id


async def _followed(context: ToolCallContext, opened: OpenProject, session_id: str, wait_s: int) -> None:
    """Wait until a session ends or needs an answer, and report its activity."""
    project = project_of(context)
    activity = CallActivity("waiting for the session")

    async def look() -> None:
        seen = 0
        while _is_running(project, found := await opened.sessions.get(session_id)):
            for event in (await opened.sessions.timeline(found.id))[seen:]:
                seen += 1
                activity.text = _step(event) or activity.text
            await asyncio.sleep(_LOOK_S)

    if wait_s:
        await working(context, activity, _within(look(), wait_s))


async def _state(project: ServerProject, opened: OpenProject, session_id: str) -> SessionAnswer:
    return await _session_answer(project, opened, await opened.sessions.get(session_id))


async def submit_task(
    context: ToolCallContext,
    request: Annotated[
        str, Field(description="The question or task in plain language, with any stack trace; empty with `rerun`")
    ] = "",
    paths: Annotated[list[str], Field(description="Files and folders it is about")] = [],
    diff: Annotated[
        str, Field(description="Change it is about: a revision, A..B, `--staged`, or `branch` for this branch")
    ] = "",
    agent: Annotated[str, Field(description="Agent; selected from the request if empty")] = "",
    rerun: Annotated[
        str, Field(description="Certificate whose request is repeated on the current code, without other arguments")
    ] = "",
    wait_s: Wait = 45,
) -> Annotated[CallToolResult, SessionAnswer]:
    """Submit a task to a specialist agent; the result is a signed certificate.

    Call it for a judgement that others should be able to check: is this code right, may this branch be merged, why
    does it crash, why is it slow. It reads and measures; it edits nothing. Tests of the project run only if the
    user started the server with `--allow run-tests`.
    """
    project = project_of(context)
    opened = await project.opened()
    if bool(rerun) == bool(request.strip()) or (rerun and (paths or diff or agent)):
        raise UsageError("submit_task takes either a request or `rerun`", remedy="leave out one of them")
    if rerun:
        task = await opened.tasks.repeat(rerun)
    else:
        named = [project.inside(path) for path in paths] or _everything(project, opened, request, diff)
        task = opened.tasks.create(
            request, named, agent=agent, diff="" if diff == "branch" else diff, is_branch=diff == "branch"
        )
    return answered(await _state(project, opened, await _submitted(context, task, wait_s)))


async def submit_claim(
    context: ToolCallContext,
    kind: Annotated[Literal["speedup", "leak", "nan"], Field(description="Kind of claim")],
    target: Annotated[str, Field(description="`FILE.py:NAME` that is faster, leaks or produces NaN")],
    baseline: Annotated[str, Field(description="For a speedup: `FILE.py:NAME` of the slower code")] = "",
    ratio: Annotated[float | None, Field(description="For a speedup: claimed ratio, such as 1.4", gt=1.0)] = None,
    inputs: Annotated[
        list[str],
        Field(
            description="Arguments of the calls, in order or as NAME=VALUE: `randn(32,128)`, `512`, `eps=1e-6`; found"
            " if empty"
        ),
    ] = [],
    inputs_from: Annotated[str, Field(description="`FILE.py:FUNCTION` that returns the inputs")] = "",
    wait_s: Wait = 120,
) -> Annotated[CallToolResult, ClaimAnswer]:
    """Hand in a claim of yours; it is measured, and certified as confirmed, refuted or not decided.

    Call it before you report to the user that code is faster, that a loop leaks, or that it produces NaN.
    """
    project = project_of(context)
    named = project.target(inputs_from) if inputs_from else ""
    other = project.target(baseline) if baseline else ""
    claim = claim_request(kind, project.target(target), other, ratio, inputs=inputs, inputs_from=named)
    refuse_unknown_names(project.root, filter(None, (claim.target, claim.baseline, named)))
    opened = await project.opened()
    paths = [project.inside(path) for path in claim.paths]
    task = opened.tasks.create(claim.request, paths, agent=claim.agent)
    session_id = await _submitted(context, task, wait_s)
    return answered(await claim_answer(opened, claim, await _state(project, opened, session_id)))


async def get_session(
    context: ToolCallContext, session: SessionId = "latest", wait_s: Wait = 45
) -> Annotated[CallToolResult, SessionAnswer]:
    """Return the state of a session, and its result once it has ended; waits for it, and reports progress."""
    project = project_of(context)
    opened = await project.opened()
    found = await opened.sessions.get(session)
    await _followed(context, opened, found.id, wait_s)
    return answered(await _state(project, opened, found.id))


async def cancel_session(context: ToolCallContext, session: SessionId) -> Annotated[CallToolResult, SessionAnswer]:
    """Cancel a session without a verdict."""
    project = project_of(context)
    opened = await project.opened()
    found = await opened.sessions.get(session)
    project.stop(found.id)
    if (task := project.running(found.id)) is not None:
        await asyncio.wait([task])
    ended = await opened.sessions.get(found.id)
    if ended.state in {SessionState.OPEN, SessionState.WAITING}:
        await opened.sessions.cancel(found.id)
    return answered(await _state(project, opened, found.id))


async def pending_questions(
    context: ToolCallContext, limit: Limit = 10, cursor: Cursor = ""
) -> Annotated[CallToolResult, QuestionsAnswer]:
    """List the questions of sessions that wait for an answer, and who can answer them."""
    project = project_of(context)
    opened = await project.opened()
    rows = [_question_row(opened, each.session, each.agent, each.question) for each in await opened.approvals.list()]
    page = page_of(rows, "questions", cursor=cursor, limit=limit)
    return answered(QuestionsAnswer(page.rows, len(rows), page.next_cursor))


async def ask_client(question: str, context: ToolCallContext, answer: str = "") -> Any:
    """Return what to ask the client's user, or the answer if nothing needs to be asked."""
    project = project_of(context)
    opened = await project.opened()
    pending = [each.question for each in await opened.approvals.list() if each.question.id.endswith(question)]
    can_ask = context.client_capabilities is not None and context.client_capabilities.elicitation is not None
    # A choice between options that approves nothing, such as a revision, is an answer like any other.
    is_decision = len(pending) == 1 and bool(pending[0].options) and bool(pending[0].arguments_sha256)
    if len(pending) != 1 or (answer and not is_decision) or not can_ask or opened.approvals.needs_person(pending[0]):
        return ClientAnswer(answer="" if is_decision else answer)
    choice = f" ({' or '.join(pending[0].options)})" if pending[0].options else ""
    return Elicit(f"{clipped(_shown(pending[0]), 2_000)}{choice}", ClientAnswer)


async def answer_question(
    context: ToolCallContext,
    question: Annotated[str, Field(description="`qst_` identifier, as pending_questions lists it", min_length=6)],
    given: Annotated[ElicitationResult[ClientAnswer], Resolve(ask_client)],
    answer: Annotated[
        str, Field(description="Answer to a request for information; a decision is asked of the user instead")
    ] = "",
    wait_s: Wait = 45,
) -> Annotated[CallToolResult, SessionAnswer]:
    """Answer a question of a session, which then continues; recorded as an answer of this client.

    A decision is put to the user by the client if it can ask. It cannot approve a risk above low: for that the
    result names the command that the user runs in a terminal.
    """
    del answer
    project = project_of(context)
    opened = await project.opened()
    pending = [each for each in await opened.approvals.list() if each.question.id.endswith(question)]
    if len(pending) != 1:
        raise UsageError(f"no pending question {question!r}", remedy="list them: pending_questions")
    asked = pending[0].question
    if not isinstance(given, AcceptedElicitation):
        raise UsageError("the user did not answer", remedy=_command(asked.id, asked.options))
    if not given.data.answer:
        row = _question_row(opened, pending[0].session, pending[0].agent, asked)
        reason = "needs a person" if row.needs_person else "needs an answer"
        raise UsageError(f"question {asked.id} {reason}: {clipped(asked.text)}", remedy=row.command)
    project.refuse_if_busy()
    session = await opened.approvals.answer(asked.id, given.data.answer, client=_client(context))
    project.start(session)
    await _followed(context, opened, session.id, wait_s)
    return answered(await _state(project, opened, session.id))


def _everything(project: ServerProject, opened: OpenProject, request: str, diff: str) -> list[Any]:
    """Return the whole project for a request that names no files; the server's folder does not matter."""
    named = opened.tasks.parse(request).paths
    return [] if diff or named else [project.root]


async def _within(work: Any, seconds: int) -> None:
    """Run work for at most some seconds."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return


def _is_running(project: ServerProject, found: SessionSummary) -> bool:
    task = project.running(found.id)
    return found.state is SessionState.OPEN and (found.is_owned or found.is_queued or bool(task and not task.done()))


async def _session_answer(project: ServerProject, opened: OpenProject, found: SessionSummary) -> SessionAnswer:
    is_running = _is_running(project, found)
    state = "running" if is_running else "interrupted" if found.state is SessionState.OPEN else str(found.state)
    steps = [text for event in await opened.sessions.timeline(found.id) if (text := _step(event))]
    shown = tuple(clipped(step, _LONGEST_STEP) for step in steps[-_MOST_STEPS:])
    if found.certificate:
        parts = answer_parts(await opened.certificates.answer(found.certificate), project)
        return SessionAnswer(session=found.id, state=state, agent=found.agent, steps=(), **parts)
    result = await opened.sessions.result(found.id)
    questions = tuple(_question_row(opened, found.id, found.agent, question) for question in result.questions)
    following, command = None, ""
    if is_running:
        following = SuggestedCall("get_session", {"session": found.id})
    elif questions and questions[0].needs_person:
        command = questions[0].command
    elif questions:
        following = SuggestedCall("answer_question", {"question": questions[0].id}, "add the answer")
    elif state == "interrupted":
        command = f"esper resume {found.id}"
    answer = "no agent is responsible for the request" if found.state is SessionState.REFUSED else ""
    return SessionAnswer(
        session=found.id,
        state=state,
        agent=found.agent,
        answer=answer,
        questions=questions,
        next=following,
        next_command=command,
        steps=shown,
    )


def _question_row(opened: OpenProject, session: str, agent: str, question: Any) -> QuestionRow:
    return QuestionRow(
        id=question.id,
        session=session,
        agent=agent,
        text=clipped(_shown(question)),
        options=tuple(question.options),
        needs_person=opened.approvals.needs_person(question),
        command=_command(question.id, question.options),
    )


def _shown(question: Any) -> str:
    """Return the text of a question with its diff or command line."""
    return "\n".join(filter(None, (question.text, question.preview)))


def _command(question_id: str, options: Sequence[str]) -> str:
    is_decision = tuple(options) == ("approve", "deny")
    return (
        f"in a terminal: esper {'approve' if is_decision else 'answer'} {question_id}{'' if is_decision else ' TEXT'}"
    )


def _client(context: ToolCallContext) -> str:
    """Return the name and the version of the client, as it states them."""
    stated = context.session.client_params
    return f"{stated.client_info.name} {stated.client_info.version}" if stated else "unknown"


def _step(event: Event) -> str:
    """Return an activity of a session in words; empty for events that only mark a start."""
    body = event.body
    match event.kind:
        case "routed":
            return f"route: {body['agent'] or 'no agent'}"
        case "calling":
            return f"{body['tool']} is running"
        case "called":
            return f"{body['evidence']['tool']}: {body['evidence']['summary']}"
        case "asked":
            return f"question: {body['text']}"
        case "handed-off":
            return f"handed to {body['handoff']['receiver']}"
        case _:
            return ""


# Tools of this module, with what they may do.
TOOLS = (
    (submit_task, RUNS),
    (submit_claim, RUNS),
    (answer_question, RUNS),
    (cancel_session, RUNS),
    (get_session, READS),
    (pending_questions, READS),
)
