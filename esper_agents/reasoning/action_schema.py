"""JSON schemas of model actions other than tool calls, and their strict parser."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import PurePosixPath
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from esper_agents.domain.agent_action import (
    Ask,
    Conclude,
    Consult,
    HandOff,
    Likelihood,
    ModelCitation,
    RiskAssessment,
    RiskLevel,
    RiskRow,
    SupportedClaim,
)
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.codec import carried, decode
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.domain.reasoner_names import SECOND_OPINION
from esper_agents.domain.status import Stance  # noqa: TC001 - read at run time
from esper_agents.reasoning.model_findings import usual_findings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Returns the identifier of evidence that a model names by its short one; any other text unchanged.
EvidenceNames: TypeAlias = "Callable[[str], str]"


@dataclass(frozen=True, slots=True)
class ActionContext:
    """Context for parsing a model's action.

    Attributes:
        agent: Name of the agent.
        evidence: Returns the identifier of evidence by its short one.
    """

    agent: str
    evidence: EvidenceNames = str


CONSULT, HAND_OFF, ASK_PERSON, CONCLUDE = "consult", "hand_off", "ask_person", "conclude"
SECOND = "second_opinion"
_OTHER_SIDE = (
    "Argue the other side of a trade-off, on the evidence on record and what you look up yourself: say what speaks"
    " against the position, how heavily, and what would settle it. Agree only with what survives that."
)
# Rule code of claims that a model makes.
RULE = "AGENT"
_CLAIMS = "What you claim of the code beyond what tools have found; those findings are on record already."
_STRICT = {"extra": "forbid"}
# No file has more lines.
_LAST_LINE = 10_000_000


def _about(description: str) -> Mapping[str, str]:
    """Return the metadata of an argument's field, as the model reads of it."""
    return {"description": description}


@dataclass(frozen=True, slots=True)
class _Finding:
    __pydantic_config__ = _STRICT

    name: str = field(metadata=_about("Two to five words with hyphens, such as scheduler-stepped-per-epoch."))
    severity: Severity
    category: Category
    path: str = field(metadata=_about("The file, relative to the project."))
    line: int | str = field(metadata=_about("Line or range, such as 41 or 41-48; 0 if you quote the code."))
    message: str = field(metadata=_about("What is wrong, in one sentence."))
    confidence: Confidence
    quote: str = field(
        default="",
        metadata=_about("The code that it is about, copied from the file; the program finds its lines."),
    )
    symbol: str = field(default="", metadata=_about("Function or Class.method, if it is about all of it."))
    remedy: str = field(default="", metadata=_about("What to do about it."))
    basis: str = field(default="", metadata=_about("Why you are that sure."))
    evidence: tuple[str, ...] = field(
        default=(), metadata=_about("Identifiers of the evidence it rests on, such as e3.")
    )
    patch: str = field(default="", metadata=_about("Evidence of the draft-patch call that fixes it, such as e9."))

    def claim(self, speaker: ActionContext) -> SupportedClaim:
        """Return the claim as cited; the program locates it later."""
        path, lines = PurePosixPath(self.path).as_posix(), str(self.line)
        first = re.search(r"\d+", lines)
        line = min(int(first[0]), _LAST_LINE) if first else 0
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
            excerpt="",
            fingerprint=fingerprint(f"{RULE}/{self.name}", path, self.message, line),
        )
        cited = ModelCitation(self.path, lines, self.quote, self.symbol)
        evidence, patch = tuple(map(speaker.evidence, self.evidence)), self.patch and speaker.evidence(self.patch)
        return SupportedClaim(claim, evidence, cited=cited, patch=patch)


@dataclass(frozen=True, slots=True)
class _Assumption:
    __pydantic_config__ = _STRICT

    text: str = field(
        metadata=_about("What is assumed, as a claim; or a gap on record, in its words, that a run settled.")
    )
    is_critical: bool = field(metadata=_about("Whether the verdict would change if it were false."))
    state: AssumptionState
    evidence: tuple[str, ...] = field(default=(), metadata=_about("Identifiers of the evidence that settled it."))
    command: str = field(default="", metadata=_about("A command that would settle it."))

    def assumption(self, speaker: ActionContext) -> Assumption:
        evidence = tuple(map(speaker.evidence, self.evidence))
        return Assumption(self.text, Tier.WORK, self.is_critical, self.state, evidence, self.command)


@dataclass(frozen=True, slots=True)
class _Gap:
    __pydantic_config__ = _STRICT

    what: str = field(metadata=_about("What is missing."))
    why: str = field(metadata=_about("Why it would help."))
    command: str = field(metadata=_about("The command that would close the gap."))
    blocks_approval: bool = field(
        default=False, metadata=_about("Whether nothing better than undecided can be said while it is open.")
    )

    def gap(self) -> InformationGap:
        return InformationGap(self.what, self.why, self.command, self.blocks_approval)


@dataclass(frozen=True, slots=True)
class _Consult:
    """Ask another agent one question and stay in charge of the task.

    Several calls in one turn ask a panel: none of its members sees what the others find.
    """

    __pydantic_config__ = _STRICT

    agent: str = field(metadata=_about("The agent's name, as listed."))
    question: str = field(metadata=_about("One question that can be answered by itself."))

    def move(self, _: ActionContext) -> Consult:
        return Consult(self.agent, self.question)


@dataclass(frozen=True, slots=True)
class _SecondOpinion:
    """Have another model argue the other side of a trade-off, on the same evidence, before you conclude.

    Twice at most. Both positions are on the certificate.
    """

    __pydantic_config__ = _STRICT

    question: str = field(metadata=_about("The trade-off, as a question."))
    position: str = field(metadata=_about("Where you stand, and on which evidence."))

    def move(self, speaker: ActionContext) -> Consult:
        asked = f"{_OTHER_SIDE} The question: {self.question} The position: {self.position}"
        return Consult(speaker.agent, asked, SECOND_OPINION)


@dataclass(frozen=True, slots=True)
class _Ask:
    """Ask the person who submitted the task, where only they can know.

    The work waits until they answer, which may take days.
    """

    __pydantic_config__ = _STRICT

    question: str = field(metadata=_about("One question."))
    options: tuple[str, ...] = field(
        default=(), metadata=_about("The answers to choose from; leave out where any words will do.")
    )

    def move(self, _: ActionContext) -> Ask:
        return Ask(self.question, self.options)


@dataclass(frozen=True, slots=True)
class _HandOff:
    """Give the task to another agent that owns what is left of it.

    Your work on it ends. The other agent starts on this brief.
    """

    __pydantic_config__ = _STRICT

    agent: str = field(metadata=_about("The agent's name, as listed."))
    domain: str = field(metadata=_about("What the matter looks like, such as graph break."))
    reason: str = field(metadata=_about("Why that agent would do better."))
    context: str = field(metadata=_about("What was found so far, in a few sentences."))
    questions: tuple[str, ...] = field(
        default=(), metadata=_about("What you leave open and the receiver should answer.")
    )
    findings: tuple[_Finding, ...] = field(default=(), metadata=_about(_CLAIMS))
    assumptions: tuple[_Assumption, ...] = ()
    gaps: tuple[_Gap, ...] = ()

    def move(self, speaker: ActionContext) -> HandOff:
        return HandOff(
            self.agent,
            self.domain,
            self.reason,
            self.context,
            claims=tuple(finding.claim(speaker) for finding in self.findings),
            assumptions=tuple(assumption.assumption(speaker) for assumption in self.assumptions),
            gaps=tuple(gap.gap() for gap in self.gaps),
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
    """End your work with a judgement; when another agent consulted you, with an answer to its question."""

    __pydantic_config__ = _STRICT

    summary: str = field(
        metadata=_about(
            "What was found, in a sentence or two; when you were consulted, the answer."
            " Users see its first three sentences, each up to 400 characters."
        )
    )
    rationale: str = field(default="", metadata=_about("Why the verdict stands where it stands."))
    stance: Stance | None = field(
        default=None, metadata=_about("Where you stand; leave out to take the best that the evidence allows.")
    )
    below_ceiling: str = field(
        default="", metadata=_about("Your reason, where you stand below what the evidence allows.")
    )
    conditions: tuple[str, ...] = field(default=(), metadata=_about("What must be met first."))
    findings: tuple[_Finding, ...] = field(default=(), metadata=_about(_CLAIMS))
    assumptions: tuple[_Assumption, ...] = ()
    gaps: tuple[_Gap, ...] = ()
    caveats: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "What must be verified before anybody relies on it, and findings that you dispute, with your reasons."
        ),
    )
    next_steps: tuple[str, ...] = field(
        default=(), metadata=_about("What should be done next, the most important first.")
    )
    implementation_risk: RiskLevel = field(default="Low", metadata=_about("Of acting on your advice."))
    reversibility: Literal["Easy", "Moderate", "Difficult", "Irreversible"] = field(
        default="Easy", metadata=_about("How hard it is to go back.")
    )
    risks: tuple[_Risk, ...] = ()

    def move(self, speaker: ActionContext) -> Conclude:
        rows = tuple(RiskRow(risk.risk, risk.severity, risk.likelihood, risk.mitigation) for risk in self.risks)
        return Conclude(
            summary=self.summary,
            rationale=self.rationale,
            stance=self.stance,
            below_ceiling=self.below_ceiling,
            conditions=self.conditions,
            claims=tuple(finding.claim(speaker) for finding in self.findings),
            assumptions=tuple(assumption.assumption(speaker) for assumption in self.assumptions),
            gaps=tuple(gap.gap() for gap in self.gaps),
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
_MOST_FAULTS = 3
_PLAIN = {str: "string", int: "integer", bool: "boolean"}


class InvalidActionError(ValueError):
    """The arguments of a model's action are invalid; the message tells the model why."""


def parse_action(
    name: str, given: Any, speaker: ActionContext, *, is_salvage: bool = False
) -> Consult | HandOff | Ask | Conclude:
    """Parse a model's action.

    The parts of a finding may have the names and forms that models usually give them; see `model_findings`.

    Args:
        name: One of `MOVES`.
        given: Arguments as JSON values.
        speaker: Context of the agent.
        is_salvage: Whether to leave out the parts that do not fit, instead of refusing the action.

    Raises:
        InvalidActionError: The arguments do not fit the schema.
    """
    faults: list[str] = []
    if isinstance(given, dict) and "findings" in given and name in {CONCLUDE, HAND_OFF}:
        usual = usual_findings(given["findings"])
        if is_salvage:
            known = {each.name for each in fields(_Finding)}
            usual = tuple(
                {part: value for part, value in each.items() if part in known} if isinstance(each, dict) else each
                for each in usual
            )
        findings = [each for number, each in enumerate(usual) if not _misfit(_Finding, each, number, faults)]
        given = {**given, "findings": findings}
    if isinstance(given, dict) and is_salvage:
        known = {each.name for each in fields(_SAID[name])}
        fitting = {part: value for part, value in given.items() if part in known and not _is_misfit(name, part, value)}
        least: dict[str, Any] = {each.name: "" for each in fields(_SAID[name]) if each.default is MISSING}
        given = least | fitting
        faults = []
    if fault := _misfit(_SAID[name], given, None, faults) or "; ".join(faults[:_MOST_FAULTS]):
        raise InvalidActionError(f"{name} was called with arguments that do not fit its schema: {fault}")
    return decode(_SAID[name], carried(json.dumps(given))).move(speaker)


def _is_misfit(action: str, part: str, value: Any) -> bool:
    """Return whether a part of an action has no value that fits, whatever the other parts have."""
    shape = _SAID[action]
    least = {each.name: "" for each in fields(shape) if each.default is MISSING}
    return bool(_misfit(shape, {**least, part: value}, None, []))


def _misfit(shape: type[Any], given: Any, number: int | None, faults: list[str]) -> str:
    """Return why arguments do not fit a schema, empty if they do; add it to the faults of a list's items."""
    from pydantic import ValidationError

    place = "" if number is None else f"findings.{number}."
    try:
        decode(shape, carried(json.dumps(given)))
    except ValidationError as error:
        some = error.errors()[:_MOST_FAULTS]
        told = "; ".join(f"{place}{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in some)
        if number is not None:
            faults.append(told)
        return told
    return ""


@cache
def move_tools() -> tuple[Mapping[str, Any], ...]:
    """Return the actions as tools of the Messages API, sorted by name.

    Their schemas are those of the parser; lists that `conclude` describes are described there alone.
    """
    return tuple(
        {
            "name": name,
            "description": " ".join((_SAID[name].__doc__ or "").split()),
            "input_schema": _referring(name, _object(_SAID[name])),
        }
        for name in sorted(MOVES)
    )


def _referring(name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema in which the items that `conclude` describes are not described again."""
    if name == CONCLUDE:
        return schema
    known = {each.name for each in fields(_Conclude)}
    properties = {
        part: {"type": "array", "items": {"type": "object"}, "description": f"As `{part}` of {CONCLUDE}."}
        if part in known and each.get("items", {}).get("type") == "object"
        else each
        for part, each in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _object(shape: type[Any]) -> Mapping[str, Any]:
    """Return the JSON schema of a data class."""
    types = get_type_hints(shape)
    properties = {each.name: {**_schema(types[each.name]), **each.metadata} for each in fields(shape)}
    required = [each.name for each in fields(shape) if each.default is MISSING]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _schema(annotation: Any) -> Mapping[str, Any]:  # noqa: PLR0911 - one for each kind of type
    """Return the JSON schema of the type of an argument; one that may be None is optional."""
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    if isinstance(annotation, type) and is_dataclass(annotation):
        return _object(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {"enum": [each.value for each in annotation]}
    first, *others = get_args(annotation)
    match get_origin(annotation):
        case origin if origin is UnionType and all(each in _PLAIN for each in (first, *others)):
            return {"type": [_PLAIN[each] for each in (first, *others)]}
        case origin if origin is tuple:
            return {"type": "array", "items": _schema(first)}
        case origin if origin is Literal:
            return {"enum": list(get_args(annotation))}
        case _:
            return _schema(first)
