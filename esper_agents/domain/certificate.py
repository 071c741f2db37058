"""Certificates: the complete record of one verdict."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.agent_action import RiskAssessment
from esper_agents.domain.assumption import Assumption, InformationGap
from esper_agents.domain.evidence import Evidence, SourceFile
from esper_agents.domain.finding import Finding
from esper_agents.domain.handoff import ConsultAnswer, Handoff
from esper_agents.domain.project import GitRevision
from esper_agents.domain.relation import Relation
from esper_agents.domain.risk_acknowledgement import RiskAcknowledgement
from esper_agents.domain.route import Route
from esper_agents.domain.task import Task
from esper_agents.domain.verdict import Verdict

# What a task's options and a definition call what decides an agent's moves.
REASONER, PLAYBOOK, UNATTENDED, CLAUDE = "reasoner", "playbook", "unattended", "claude"
# Another model, which argues the other side.
SECOND_OPINION = "second-opinion"
# What a playbook is asked before a model is.
FLOOR_QUESTION = "What do rules and measurements say, before a model is asked?"
DETERMINISTIC = frozenset((PLAYBOOK, UNATTENDED))


@dataclass(frozen=True, slots=True)
class SkillUse:
    """A skill that an agent had at hand.

    Attributes:
        name: Its name.
        sha256: Digest of its bytes.
        provider: Distribution and version, or plugin and digest, that it came from; empty for a project's own.
    """

    name: str
    sha256: str
    provider: str = ""


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One turn of a language model.

    Attributes:
        model: The model's full name, as the server said it.
        prompt_sha256: Digest of what was asked: tools and system prompt, then each message, as canonical JSON.
        response_sha256: Digest of the blocks of the answer as canonical JSON.
    """

    model: str
    prompt_sha256: str
    response_sha256: str


@dataclass(frozen=True, slots=True)
class Definition:
    """The exact definition of an agent that took part.

    Attributes:
        agent: Its name.
        sha256: Digest of the definition's bytes.
        reasoner: What decided its moves, such as `playbook`.
        reasoner_sha256: Digest of the playbook's source, or empty.
        provider: Distribution and version that the reasoner came from.
        skills: The skills it had at hand.
        exchanges: The turns of a language model, in order; none where a playbook decided.
        definition_provider: Distribution and version, or plugin and digest, that the definition came from; empty for a
            project's own.
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
        """Whether a language model decided, or anything else that the same input may lead elsewhere."""
        return self.reasoner not in DETERMINISTIC


@dataclass(frozen=True, slots=True)
class Certificate:
    """Everything that is on record about one verdict; a pure function of the session's ledger.

    Attributes:
        id: `crt_` identifier.
        issued_at: When the judgement was concluded, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        session: `ses_` identifier.
        project: The project's name.
        agent: Who concluded.
        descriptor: What sort of work it was, such as `code_review`; letters, digits and `_`.
        component: What was judged, such as `examples_train`; letters, digits and `_`.
        task: What was asked.
        route: How the first agent was chosen.
        handoffs: The chain, in order.
        consults: What other agents were asked.
        definitions: The agents that took part, in order of appearance.
        verdict: What is concluded.
        summary: The concluding agent's words.
        findings: All findings of the session, worst first.
        evidence: All evidence of the session, in order.
        examined: Every file that was read, by path.
        revision: What git knew at the start.
        assumptions: What was taken for granted, with what became of it.
        gaps: What could not be known, each with the command that would close it.
        caveats: What must be verified before relying on it.
        next_steps: What should be done next.
        risks: The risk section.
        environment: Names and versions of what it ran on.
        relations: How it stands to other certificates.
        question_kinds_sha256: Digest of the table that the kind of question was read from, or empty.
        redactions: How many secrets were struck out before anything was digested.
        agreements: What people said of the risk of acting on it.
        events_sha256: Digest of the session's ledger up to here; empty for one of version 0.1.0.
        notes_sha256: Digest of the notes that it leaves in memory; empty for one of version 0.1.0.
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
