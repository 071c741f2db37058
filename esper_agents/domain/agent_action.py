"""Agent actions: the decisions a reasoner can return, and the results of its turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from esper_agents.domain.answer_type import AnswerType
from esper_agents.domain.approval_scope import ApprovalScope
from esper_agents.domain.assumption import Assumption, InformationGap
from esper_agents.domain.codec import JsonObject
from esper_agents.domain.evidence import Evidence, Risk
from esper_agents.domain.finding import Diagnostic, Finding, Standing
from esper_agents.domain.handoff import ConsultAnswer, OpenPart
from esper_agents.domain.status import Stance


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of one tool.

    Attributes:
        tool: The tool's name.
        arguments: Its arguments, by name.
    """

    tool: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class CallTools:
    """Action that calls tools; the result is one `Evidence` per call, in order."""

    calls: tuple[ToolCall, ...]
    move: Literal["use-tools"] = "use-tools"


@dataclass(frozen=True, slots=True)
class Consult:
    """Action that asks another agent one question and keeps the task; the result is a `ConsultAnswer`.

    Attributes:
        agent: The agent to ask.
        question: The question.
        reasoner: The reasoner of the consulted agent; empty for the one that the session's task specifies.
    """

    agent: str
    question: str
    reasoner: str = ""
    move: Literal["consult"] = "consult"


@dataclass(frozen=True, slots=True)
class Panel:
    """Action that asks several agents in parallel and keeps the task.

    The result is one `ConsultAnswer` per question, in order. The agents of a panel do not see each other's findings.
    """

    consults: tuple[Consult, ...]
    move: Literal["panel"] = "panel"


@dataclass(frozen=True, slots=True)
class Ask:
    """Action that asks the user; the result is a `UserAnswer`.

    Attributes:
        question: The question.
        options: The answers to choose from; empty if any answer of the type `wants` is accepted.
        wants: Type of the answer if there are no options.
    """

    question: str
    options: tuple[str, ...] = ()
    wants: AnswerType = AnswerType.TEXT
    move: Literal["ask"] = "ask"


@dataclass(frozen=True, slots=True)
class ModelCitation:
    """The code that a model cites for a finding, in its own words; see `orchestration.citations`.

    Attributes:
        path: The file, as named.
        lines: The lines, as named, such as `41-48`.
        quote: The quoted code.
        symbol: The function or class, such as `Trainer.step`.
    """

    path: str = ""
    lines: str = ""
    quote: str = ""
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class SupportedClaim:
    """A claim made by a reasoner itself, with the evidence that supports it.

    Attributes:
        claim: The claim.
        evidence: Identifiers of the evidence.
        standing: Support of a model's claim; a playbook's claims are recorded as they are.
        checks: Results of the program's checks of a model's claim.
        cited: ModelCitation in the model's words; empty for a playbook.
        patch: Evidence of the drafted patch that is its remedy; empty if there is none.
    """

    claim: Diagnostic
    evidence: tuple[str, ...]
    standing: Standing = Standing.RECORDED
    checks: tuple[str, ...] = ()
    cited: ModelCitation = ModelCitation()
    patch: str = ""


@dataclass(frozen=True, slots=True)
class HandOff:
    """Action that transfers the task to another agent.

    Attributes:
        agent: The agent that receives the task.
        domain: The subject of the problem, such as `graph break`.
        reason: Why that agent is better suited.
        context: The results so far, in words.
        claims: The sender's claims beyond the findings of its tools, with their evidence.
        open_parts: Parts of the task without an owner, the receiver's own part first.
        gaps: Information that the sender could not obtain.
        assumptions: Assumptions that the sender made.
        questions: Questions that the sender leaves open for the receiver.
    """

    agent: str
    domain: str
    reason: str
    context: str
    open_parts: tuple[OpenPart, ...] = ()
    gaps: tuple[InformationGap, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    claims: tuple[SupportedClaim, ...] = ()
    questions: tuple[str, ...] = ()
    move: Literal["hand-off"] = "hand-off"


RiskLevel: TypeAlias = Literal["Low", "Medium", "High", "Critical"]
Likelihood: TypeAlias = Literal["Low", "Medium", "High"]


@dataclass(frozen=True, slots=True)
class RiskRow:
    """One row of the risk table of the SME protocol.

    Attributes:
        risk: The possible harm.
        severity: Low, Medium, High or Critical.
        likelihood: Low, Medium or High.
        mitigation: A measure that reduces the risk.
    """

    risk: str
    severity: RiskLevel
    likelihood: Likelihood
    mitigation: str


@dataclass(frozen=True, slots=True)
class RiskAssessment:
    """The risk section of the SME protocol.

    Attributes:
        implementation_risk: Risk of acting on the advice.
        reversibility: Effort to undo it.
        rows: The rows of the risk table.
    """

    implementation_risk: RiskLevel
    reversibility: Literal["Easy", "Moderate", "Difficult", "Irreversible"]
    rows: tuple[RiskRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Conclude:
    """Action that ends the frame with a verdict; in a consult, with an answer.

    Attributes:
        summary: The result in one or two sentences; in a consult, the answer.
        rationale: Reason for the verdict; if empty, the reason for the ceiling is used.
        stance: The agent's stance, limited to the policy ceiling; None takes the ceiling itself.
        below_ceiling: The written reason for a stance below the ceiling.
        conditions: Conditions to meet, for a conditional verdict.
        claims: The agent's claims beyond the findings of its tools, with their evidence.
        assumptions: Assumptions that the agent made.
        gaps: Missing information, with the commands that would provide it.
        caveats: Facts to verify before relying on the verdict.
        next_steps: Recommended next steps.
        risks: The risk section.
    """

    summary: str
    rationale: str = ""
    stance: Stance | None = None
    below_ceiling: str = ""
    conditions: tuple[str, ...] = ()
    claims: tuple[SupportedClaim, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    gaps: tuple[InformationGap, ...] = ()
    caveats: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    risks: RiskAssessment = RiskAssessment("Low", "Easy")
    move: Literal["conclude"] = "conclude"


Move: TypeAlias = CallTools | Consult | Panel | Ask | HandOff | Conclude


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """A user's answer to a question.

    Attributes:
        question: Identifier of the question.
        text: The answer; `approve` or `deny` for an approval.
        by: Name of the user who answered.
        scope: Further calls that an approval covers; None if it covers only the call in question.
    """

    question: str
    text: str
    by: str
    scope: ApprovalScope | None = None


@dataclass(frozen=True, slots=True)
class ToolReport:
    """Result of one tool call, as returned to the reasoner.

    Attributes:
        evidence: The record of the call.
        findings: The recorded findings of the call.
    """

    evidence: Evidence
    findings: tuple[Finding, ...]


TurnResult: TypeAlias = tuple[ToolReport, ...] | tuple[ConsultAnswer, ...] | ConsultAnswer | UserAnswer


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Description of a tool, as shown to a reasoner.

    Attributes:
        name: The tool's name.
        description: Its purpose.
        schema: JSON schema of its arguments.
        risk: Risk of running the tool.
        is_repeatable: Whether running it again changes nothing.
    """

    name: str
    description: str
    schema: JsonObject
    risk: Risk
    is_repeatable: bool

    @property
    def use(self) -> ToolUse:
        """The description itself, as that of any `OfferedTool`."""
        return self


class OfferedTool(Protocol):
    """Tool that an agent may call; its schema is made when `use` is read, which no playbook does."""

    @property
    def name(self) -> str:
        """The tool's name."""

    @property
    def use(self) -> ToolUse:
        """Description for a language model."""
