"""End of a frame: a handoff, or a verdict bounded by the policy."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.certificates.answer import MODELS_CONDITION
from esper_agents.certificates.policy.verdict_ceiling import apply_ceiling, ceiling
from esper_agents.certificates.redaction import redacted
from esper_agents.certificates.statement import digest_of_packet
from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.evidence import CallOutcome, tests_told
from esper_agents.domain.finding import Finding, Standing
from esper_agents.domain.handoff import Handoff
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.ledger import FrameConcluded, RowKey, RowKind, TaskHandedOff
from esper_agents.domain.permission_rule import PermissionDecision
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import QuestionType
from esper_agents.orchestration.budgets import remaining
from esper_agents.orchestration.build_certificate import assumptions, gaps
from esper_agents.orchestration.frame_start import opening
from esper_agents.orchestration.grounding import covering, unread_places
from esper_agents.orchestration.guardrail import cap_by_guardrail, risks_of
from esper_agents.orchestration.handoff_limits import handoff_sender
from esper_agents.orchestration.model_measurements import counted_evidence
from esper_agents.orchestration.permissions import permission_of
from esper_agents.orchestration.risk_acknowledgement import agreement_question, agreements, assumed_acknowledgement
from esper_agents.orchestration.tool_calls import make_call
from esper_agents.tools.drafts import DRAFT_PATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.agent_action import Conclude, HandOff, SupportedClaim
    from esper_agents.domain.risk_acknowledgement import RiskAcknowledgement
    from esper_agents.domain.verdict import Verdict
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.open_turn import OpenTurn
    from esper_agents.orchestration.session_run import SessionRun

READING = "read-file"
# Lines before and after the cited ones that are read with them.
_AROUND = 10


def _recorded(run: SessionRun, frame: FrameState, claims: Sequence[SupportedClaim]) -> tuple[Finding, ...]:
    """Return the claims of an action as findings, each with the evidence that read its lines."""
    agent, evidence = frame.opened.agent.name, run.history.evidence()
    found = []
    for claim in claims:
        standing, checks, named = claim.standing, claim.checks, claim.evidence
        if standing is not Standing.RECORDED and not any(
            covering(one, claim.claim.location) for one in evidence if one.id in named
        ):
            opened = tuple(one.id for one in evidence if covering(one, claim.claim.location))[-1:]
            named = (*named, *opened)
            if not opened and standing is not Standing.UNVERIFIED:
                standing, checks = Standing.UNVERIFIED, (*checks, "no call of this session read these lines")
        patch = _patch_of(run, claim.patch)
        if patch:
            named = tuple(dict.fromkeys((*named, claim.patch)))
        elif claim.patch:
            checks = (*checks, f"{claim.patch[:60]!r} is not a drafted patch of this session")
        found.append(Finding(new_id(Prefix.FINDING), claim.claim, agent, named, standing, checks, patch))
    return tuple(found)


def _patch_of(run: SessionRun, evidence: str) -> str:
    """Return the patch that a call of the session drafted; empty if it did not, or if the patch is too long to show."""
    made = next((each for each in run.history.evidence() if evidence and each.id == evidence), None)
    if made is None or made.tool != DRAFT_PATCH or made.outcome is not CallOutcome.COMPLETED:
        return ""
    patch = str(made.output.get("patch", ""))
    whole = sha256(patch.encode("utf-8", "surrogateescape")).hexdigest() == made.output.get("sha256")
    return patch if whole else ""


async def read_cited(run: SessionRun, frame: FrameState, turn: OpenTurn, move: Conclude | HandOff) -> None:
    """Read the lines that a model cites and that no call of the session has read, each as a call of its own."""
    if not frame.opened.definition.is_model:
        return
    # Number 0 is that of a question about the action.
    for number, place in enumerate(unread_places(run.history, move.claims), start=1):
        last = max(place.line, place.end_line)
        tool = run.services.tools.get(READING)
        call = ToolCall(
            READING, {"path": place.path, "first_line": max(1, place.line - _AROUND), "last_line": last + _AROUND}
        )
        if permission_of(run, tool, call).action is PermissionDecision.ALLOW:
            await make_call(run, frame, turn, number, call)


async def hand_off(run: SessionRun, frame: FrameState, move: HandOff) -> None:
    """End a frame by a handoff and open the receiver's frame, in one transaction."""
    history = run.history
    found = _recorded(run, frame, move.claims)
    packet = Handoff(
        sender=frame.opened.agent.name,
        receiver=move.agent,
        domain=move.domain,
        reason=move.reason,
        context=move.context,
        findings=tuple(finding.claim.fingerprint for finding in history.findings(more=found)),
        evidence=tuple(each.id for each in history.evidence()),
        open_parts=move.open_parts,
        do_not_repeat=tuple(dict.fromkeys(each.rerun for each in history.evidence())),
        gaps=move.gaps,
        hop=len(history.handoffs) + 1,
        questions=move.questions,
        is_return=handoff_sender(history) == move.agent,
        budget_left=remaining(history, hops=1),
        previous_sha256=digest_of_packet(history.handoffs[-1]) if history.handoffs else "",
    )
    # Redacted before digesting, because the certificate contains the redacted text and its digest.
    clean = redacted(packet, known=run.secrets)
    ended = RowKey(frame.number, 0, 0, RowKind.HANDED_OFF), TaskHandedOff(clean.value, found, clean.count)
    run.note(ended, await opening(run, move.agent, handoff=clean.value), agent=move.agent)


async def conclude(run: SessionRun, frame: FrameState, move: Conclude) -> None:
    """End a frame with a verdict; end a consult with an answer.

    If a risk acknowledgement would change the verdict, the user is asked first, and the session waits.
    """
    found = _recorded(run, frame, move.claims)
    if frame.opened.parent:
        ended = FrameConcluded("", found, None)
    else:
        verdict = _verdict(run, frame, move, found, agreements(frame))
        if verdict.kind is QuestionType.ADVICE:
            agreed = _verdict(run, frame, move, found, assumed_acknowledgement(move))
            if question := agreement_question(frame, move, verdict, agreed):
                key = RowKey(frame.number, len(frame.turns), 0, RowKind.ASKED)
                await run.record((key, question), state=SessionState.WAITING)
                return
        ended = FrameConcluded(new_id(Prefix.CERTIFICATE), found, verdict)
    concluded = (RowKey(frame.number, 0, 0, RowKind.CONCLUDED), ended)
    if frame.opened.parent and not frame.opened.definition.is_model:
        # The caller's next decision follows at once, and a playbook's answer is repeatable after a crash.
        run.note(concluded)
    else:
        await run.record(concluded)


async def fail(run: SessionRun, frame: FrameState, problem: str) -> None:
    """End a consult whose agent failed: the caller receives the reason and continues."""
    said = f"{frame.opened.agent.name} could not answer: {problem}"
    await run.record((RowKey(frame.number, 0, 0, RowKind.CONCLUDED), FrameConcluded("", (), None, said)))


def _verdict(
    run: SessionRun,
    frame: FrameState,
    move: Conclude,
    found: tuple[Finding, ...],
    agreed: tuple[RiskAcknowledgement, ...],
) -> Verdict:
    history, task = run.history, run.history.begun.task
    # In recorded form: the ceiling must be reproducible from the record.
    findings = history.findings(more=found)
    examined = {file.path: file.lines for each in history.evidence() for file in each.examined}
    over = partial(
        ceiling,
        run.services.policy,
        task.kind,
        findings=findings,
        assumptions=assumptions(history),
        gaps=gaps(history),
        # Other files that were read, such as callers, are not subjects of the verdict.
        examined_lines=sum(lines for path, lines in examined.items() if task.is_about(path)),
        risks=risks_of(history, frame, move),
        request=task.request,
        agent=frame.opened.agent.name,
        agreements=agreed,
        paths=task.paths,
        change=task.change,
    )
    allowed = over(evidence=history.evidence())
    counted = counted_evidence(run)
    least = allowed if len(counted) == len(history.evidence()) else over(evidence=counted)
    # The rationale of a model is recorded beside the verdict, as its own words.
    is_model = frame.opened.definition.is_model
    own = "" if is_model else move.rationale.strip()
    conditions = (
        tuple(f"{MODELS_CONDITION}{condition}" for condition in move.conditions) if is_model else move.conditions
    )
    stance, reason = cap_by_guardrail(history, task.kind, move, allowed, least, is_model=is_model)
    return apply_ceiling(
        allowed,
        task.kind,
        wanted=stance,
        reason=reason,
        rationale=own or ("" if allowed.lines else tests_told(history.evidence())),
        conditions=conditions,
        findings=findings,
    )
