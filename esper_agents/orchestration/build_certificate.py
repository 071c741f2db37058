"""Build the certificate as a pure function of the ledger."""

from __future__ import annotations

import re
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.certificates.redaction import redacted
from esper_agents.certificates.statement import normal
from esper_agents.certificates.suggested_command import suggested_command
from esper_agents.certificates.views.file_names import component_of, slugify
from esper_agents.domain.agent_action import Conclude, HandOff
from esper_agents.domain.assumption import AssumptionState, InformationGap
from esper_agents.domain.certificate import Certificate, ModelTurn
from esper_agents.domain.evidence import CallOutcome, is_measurement, is_run_of_model, is_test_run
from esper_agents.domain.finding import Severity
from esper_agents.domain.reproduction import REPRODUCE
from esper_agents.domain.status import QuestionType
from esper_agents.memory.earlier import earlier_findings
from esper_agents.memory.lessons import lessons, notes_digest
from esper_agents.orchestration.availability import command_with_model
from esper_agents.orchestration.guardrail import risks_of
from esper_agents.orchestration.risk_acknowledgement import agreements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.agent import Agent
    from esper_agents.domain.assumption import Assumption
    from esper_agents.domain.certificate import Definition
    from esper_agents.domain.evidence import SourceFile
    from esper_agents.domain.handoff import ConsultAnswer
    from esper_agents.domain.session import Submission
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.session_projection import SessionProjection

_ORDER = tuple(Severity)
_TAKEN_FOR_GRANTED = "it was taken for granted, and no evidence confirmed or refuted it"
# Shortest prefix that identifies a session.
_SHORT = 12
# In a command that users must complete.
_PLACEHOLDER = re.compile(r"\b(?:FILE|FUNCTION)\b")


def certificate(history: SessionProjection, frame: FrameState) -> Certificate:
    """Return the certificate of a concluded session.

    Args:
        history: Ledger projection of the session.
        frame: Frame that concluded.
    """
    begun, concluded, final = history.begun, frame.concluded, frame.turns[-1].moved
    if concluded is None or concluded.verdict is None or final is None or not isinstance(final.move, Conclude):
        raise AssertionError("a certificate without a conclusion")
    if history.route is None:
        raise AssertionError("a conclusion without a route")
    written = Certificate(
        id=concluded.certificate,
        issued_at=frame.concluded_at,
        session=history.session,
        project=begun.project,
        agent=frame.opened.agent.name,
        descriptor=_descriptor(frame.opened.agent, begun.task.kind),
        component=_component(begun),
        task=begun.task,
        route=history.route,
        handoffs=history.handoffs,
        consults=_consults(history),
        definitions=_definitions(history),
        verdict=concluded.verdict,
        summary=final.move.summary,
        findings=tuple(sorted(history.findings(), key=lambda each: _ORDER.index(each.claim.severity))),
        evidence=history.evidence(),
        examined=_examined(history),
        revision=begun.revision,
        assumptions=assumptions(history),
        gaps=gaps(history),
        caveats=final.move.caveats,
        next_steps=final.move.next_steps,
        risks=risks_of(history, frame, final.move),
        environment=begun.environment,
        relations=begun.relations,
        model_rationale=final.move.rationale if frame.opened.definition.is_model else "",
        question_kinds_sha256=begun.question_kinds_sha256,
        agreements=agreements(frame),
        earlier=earlier_findings(
            dict.fromkeys(note for each in history.frames for note in each.opened.notes),
            begun.task,
            history.findings(),
            history.evidence(),
        ),
    )
    # Tool output was redacted when it was recorded; this covers the texts of agents.
    clean = redacted(written)
    packets = sum(each.handed_off.redactions for each in history.frames if each.handed_off)
    before = begun.redactions + packets + sum(each.redactions for each in history.evidence())
    issued = replace(clean.value, redactions=before + clean.count, events_sha256=history.events_sha256)
    return replace(issued, notes_sha256=notes_digest(lessons(_as_remembered(issued))))


def _as_remembered(issued: Certificate) -> Certificate:
    """Return a certificate as parsed, without the parts that notes are not derived from, which are most of it."""
    evidence = tuple(replace(each, arguments={}, output={}) for each in issued.evidence)
    return normal(replace(issued, evidence=evidence, consults=(), definitions=(), environment={}))


_WORK = {
    QuestionType.APPROVAL: "review",
    QuestionType.GO: "readiness",
    QuestionType.RECOMMENDATION: "recommendation",
    QuestionType.ADVICE: "advice",
}


def _descriptor(agent: Agent, kind: QuestionType) -> str:
    """Return the kind of work: the agent's domain and the question type, such as `code_review`."""
    domain, work = slugify(agent.domain or agent.name), _WORK[kind]
    return domain if domain.endswith(work) else f"{domain}_{work}"


def _component(begun: Submission) -> str:
    """Return the component of the verdict: the code of the task, or the evidence of another certificate."""
    if again := begun.task.options.get(REPRODUCE):
        return slugify(f"evidence_of_{again[-_SHORT:]}")
    return component_of([path if path != "." else begun.project for path in begun.task.paths])


def _endings(history: SessionProjection, *, of_models: bool = False) -> Iterator[HandOff | Conclude]:
    """Yield the actions that end frames, including the current one; those of models first, or only these.

    The last statement on an assumption applies, so a model cannot override that of a playbook.
    """
    frames = [each for each in history.frames if each.opened.definition.is_model or not of_models]
    for frame in sorted(frames, key=lambda each: not each.opened.definition.is_model):
        moved = frame.turns[-1].moved if frame.turns else None
        if moved is not None and isinstance(moved.move, HandOff | Conclude):
            yield moved.move


def assumptions(history: SessionProjection) -> tuple[Assumption, ...]:
    """Return the assumptions of the session; if agents differ on one, the last statement applies."""
    return tuple(
        {assumption.text: assumption for move in _endings(history) for assumption in move.assumptions}.values()
    )


def gaps(history: SessionProjection) -> tuple[InformationGap, ...]:
    """Return the information gaps without duplicates; every open assumption is one."""
    own = (each for move in _endings(history) for each in move.gaps)
    said = {each.what: each for each in (*own, *_unanswered(history), *_refused_hops(history), *_unavailable(history))}
    settling = {each.id for each in history.evidence() if each.outcome is CallOutcome.COMPLETED}
    for assumption in assumptions(history):
        is_open = assumption.state is AssumptionState.OPEN or not settling.intersection(assumption.evidence)
        is_told = any(
            assumption.text in gap.what or (gap.command and gap.command == assumption.command) for gap in said.values()
        )
        if is_open and not is_told:
            command = assumption.command or history.begun.task.command(request=f"is it true that {assumption.text}?")
            gap = InformationGap(f"whether it holds that {assumption.text}", _TAKEN_FOR_GRANTED, command)
            said.setdefault(gap.what, gap)
    still_open = [each for each in said.values() if each.blocks_approval or not _is_closed(each, history)]
    return tuple(replace(each, command=suggested_command(each.command)) for each in still_open)


def _is_closed(gap: InformationGap, history: SessionProjection) -> bool:
    """Return whether a later run of the session closed a gap that blocks nothing.

    A model ran its command, or states its words as an assumption that a run settled; the latter only if the gap has
    no command that can be run as it is.
    """
    completed = [
        (frame, report.evidence)
        for frame, report in history.reports()
        if report.evidence.outcome is CallOutcome.COMPLETED
    ]
    if gap.command and not _PLACEHOLDER.search(gap.command):
        is_own = any(gap in move.gaps for move in _endings(history, of_models=True))
        return not is_own and any(
            evidence.rerun == gap.command for frame, evidence in completed if frame.opened.definition.is_model
        )
    runs = {each.id for _, each in completed if is_run_of_model(each) or is_measurement(each) or is_test_run(each)}
    return any(
        gap.what.casefold() in each.text.casefold() and each.state is not AssumptionState.OPEN
        for each in assumptions(history)
        if runs.intersection(each.evidence)
    )


def _unanswered(history: SessionProjection) -> Iterator[InformationGap]:
    for answer in _consults(history):
        if answer.problem:
            what = f"what {answer.agent} would have answered to: {answer.question}"
            yield InformationGap(what, answer.problem, f"esper agents show {quote(answer.agent)}")


def _refused_hops(history: SessionProjection) -> Iterator[InformationGap]:
    """Yield gaps for agents that the task did not reach, because the handoff would have been circular."""
    for frame in history.frames:
        for turn in frame.turns:
            wanted = turn.refusal.going_round if turn.refusal else ""
            if wanted and all(
                handoff.receiver != wanted for handoff in history.handoffs[_hops_before(history, frame) :]
            ):
                what = f"what {wanted} would have said, to whom {frame.opened.agent.name} wanted to hand the task"
                why = f"the hop was refused: {turn.refusal.reasons[0] if turn.refusal else ''}"
                command = f"esper submit --agent {quote(wanted)} {quote(history.begun.task.request)}"
                yield InformationGap(what, why, command, blocks_approval=True)


def _unavailable(history: SessionProjection) -> Iterator[InformationGap]:
    """Yield gaps for agents that could not act; a handoff that was refused for that limits the verdict."""
    for frame in history.frames:
        for turn in frame.turns:
            for agent in turn.refusal.unavailable if turn.refusal else ():
                is_handoff = turn.moved is not None and isinstance(turn.moved.move, HandOff)
                what = f"the judgement of {agent}, which {frame.opened.agent.name} asked for"
                why = "it has no playbook, and no language model is used"
                command = command_with_model(history.begun.task, agent)
                yield InformationGap(what, why, command, blocks_approval=is_handoff)


def _hops_before(history: SessionProjection, frame: FrameState) -> int:
    return len(history.handoffs_before(frame.number))


def _consults(history: SessionProjection) -> tuple[ConsultAnswer, ...]:
    answers = (frame.answer for frame in history.frames if frame.opened.parent)
    return tuple(replace(answer, reported=()) for answer in answers if answer)


def _definitions(history: SessionProjection) -> tuple[Definition, ...]:
    """Return the definitions that agents used at session start, followed by those a user accepted later."""
    opened = {
        (frame.opened.agent.name, frame.opened.definition.reasoner): frame.opened.definition for frame in history.frames
    }
    accepted = (
        definition
        for later in history.accepted
        for definition in later.definitions
        if definition not in opened.values()
    )
    asked = (replace(each, exchanges=_exchanges(history, each)) for each in opened.values())
    return (*asked, *dict.fromkeys(accepted))


def _exchanges(history: SessionProjection, definition: Definition) -> tuple[ModelTurn, ...]:
    """Return the language model turns of an agent under a definition, in order."""
    names = definition.agent, definition.reasoner
    records = (
        turn.moved.record
        for frame in history.frames
        if (frame.opened.agent.name, frame.opened.definition.reasoner) == names
        for turn in frame.turns
        if turn.moved
    )
    return tuple(
        ModelTurn(str(record["model"]), str(record["prompt_sha256"]), str(record["response_sha256"]))
        for record in records
        if "prompt_sha256" in record
    )


def _examined(history: SessionProjection) -> tuple[SourceFile, ...]:
    """Return every version of every file that was read; a file that changed during the session is listed twice."""
    seen = {(file.path, file.sha256): file for each in history.evidence() for file in each.examined}
    return tuple(seen[key] for key in sorted(seen))
