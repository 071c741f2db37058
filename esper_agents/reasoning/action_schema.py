"""JSON schemas of model actions other than tool calls, and their strict parser."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from esper_agents.domain.agent_action import (
    Ask,
    Conclude,
    Consult,
    HandOff,
    Likelihood,
    RiskAssessment,
    RiskLevel,
    RiskRow,
    SupportedClaim,
)
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.certificate import SECOND_OPINION
from esper_agents.domain.codec import carried, decode
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.domain.status import Stance  # noqa: TC001 - read at run time
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Returns a line of a project file without its line end; empty if there is none.
Lines: TypeAlias = "Callable[[str, int], str]"


@dataclass(frozen=True, slots=True)
class ActionContext:
    """Context for parsing a model's action.

    Attributes:
        agent: Name of the agent.
        lines: Returns a line of a project file.
    """

    agent: str
    lines: Lines


CONSULT, HAND_OFF, ASK_PERSON, CONCLUDE = "consult", "hand_off", "ask_person", "conclude"
SECOND = "second_opinion"
_OTHER_SIDE = (
    "Argue the other side of a trade-off, on the evidence on record and what you look up yourself: say what speaks"
    " against the position, how heavily, and what would settle it. Agree only with what survives that."
)
# Rule code of claims that a model makes.
RULE = "AGENT"
_STRICT = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class _Finding:
    __pydantic_config__ = _STRICT

    name: str
    severity: Severity
    category: Category
    path: str
    line: int
    message: str
    remedy: str
    confidence: Confidence
    basis: str
    evidence: tuple[str, ...]

    def claim(self, lines: Lines) -> SupportedClaim:
        path, line = PurePosixPath(self.path).as_posix(), max(0, self.line)
        excerpt = lines(path, line)
        claim = Diagnostic(
            rule=RULE,
            name=self.name[:80],
            severity=self.severity,
            category=self.category,
            location=Location(path, line, 1, line),
            message=self.message,
            remedy=self.remedy,
            confidence=self.confidence,
            basis=self.basis,
            excerpt=excerpt,
            fingerprint=fingerprint(f"{RULE}/{self.name}", path, excerpt, 0),
        )
        return SupportedClaim(claim, self.evidence)


@dataclass(frozen=True, slots=True)
class _Assumption:
    __pydantic_config__ = _STRICT

    text: str
    is_critical: bool
    state: AssumptionState
    evidence: tuple[str, ...] = ()
    command: str = ""

    def assumption(self) -> Assumption:
        return Assumption(self.text, Tier.WORK, self.is_critical, self.state, self.evidence, self.command)


@dataclass(frozen=True, slots=True)
class _Gap:
    __pydantic_config__ = _STRICT

    what: str
    why: str
    command: str
    blocks_approval: bool = False

    def gap(self) -> InformationGap:
        return InformationGap(self.what, self.why, self.command, self.blocks_approval)


@dataclass(frozen=True, slots=True)
class _Consult:
    __pydantic_config__ = _STRICT

    agent: str
    question: str

    def move(self, _: ActionContext) -> Consult:
        return Consult(self.agent, self.question)


@dataclass(frozen=True, slots=True)
class _SecondOpinion:
    __pydantic_config__ = _STRICT

    question: str
    position: str

    def move(self, speaker: ActionContext) -> Consult:
        asked = f"{_OTHER_SIDE} The question: {self.question} The position: {self.position}"
        return Consult(speaker.agent, asked, SECOND_OPINION)


@dataclass(frozen=True, slots=True)
class _Ask:
    __pydantic_config__ = _STRICT

    question: str
    options: tuple[str, ...] = ()

    def move(self, _: ActionContext) -> Ask:
        return Ask(self.question, self.options)


@dataclass(frozen=True, slots=True)
class _HandOff:
    __pydantic_config__ = _STRICT

    agent: str
    domain: str
    reason: str
    context: str
    questions: tuple[str, ...] = ()
    findings: tuple[_Finding, ...] = ()
    assumptions: tuple[_Assumption, ...] = ()
    gaps: tuple[_Gap, ...] = ()

    def move(self, speaker: ActionContext) -> HandOff:
        return HandOff(
            self.agent,
            self.domain,
            self.reason,
            self.context,
            claims=tuple(each.claim(speaker.lines) for each in self.findings),
            assumptions=tuple(each.assumption() for each in self.assumptions),
            gaps=tuple(each.gap() for each in self.gaps),
            questions=self.questions,
        )


@dataclass(frozen=True, slots=True)
class _Risk:
    __pydantic_config__ = _STRICT

    risk: str
    severity: RiskLevel
    likelihood: Likelihood
    mitigation: str


@dataclass(frozen=True, slots=True)
class _Conclude:
    __pydantic_config__ = _STRICT

    summary: str
    rationale: str = ""
    stance: Stance | None = None
    below_ceiling: str = ""
    conditions: tuple[str, ...] = ()
    findings: tuple[_Finding, ...] = ()
    assumptions: tuple[_Assumption, ...] = ()
    gaps: tuple[_Gap, ...] = ()
    caveats: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    implementation_risk: RiskLevel = "Low"
    reversibility: Literal["Easy", "Moderate", "Difficult", "Irreversible"] = "Easy"
    risks: tuple[_Risk, ...] = ()

    def move(self, speaker: ActionContext) -> Conclude:
        rows = tuple(RiskRow(each.risk, each.severity, each.likelihood, each.mitigation) for each in self.risks)
        return Conclude(
            summary=self.summary,
            rationale=self.rationale,
            stance=self.stance,
            below_ceiling=self.below_ceiling,
            conditions=self.conditions,
            claims=tuple(each.claim(speaker.lines) for each in self.findings),
            assumptions=tuple(each.assumption() for each in self.assumptions),
            gaps=tuple(each.gap() for each in self.gaps),
            caveats=self.caveats,
            next_steps=self.next_steps,
            risks=RiskAssessment(self.implementation_risk, self.reversibility, rows),
        )


_SAID: dict[str, type[_Consult | _SecondOpinion | _HandOff | _Ask | _Conclude]] = {
    CONSULT: _Consult,
    HAND_OFF: _HandOff,
    SECOND: _SecondOpinion,
    ASK_PERSON: _Ask,
    CONCLUDE: _Conclude,
}
MOVES = frozenset(_SAID)


class InvalidActionError(ValueError):
    """The arguments of a model's action are invalid; the message tells the model why."""


def parse_action(name: str, given: Any, speaker: ActionContext) -> Consult | HandOff | Ask | Conclude:
    """Parse a model's action.

    Args:
        name: One of `MOVES`.
        given: Arguments as JSON values.
        speaker: Context of the agent.

    Raises:
        InvalidActionError: The arguments do not fit the schema.
    """
    from pydantic import ValidationError

    try:
        return decode(_SAID[name], carried(json.dumps(given))).move(speaker)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, each['loc'])) or name}: {each['msg']}" for each in error.errors()[:3])
        raise InvalidActionError(f"{name} was called with arguments that do not fit its schema: {faults}") from error


@cache
def move_tools() -> tuple[Mapping[str, Any], ...]:
    """Return the actions as tools of the Messages API, sorted by name."""
    table = json.loads((data_folder("prompts") / "reasoner" / "moves.json").read_text(encoding="utf-8"))
    shared = {name: part for name, part in table.items() if name.startswith("#")}
    return tuple({"name": name, **_filled(table[name], shared)} for name in sorted(MOVES))


def _filled(schema: Any, shared: Mapping[str, Any]) -> Any:
    """Return a schema with its references resolved inline."""
    if isinstance(schema, dict):
        if ref := schema.get("$ref"):
            return _filled(shared[ref], shared)
        return {name: _filled(part, shared) for name, part in schema.items()}
    return [_filled(each, shared) for each in schema] if isinstance(schema, list) else schema
