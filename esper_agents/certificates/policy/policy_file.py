"""Load `certificates/policy.toml` into the policy table."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from esper_agents.certificates.policy.conditions import (
    RISK_LEVELS,
    BlockingGap,
    ChangeAsked,
    ChangeMoved,
    ChangeUnread,
    Condition,
    CriticalAssumption,
    EvidenceMissing,
    FilesUnread,
    FindingsStand,
    ImplementationRisk,
    NoMeasurement,
    NoSafeWay,
    NotExecuted,
    NothingExamined,
    OutcomeMissing,
    OutcomeReached,
    SpeedUpAsked,
    SyntheticInputs,
)
from esper_agents.domain.assumption import AssumptionState
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.domain.status import QuestionType, Stance
from esper_agents.errors import DefinitionError
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

    S = TypeVar("S", bound=StrEnum)

_FILE = "certificates/policy.toml"
_VERSION = 1
_TOML_LINE = re.compile(r"\(at line (\d+)")
_LINE_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*line[ \t]*\]\]", re.MULTILINE)
_SAME_CALL, _SAME_TARGET = "call", "target"
_COMMON = ("name", "kinds", "when", "stance", "stance_for_go", "because", "because_many")


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Policy rule.

    Attributes:
        name: Rule name in certificates.
        kinds: Question types that it applies to.
        condition: Condition under which it applies.
        stance: Maximum stance that it allows.
        because: Reason text for one matching item, with placeholders `{count}` and `{places}`.
        because_many: Reason text for several items.
        stance_for_go: Maximum stance for a go/no-go question; None if it is the same.
    """

    name: str
    kinds: frozenset[QuestionType]
    condition: Condition
    stance: Stance
    because: str
    because_many: str
    stance_for_go: Stance | None = None

    def stance_of(self, kind: QuestionType) -> Stance:
        """Return the maximum stance that the rule allows for a question type."""
        return self.stance_for_go if kind is QuestionType.GO and self.stance_for_go else self.stance


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy table that sets the ceiling of a verdict.

    Attributes:
        lines: Policy rules, in order.
        sha256: SHA-256 digest of the text it was read from.
    """

    lines: tuple[PolicyRule, ...]
    sha256: str


def load_policy(text: str | None = None) -> Policy:
    """Parse a policy text, or load the shipped policy if no text is given.

    Raises:
        DefinitionError: The text is not TOML, or contains an invalid rule.
    """
    return _parsed(policy_text() if text is None else text)


@lru_cache(maxsize=16)
def _parsed(source: str) -> Policy:
    """Return the policy in a text; all certificates of one policy share it."""
    try:
        table = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_LINE.search(str(error))
        # The other position that tomllib reports is the end of the document.
        line = int(found.group(1)) if found else source.count("\n") + 1
        raise _problem(f"not TOML: {error}", line) from None
    if table.get("version") != _VERSION or set(table) - {"version", "line"}:
        raise _problem(f"wants version = {_VERSION}, tables [[line]] and nothing else")
    rows = table.get("line", [])
    headers = [source.count("\n", 0, found.end()) + 1 for found in _LINE_HEADER.finditer(source)]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise _problem("has no [[line]]")
    lines = tuple(_Reader(row, at).line() for row, at in zip(rows, headers + [None] * len(rows), strict=False))
    names = [line.name for line in lines]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise _problem(f"two lines are named {name!r}", headers[position] if position < len(headers) else None)
    return Policy(lines, sha256(source.encode("utf-8", "surrogatepass")).hexdigest())


@cache
def policy_text() -> str:
    """Return the text of the shipped policy, byte for byte."""
    return (data_folder("certificates") / "policy.toml").read_bytes().decode("utf-8")


def _problem(problem: str, line: int | None = None) -> DefinitionError:
    return DefinitionError(_FILE, problem, remedy="edit it; its head says what a line may hold", line=line)


class _Reader:
    """Parser of one [[line]] table that refuses unknown members."""

    def __init__(self, row: dict[str, Any], at: int | None) -> None:
        self.row = row
        self.at = at

    def line(self) -> PolicyRule:
        because = self._text("because")
        kinds = self._members("kinds", QuestionType) if "kinds" in self.row else frozenset(QuestionType)
        line = PolicyRule(
            name=self._text("name"),
            kinds=kinds,
            condition=self._condition(),
            stance=self._member("stance", Stance),
            because=because,
            because_many=self._text("because_many") if "because_many" in self.row else because,
            stance_for_go=self._member("stance_for_go", Stance) if "stance_for_go" in self.row else None,
        )
        if line.stance_for_go and QuestionType.GO not in kinds:
            raise self._wrong("stance_for_go wants 'go' among its kinds")
        if QuestionType.ADVICE in kinds and line.stance in {Stance.AGAINST, Stance.REJECTED}:
            raise self._wrong("advice cannot be against anything: leave it out of kinds")
        return line

    def _condition(self) -> Condition:
        when = self._text("when")
        if when not in _CONDITIONS:
            raise self._wrong(f"when = {when!r} is none of {', '.join(_CONDITIONS)}")
        members, build = _CONDITIONS[when]
        unknown = set(self.row) - {*_COMMON, *members}
        if unknown:
            raise self._wrong(f"{when} knows no {min(unknown)!r}")
        return build(self)

    def findings_stand(self) -> FindingsStand:
        at_least = self.row.get("at_least", 1)
        if type(at_least) is not int or at_least < 1:
            raise self._wrong("at_least wants a whole number from 1")
        return FindingsStand(
            severity=self._member("severity", Severity),
            confidence=self._members("confidence", Confidence),
            at_least=at_least,
            categories=self._members("categories", Category) if "categories" in self.row else frozenset(),
            rules=frozenset(self._texts("rules")) if "rules" in self.row else frozenset(),
            is_confirmed=self._is_confirmed(),
        )

    def no_safe_way(self) -> NoSafeWay:
        return NoSafeWay(self.risk_level(), self._is_confirmed())

    def _is_confirmed(self) -> bool | None:
        said = self.row.get("confirmed")
        if said is not None and not isinstance(said, bool):
            raise self._wrong("confirmed wants true or false")
        return said

    def evidence_missing(self) -> EvidenceMissing:
        outcome = self._member("outcome", CallOutcome)
        if outcome is CallOutcome.COMPLETED:
            raise self._wrong("outcome = 'completed' is what evidence should be")
        excepted = self._texts("except_tools") if "except_tools" in self.row else ()
        only = self._texts("only_tools") if "only_tools" in self.row else ()
        by = self.row.get("made_good_by", _SAME_CALL)
        if by not in {_SAME_CALL, _SAME_TARGET}:
            raise self._wrong(f"made_good_by wants {_SAME_CALL!r} or {_SAME_TARGET!r}")
        return EvidenceMissing(outcome, frozenset(excepted), frozenset(only), by == _SAME_TARGET)

    def critical_assumption(self) -> CriticalAssumption:
        state = self._member("state", AssumptionState)
        if state is AssumptionState.CONFIRMED:
            raise self._wrong("state = 'confirmed' is what an assumption should be")
        return CriticalAssumption(state)

    def files_unread(self) -> FilesUnread:
        return FilesUnread(frozenset(self._texts("tools")))

    def no_measurement(self) -> NoMeasurement:
        return NoMeasurement(frozenset(self._texts("tools")))

    def synthetic_inputs(self) -> SyntheticInputs:
        return SyntheticInputs(frozenset(self._texts("tools")))

    def not_executed(self) -> NotExecuted:
        tests, comparisons, outcomes = (frozenset(self._texts(name)) for name in ("tests", "comparisons", "outcomes"))
        return NotExecuted(tests, comparisons, outcomes)

    def change_asked(self) -> ChangeAsked:
        wanted = (
            frozenset(self._texts(name)) if name in self.row else frozenset() for name in ("comparisons", "tests")
        )
        return ChangeAsked(*wanted)

    def change_moved(self) -> ChangeMoved:
        return ChangeMoved(frozenset(self._texts("tools")))

    def speed_up_asked(self) -> SpeedUpAsked:
        return SpeedUpAsked(frozenset(self._texts("agents")))

    def outcome_missing(self) -> OutcomeMissing:
        agents, tools, outcomes = (frozenset(self._texts(name)) for name in ("agents", "tools", "outcomes"))
        return OutcomeMissing(agents, tools, outcomes)

    def outcome_reached(self) -> OutcomeReached:
        return OutcomeReached(frozenset(self._texts("tools")), frozenset(self._texts("outcomes")))

    def risk_level(self) -> str:
        level = self._text("at_least")
        if level not in RISK_LEVELS:
            raise self._wrong(f"at_least = {level!r} is none of {', '.join(RISK_LEVELS)}")
        return level

    def _text(self, name: str) -> str:
        text = self.row.get(name)
        if not isinstance(text, str) or not text.strip() or "\n" in text:
            raise self._wrong(f"{name} wants one line of text")
        return text

    def _texts(self, name: str) -> tuple[str, ...]:
        texts = self.row.get(name)
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
            raise self._wrong(f"{name} wants a list of texts")
        return tuple(texts)

    def _member(self, name: str, shape: type[S]) -> S:
        return self._one(name, self._text(name), shape)

    def _members(self, name: str, shape: type[S]) -> frozenset[S]:
        return frozenset(self._one(name, text, shape) for text in self._texts(name))

    def _one(self, name: str, text: str, shape: type[S]) -> S:
        try:
            return shape(text)
        except ValueError:
            known = ", ".join(shape)
            raise self._wrong(f"{name} holds {text!r}, which is none of {known}") from None

    def _wrong(self, problem: str) -> DefinitionError:
        name = self.row.get("name")
        return _problem(f"line {name!r}: {problem}" if isinstance(name, str) else problem, self.at)


_CONDITIONS: dict[str, tuple[tuple[str, ...], Callable[[_Reader], Condition]]] = {
    "finding": (("severity", "confidence", "at_least", "categories", "rules", "confirmed"), _Reader.findings_stand),
    "nothing-examined": ((), lambda _: NothingExamined()),
    "no-measurement": (("tools",), _Reader.no_measurement),
    "synthetic-inputs": (("tools",), _Reader.synthetic_inputs),
    "not-executed": (("tests", "comparisons", "outcomes"), _Reader.not_executed),
    "change-asked": (("comparisons", "tests"), _Reader.change_asked),
    "change-moved": (("tools",), _Reader.change_moved),
    "change-unread": ((), lambda _: ChangeUnread()),
    "speed-up-asked": (("agents",), _Reader.speed_up_asked),
    "no-outcome": (("agents", "tools", "outcomes"), _Reader.outcome_missing),
    "outcome": (("tools", "outcomes"), _Reader.outcome_reached),
    "evidence": (("outcome", "except_tools", "only_tools", "made_good_by"), _Reader.evidence_missing),
    "assumption": (("state",), _Reader.critical_assumption),
    "blocking-gap": ((), lambda _: BlockingGap()),
    "files-unread": (("tools",), _Reader.files_unread),
    "implementation-risk": (("at_least",), lambda reader: ImplementationRisk(reader.risk_level())),
    "no-safe-way": (("at_least", "confirmed"), _Reader.no_safe_way),
}
