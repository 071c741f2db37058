"""Certificates: the complete record of one verdict."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.agent_action import RiskAssessment
from esper_agents.domain.assumption import Assumption, InformationGap
from esper_agents.domain.evidence import Evidence, SourceFile, faults_asked_about, is_measurement
from esper_agents.domain.finding import EarlierFinding, Finding, Severity, Standing
from esper_agents.domain.handoff import ConsultAnswer, Handoff
from esper_agents.domain.project import GitRevision
from esper_agents.domain.reasoner_names import PLAYBOOK, UNATTENDED
from esper_agents.domain.relation import Relation
from esper_agents.domain.risk_acknowledgement import RiskAcknowledgement
from esper_agents.domain.route import Route
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.domain.verdict import Verdict

# Question that the guardrail answers before the model is called.
FLOOR_QUESTION = "What do rules and measurements say, before a model is asked?"
_OF_TRACE, _EXPLAINS_TRACE = "TRACE", "explain-trace"
DETERMINISTIC = frozenset((PLAYBOOK, UNATTENDED))


@dataclass(frozen=True, slots=True)
class SkillUse:
    """A skill that was available to an agent.

    Attributes:
        name: Its name.
        sha256: Digest of its bytes.
        provider: Distribution and version, or plugin and digest, that provides it; empty for a project's own skill.
    """

    name: str
    sha256: str
    provider: str = ""


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One turn of a language model.

    Attributes:
        model: The model's full name, as reported by the server.
        prompt_sha256: Digest of the prompt as canonical JSON: tools and system prompt, then the messages in order.
        response_sha256: Digest of the response blocks as canonical JSON.
    """

    model: str
    prompt_sha256: str
    response_sha256: str


@dataclass(frozen=True, slots=True)
class Definition:
    """The exact definition of an agent that took part in a session.

    Attributes:
        agent: Its name.
        sha256: Digest of the definition's bytes.
        reasoner: The reasoner that decided its actions, such as `playbook`.
        reasoner_sha256: Digest of the playbook's source, or empty.
        provider: Distribution and version that provides the reasoner.
        skills: The skills that were available to it.
        exchanges: Its language model turns, in order; empty if a playbook decided.
        definition_provider: Distribution and version, or plugin and digest, that provides the definition; empty for a
            project's own agent.
    """

    agent: str
    sha256: str
    reasoner: str
    reasoner_sha256: str
    provider: str
    skills: tuple[SkillUse, ...] = ()
    exchanges: tuple[ModelTurn, ...] = ()
    definition_provider: str = ""

    @property
    def is_model(self) -> bool:
        """Whether the reasoner may decide differently on the same input, as a language model may."""
        return self.reasoner not in DETERMINISTIC


@dataclass(frozen=True, slots=True)
class Certificate:
    """The complete record of one verdict; a pure function of the session's ledger.

    Attributes:
        id: `crt_` identifier.
        issued_at: Time of the conclusion, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        session: `ses_` identifier.
        project: The project's name.
        agent: The agent that concluded.
        descriptor: Type of work, such as `code_review`; letters, digits and `_`.
        component: Subject of the verdict, such as `examples_train`; letters, digits and `_`.
        task: The submitted task.
        route: The selection of the first agent.
        handoffs: The handoffs, in order.
        consults: The answers of consulted agents.
        definitions: Definitions of the agents that took part, in order of appearance.
        verdict: The verdict.
        summary: Summary by the concluding agent.
        findings: All findings of the session, worst first.
        evidence: All evidence of the session, in order.
        examined: Every file that was read, by path.
        revision: Git revision at the start.
        assumptions: Assumptions with their final states.
        gaps: Missing information, with the commands that would provide it.
        caveats: Facts to verify before relying on the verdict.
        next_steps: Recommended next steps.
        risks: The risk section.
        environment: Names and versions of the software and hardware used.
        relations: Relations to other certificates.
        question_kinds_sha256: Digest of the table that determined the question type, or empty.
        redactions: Number of secrets removed before any digest was computed.
        agreements: Risk acknowledgements by users.
        events_sha256: Digest of the session's ledger up to this event; empty for a certificate of version 0.1.0.
        notes_sha256: Digest of the memory notes derived from it; empty for a certificate of version 0.1.0.
        earlier: What became of the findings that the agents remembered about the files of the task.
        model_rationale: Rationale in the words of the model that concluded; the verdict's own is the program's.
    """

    id: str
    issued_at: str
    session: str
    project: str
    agent: str
    descriptor: str
    component: str
    task: Task
    route: Route
    handoffs: tuple[Handoff, ...]
    consults: tuple[ConsultAnswer, ...]
    definitions: tuple[Definition, ...]
    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...]
    evidence: tuple[Evidence, ...]
    examined: tuple[SourceFile, ...]
    revision: GitRevision
    assumptions: tuple[Assumption, ...]
    gaps: tuple[InformationGap, ...]
    caveats: tuple[str, ...]
    next_steps: tuple[str, ...]
    risks: RiskAssessment
    environment: dict[str, str]
    relations: tuple[Relation, ...] = ()
    question_kinds_sha256: str = ""
    redactions: int = 0
    agreements: tuple[RiskAcknowledgement, ...] = ()
    events_sha256: str = ""
    notes_sha256: str = ""
    earlier: tuple[EarlierFinding, ...] = ()
    model_rationale: str = ""


def findings_asked_about(certificate: Certificate) -> tuple[Finding, ...]:
    """Return the findings that the request is about; all of them unless a cause was looked for or a trace explained.

    Then the faults that it found count, those of a measurement, and those of a model.
    """
    if certificate.verdict.kind is not QuestionType.ADVICE:
        return certificate.findings
    faults = faults_asked_about(certificate.evidence)
    if faults is None and any(each.tool == _EXPLAINS_TRACE for each in certificate.evidence):
        # A stack trace says where; what else stands in its files is beside the question.
        faults = frozenset()
    if faults is None:
        return certificate.findings
    measured = {each.id for each in certificate.evidence if is_measurement(each)}
    return tuple(
        each
        for each in certificate.findings
        if (f"{each.claim.location.path}:{each.claim.location.line}", each.claim.rule) in faults
        or each.claim.rule == _OF_TRACE
        or each.standing is not Standing.RECORDED
        or measured & set(each.evidence)
    )


def findings_beside(certificate: Certificate) -> tuple[Finding, ...]:
    """Return other findings that are more than suggestions, if an inspection for a cause found no fault.

    Then the words of the request may mean something else than was inspected.
    """
    if certificate.verdict.kind is not QuestionType.ADVICE or faults_asked_about(certificate.evidence) != frozenset():
        return ()
    asked = {each.claim.fingerprint for each in findings_asked_about(certificate)}
    others = (each for each in certificate.findings if each.claim.fingerprint not in asked)
    return tuple(each for each in others if each.claim.severity is not Severity.SUGGESTION)
