"""Agent actions: the decisions a reasoner can return, and the results of its turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from esper_agents.domain.answer_type import AnswerType
from esper_agents.domain.assumption import Assumption, InformationGap
from esper_agents.domain.codec import JsonObject
from esper_agents.domain.evidence import Evidence, Risk
from esper_agents.domain.finding import Diagnostic, Finding
from esper_agents.domain.handoff import ConsultAnswer, OpenPart
from esper_agents.domain.status import Stance


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of one tool.

    Attributes:
        tool: The tool's name.
        arguments: What it is called with.
    """

    tool: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class CallTools:
    """Call tools; the answer is one `Evidence` for each call, in order."""

    calls: tuple[ToolCall, ...]
    move: Literal["use-tools"] = "use-tools"


@dataclass(frozen=True, slots=True)
class Consult:
    """Ask another agent one question and stay in charge; the answer is a `ConsultAnswer`.

    Attributes:
        agent: Who is asked.
        question: What is asked.
        reasoner: What decides for whom is asked; empty for what the session's task says.
    """

    agent: str
    question: str
    reasoner: str = ""
    move: Literal["consult"] = "consult"


@dataclass(frozen=True, slots=True)
class Panel:
    """Ask several agents at once and stay in charge; the answer is one `ConsultAnswer` for each question, in order.

    None of them sees what the others of the panel find.
    """

    consults: tuple[Consult, ...]
    move: Literal["panel"] = "panel"


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a person; the answer is an `Answer`.

    Attributes:
        question: What is asked.
        options: The answers to choose from; empty where any of the wanted type will do.
        wants: Of which type the answer must be where there are no options.
    """

    question: str
    options: tuple[str, ...] = ()
    wants: AnswerType = AnswerType.TEXT
    move: Literal["ask"] = "ask"


@dataclass(frozen=True, slots=True)
class SupportedClaim:
    """A claim that a reasoner makes itself, with the evidence it rests on."""

    claim: Diagnostic
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HandOff:
    """Give the task to another agent.

    Attributes:
        agent: Who is to go on.
        domain: What the matter looks like.
        reason: Why they would do better.
        context: What was found so far, in words.
        claims: What the sender claims beyond what its tools found, each with its evidence.
        open_parts: What still wants an owner, the receiver's own part first.
        gaps: What the sender could not find out.
        assumptions: What the sender took for granted.
        questions: What the sender leaves open and the receiver should answer.
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
    """One line of the risk table of the SME protocol.

    Attributes:
        risk: What may go wrong.
        severity: Low, Medium, High or Critical.
        likelihood: Low, Medium or High.
        mitigation: What helps against it.
    """

    risk: str
    severity: RiskLevel
    likelihood: Likelihood
    mitigation: str


@dataclass(frozen=True, slots=True)
class RiskAssessment:
    """The risk section of the SME protocol.

    Attributes:
        implementation_risk: Of acting on the advice.
        reversibility: How hard it is to go back.
        rows: The table.
    """

    implementation_risk: RiskLevel
    reversibility: Literal["Easy", "Moderate", "Difficult", "Irreversible"]
    rows: tuple[RiskRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Conclude:
    """End the frame with a judgement; in a consult, with an answer.

    Attributes:
        summary: What was found, in a sentence or two; in a consult, the answer.
        rationale: Why it stands there; where empty, what set the ceiling is said.
        stance: Where the agent stands; None takes the ceiling that the policy sets. Above it is cut to it.
        below_ceiling: The written reason for standing below the ceiling.
        conditions: What must be met, for a conditional verdict.
        claims: What the agent claims beyond what its tools found, each with its evidence.
        assumptions: What was taken for granted.
        gaps: What could not be found out, each with the command that would close it.
        caveats: What must be verified before relying on the verdict.
        next_steps: What should be done next.
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
    """What a person answered.

    Attributes:
        question: Identifier of the question.
        text: The answer; `approve` or `deny` for an approval.
        by: Who answered.
    """

    question: str
    text: str
    by: str


@dataclass(frozen=True, slots=True)
class ToolReport:
    """What a reasoner gets back for one tool call.

    Attributes:
        evidence: The record of the call.
        findings: What it found, recorded.
    """

    evidence: Evidence
    findings: tuple[Finding, ...]


TurnResult: TypeAlias = tuple[ToolReport, ...] | tuple[ConsultAnswer, ...] | ConsultAnswer | UserAnswer


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What a tool is, as a reasoner sees it.

    Attributes:
        name: How it is called.
        description: What it does.
        schema: JSON schema of its arguments.
        risk: How much can go wrong.
        is_repeatable: Whether running it again changes nothing.
    """

    name: str
    description: str
    schema: JsonObject
    risk: Risk
    is_repeatable: bool
