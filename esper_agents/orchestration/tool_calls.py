"""Execute one tool call: request, start, run and record it, each exactly once."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.certificates.json_conversion import to_json
from esper_agents.certificates.redaction import redacted, secrets_of
from esper_agents.certificates.statement import digest_of_value
from esper_agents.domain.agent_action import ToolReport
from esper_agents.domain.codec import checked
from esper_agents.domain.evidence import CallOutcome, Evidence
from esper_agents.domain.finding import Finding
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.ledger import CallStarted, RowKey, RowKind
from esper_agents.domain.permission_rule import PermissionDecision
from esper_agents.errors import EsperError, EvidenceError
from esper_agents.memory.agent_files import OwnFiles
from esper_agents.orchestration.approval_scopes import is_covered
from esper_agents.orchestration.model_measurements import are_inputs_denied, inputs_question
from esper_agents.orchestration.open_turn import PendingCall
from esper_agents.orchestration.permissions import approval_question, is_approved, permission_of
from esper_agents.orchestration.session_run import StoppedError
from esper_agents.storage.store import timestamp
from esper_agents.tools.call_previews import CallPreviews
from esper_agents.tools.certified_tree import renamed
from esper_agents.tools.tool import THIS_SESSION, ToolResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.domain.agent_action import ToolCall
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.ledger import UserQuestion
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.open_turn import OpenTurn
    from esper_agents.orchestration.permission_rules import Permission
    from esper_agents.orchestration.session_run import SessionRun
    from esper_agents.tools.tool import Tool, ToolContext

_MOST_CONCURRENT = 8


async def make_call(run: SessionRun, frame: FrameState, turn: OpenTurn, number: int, call: ToolCall) -> None:
    """Run one call and record its result; nothing happens while it waits for an answer."""
    state = turn.call(number)
    tool = run.services.tools.get(call.tool)
    if state.report is not None or state.is_waiting:
        return
    if state.calling is not None and not tool.may_repeat(call.arguments):
        report = interrupted(tool, call, state.calling.evidence)
    else:
        allowed = permission_of(run, tool, call)
        if why := _why_not(run, state, tool, call, allowed):
            evidence = state.calling.evidence if state.calling else new_id(Prefix.EVIDENCE)
            report = _not_run(tool, call, evidence, CallOutcome.DENIED, why)
        else:
            begun = await _begun(run, frame, turn, number, call)
            if begun is None:
                return
            report = await _run_tool(run, frame, tool, call, begun.evidence)
    report = replace(report, evidence=_of_session(report.evidence, run.session))
    called = (RowKey(frame.number, turn.step, number, RowKind.CALLED), report)
    if tool.is_repeatable:
        run.note(called)
    else:
        # Recorded now: the next decision may take time, and this call cannot be run again.
        await run.record(called)


def turn_questions(
    run: SessionRun, frame: FrameState, turn: OpenTurn, calls: Sequence[ToolCall]
) -> tuple[tuple[RowKey, UserQuestion], ...]:
    """Return the questions about all calls of a turn that need approval and were not asked about.

    They are asked together, before the first of these calls runs.
    """
    previews = CallPreviews(run.context)
    asked: dict[RowKey, UserQuestion] = {}
    for number, call in enumerate(calls):
        state = turn.calls.get(number) or PendingCall()
        if state.report is not None:
            continue
        tool = run.services.tools.get(call.tool)
        preview = previews.preview(call)
        is_lost = state.calling is not None and not tool.may_repeat(call.arguments)
        if state.question is not None or is_lost:
            continue
        allowed = permission_of(run, tool, call)
        question = None
        if allowed.action is PermissionDecision.ASK and not is_covered(run, tool, call):
            clean = redacted(preview, known=run.secrets).value
            question = approval_question(tool, call, allowed.because, clean)
        elif allowed.action is PermissionDecision.ALLOW and state.calling is None:
            agreed = inputs_question(run, frame, tool, call, allowed)
            # The same inputs are asked about once.
            question = None if agreed and agreed.text in {each.text for each in asked.values()} else agreed
        if question is not None:
            asked[RowKey(frame.number, turn.step, number, RowKind.ASKED)] = question
    return tuple(asked.items())


def concurrent_calls(run: SessionRun, turn: OpenTurn, calls: Sequence[ToolCall], *, first: int) -> tuple[int, ...]:
    """Return the numbers of consecutive calls that run at the same time: new ones that only read; at least two."""
    found: list[int] = []
    for number in range(first, len(calls)):
        tool = run.services.tools.get(calls[number].tool)
        is_new = number not in turn.calls
        is_allowed = permission_of(run, tool, calls[number]).action is PermissionDecision.ALLOW
        if not (tool.is_concurrent and tool.is_repeatable and is_new and is_allowed):
            break
        found.append(number)
    return tuple(found) if len(found) > 1 else ()


async def make_concurrent_calls(
    run: SessionRun, frame: FrameState, turn: OpenTurn, calls: Mapping[int, ToolCall]
) -> None:
    """Run calls that only read at the same time; their starts are recorded at once, their results in order."""
    keys = {number: RowKey(frame.number, turn.step, number, RowKind.CALLING) for number in calls}
    starts = {
        number: CallStarted(new_id(Prefix.EVIDENCE), call.tool, digest_of_value(call.arguments))
        for number, call in calls.items()
    }
    if not await run.begin(*((keys[number], starts[number]) for number in calls)):
        return
    room = asyncio.Semaphore(_MOST_CONCURRENT)

    async def result_of(number: int, call: ToolCall) -> ToolReport:
        async with room:
            tool = run.services.tools.get(call.tool)
            return await _run_tool(run, frame, tool, call, starts[number].evidence)

    reports = await asyncio.gather(*(result_of(number, call) for number, call in calls.items()))
    for number, report in zip(calls, reports, strict=True):
        named = replace(report, evidence=_of_session(report.evidence, run.session))
        run.note((RowKey(frame.number, turn.step, number, RowKind.CALLED), named))


def interrupted(tool: Tool, call: ToolCall, evidence_id: str) -> ToolReport:
    """Return the record of a call that started, has no result, and is not run again."""
    why = "the process died while this ran; whether it took effect is not known, and it is not run again"
    return _not_run(tool, call, evidence_id, CallOutcome.INTERRUPTED, why)


def _why_not(run: SessionRun, state: PendingCall, tool: Tool, call: ToolCall, allowed: Permission) -> str:
    """Return the reason why a call may not run, or an empty string.

    A call that was asked about needs its answer, even if no rule requires approval any more.
    """
    if allowed.action is PermissionDecision.DENY:
        return f"not allowed, because of {allowed.because}"
    if state.question is not None:
        return "" if is_approved(state, call) else "a person denied this call"
    if are_inputs_denied(run, call):
        return "a person denied this measurement"
    is_free = allowed.action is PermissionDecision.ALLOW or is_covered(run, tool, call)
    return "" if is_free else "a person denied this call"


async def _begun(run: SessionRun, frame: FrameState, turn: OpenTurn, number: int, call: ToolCall) -> CallStarted | None:
    """Return the start event of a call that may run now; None if the session is to be cancelled instead."""
    state = turn.call(number)
    if state.calling is None:
        begun = CallStarted(new_id(Prefix.EVIDENCE), call.tool, digest_of_value(call.arguments))
        await run.begin((RowKey(frame.number, turn.step, number, RowKind.CALLING), begun))
    return state.calling


async def _run_tool(run: SessionRun, frame: FrameState, tool: Tool, call: ToolCall, evidence_id: str) -> ToolReport:
    began_at, began = timestamp(time.time_ns() // 1_000_000), time.perf_counter_ns()
    outcome = CallOutcome.COMPLETED
    try:
        own = OwnFiles(run.services.store, run.services.project.key, frame.opened.agent.name, run.session)
        task = run.history.begun.task
        context = replace(
            run.context,
            memory=own,
            named=task.paths,
            change=task.change,
            evidence=lambda name: next((each for each in run.history.evidence() if each.id == name), None),
        )
        result = _in_project(context, checked(ToolResult, await _result(run, tool, context, call.arguments)))
        _refuse_unread(run, tool, result)
        _refuse_without_rerun(tool, call)
    except StoppedError:
        raise
    except EsperError as error:
        outcome, result = CallOutcome.FAILED, _in_project(run.context, _failure(error.problem, error.remedy))
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is evidence that it failed
        outcome, result = CallOutcome.FAILED, _failure(f"{type(error).__name__}: {error}", "report this to its author")
    clean = redacted(result, known=run.secrets)
    result = clean.value
    ended = _Ended(evidence_id, outcome, result, began_at, time.perf_counter_ns() - began)
    evidence = _evidence(tool, call, ended, run.secrets)
    evidence = replace(evidence, redactions=evidence.redactions + clean.count)
    agent = frame.opened.agent.name
    found = tuple(Finding(new_id(Prefix.FINDING), claim, agent, (evidence_id,)) for claim in result.claims)
    return ToolReport(evidence, found)


def _in_project(context: ToolContext, result: ToolResult) -> ToolResult:
    """Return a result that names the project's folder instead of a private copy of it."""
    if context.checkout is None:
        return result
    scratch, root = str(context.root), str(context.checkout)
    output = renamed(to_json(result.output), scratch, root)
    return replace(result, summary=result.summary.replace(scratch, root), output=output)


async def _result(run: SessionRun, tool: Tool, context: ToolContext, arguments: JsonObject) -> ToolResult:
    """Return the result of a tool.

    Raises:
        StoppedError: A stop was requested, which ended the call.
    """
    calling = asyncio.ensure_future(tool.run(context, arguments))
    stopping = asyncio.ensure_future(run.stopping())
    try:
        await asyncio.wait({calling, stopping} if tool.is_stoppable else {calling}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not calling.done():
            # It ends its processes before it is done.
            calling.cancel()
            await asyncio.wait({calling})
    if calling.cancelled():
        raise StoppedError(run.session)
    return calling.result()


def _refuse_unread(run: SessionRun, tool: Tool, result: ToolResult) -> None:
    """Raise an error if a tool reports a finding in a file that no evidence lists as read."""
    if not result.claims:
        return
    read = {file.path for each in run.history.evidence() for file in each.examined}
    read |= {file.path for file in result.examined}
    unread = sorted({claim.location.path for claim in result.claims} - read)
    if unread:
        problem = f"tool {tool.name!r} reports something in {unread[0]!r} and does not list that file in `examined`"
        remedy = f"return examined=(source_file({unread[0]!r}, data),) with its ToolResult; see CONTRIBUTING.md"
        raise EvidenceError(problem, remedy=remedy)


def _refuse_without_rerun(tool: Tool, call: ToolCall) -> None:
    if _rerun(tool, call.arguments) is None:
        problem = f"`rerun` of tool {tool.name!r} makes no command of its arguments"
        raise EvidenceError(problem, remedy="have it return a command line; arguments with defaults may be missing")


def _rerun(tool: Tool, arguments: JsonObject) -> str | None:
    """Return the command that repeats a call; None if the tool raises an error."""
    try:
        return checked(str, tool.rerun(arguments))
    except Exception:  # noqa: BLE001 - a tool of another package may raise anything
        return None


def _of_session(evidence: Evidence, session: str) -> Evidence:
    """Return evidence whose command names the session, if its tool asked for that."""
    if not evidence.rerun.endswith(THIS_SESSION):
        return evidence
    return replace(evidence, rerun=f"{evidence.rerun.removesuffix(THIS_SESSION)}{session}")


def _failure(problem: str, remedy: str) -> ToolResult:
    return ToolResult(problem, {"problem": problem, "remedy": remedy})


def _not_run(tool: Tool, call: ToolCall, evidence_id: str, outcome: CallOutcome, why: str) -> ToolReport:
    now = timestamp(time.time_ns() // 1_000_000)
    ended = _Ended(evidence_id, outcome, ToolResult(why, {}), now, 0)
    return ToolReport(_evidence(tool, call, ended, secrets_of(os.environ)), ())


@dataclass(frozen=True, slots=True)
class _Ended:
    evidence: str
    outcome: CallOutcome
    result: ToolResult
    began_at: str
    took_ns: int


def _evidence(tool: Tool, call: ToolCall, ended: _Ended, known: tuple[str, ...]) -> Evidence:
    given = redacted(call.arguments, known=known)
    return Evidence(
        id=ended.evidence,
        tool=tool.name,
        provider=tool.provider,
        risk=tool.risk,
        is_repeatable=tool.is_repeatable,
        arguments=given.value,
        arguments_sha256=digest_of_value(given.value),
        outcome=ended.outcome,
        summary=ended.result.summary,
        output=ended.result.output,
        output_sha256=digest_of_value(ended.result.output),
        examined=ended.result.examined,
        artifacts=ended.result.artifacts,
        started_at=ended.began_at,
        duration_ns=ended.took_ns,
        rerun=_rerun(tool, given.value) or "",
        refutes=ended.result.refutes,
        redactions=given.count,
    )
