"""Closed set of policy rule conditions, and the facts that they are matched against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.agent_action import RiskAssessment
    from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap
    from esper_agents.domain.change import TaskChange
    from esper_agents.domain.evidence import CallOutcome, Evidence
    from esper_agents.domain.finding import Category, Confidence, Finding, Severity
    from esper_agents.domain.risk_acknowledgement import RiskAcknowledgement

RISK_LEVELS = ("Low", "Medium", "High", "Critical")


@dataclass(frozen=True, slots=True)
class Facts:
    """Recorded facts that a verdict is derived from.

    Attributes:
        findings: All findings of the session.
        evidence: All evidence of the session, in order.
        assumptions: Assumptions of the session.
        gaps: Information gaps of the session.
        examined_lines: Number of lines read from the files of the task.
        risks: The agent's risk section.
        request: User's request, verbatim.
        agent: Agent that concludes.
        agreements: Risk acknowledgements.
        paths: Paths of the task; empty means the whole project.
        change: Change that the task is about; None if there is none.
    """

    findings: Sequence[Finding]
    evidence: Sequence[Evidence]
    assumptions: Sequence[Assumption]
    gaps: Sequence[InformationGap]
    examined_lines: int
    risks: RiskAssessment
    request: str = ""
    agent: str = ""
    agreements: Sequence[RiskAcknowledgement] = ()
    paths: Sequence[str] = ()
    change: TaskChange | None = None


@dataclass(frozen=True, slots=True)
class ConditionMatch:
    """Match of a policy condition.

    Attributes:
        count: Number of matching items.
        places: Descriptions of the items, in order.
        findings: Fingerprints of the matching findings.
    """

    count: int = 1
    places: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FindingsStand:
    """Minimum number of findings of a kind; an empty set of categories or rules matches any.

    Attributes:
        severity: Severity of the findings.
        confidence: Accepted confidence levels.
        at_least: Minimum number.
        categories: Accepted categories.
        rules: Accepted rules, by code or name.
        is_confirmed: True for findings that the program's rules, runs and tests recorded, False for those of a model
            that none of them confirmed, None for all.
    """

    severity: Severity
    confidence: frozenset[Confidence]
    at_least: int = 1
    categories: frozenset[Category] = field(default_factory=frozenset)
    rules: frozenset[str] = field(default_factory=frozenset)
    is_confirmed: bool | None = None


@dataclass(frozen=True, slots=True)
class NothingExamined:
    """No completed tool call read a file with at least one line."""


@dataclass(frozen=True, slots=True)
class NoMeasurement:
    """None of these tools has a completed call."""

    tools: frozenset[str]


@dataclass(frozen=True, slots=True)
class SyntheticInputs:
    """Every completed call of these tools ran on inputs that the program chose."""

    tools: frozenset[str]


@dataclass(frozen=True, slots=True)
class NotExecuted:
    """A Python file of the task was not executed by any test or comparison that could have failed.

    Attributes:
        tests: Tools that run tests and report the lines executed by passing tests.
        comparisons: Tools that compare with a reference.
        outcomes: Comparison outcomes that show equal results.
    """

    tests: frozenset[str]
    comparisons: frozenset[str]
    outcomes: frozenset[str]

    @property
    def tools(self) -> frozenset[str]:
        """Tools whose calls can make the condition false."""
        return self.tests | self.comparisons


@dataclass(frozen=True, slots=True)
class ChangeAsked:
    """The request concerns a merge or a change, but no call of these tools judged or executed it.

    Attributes:
        comparisons: Tools that judge the change, or compare with an earlier revision.
        tests: Tools that run tests; a call counts if its tests passed and executed every edit of the change.
    """

    comparisons: frozenset[str] = frozenset()
    tests: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ChangeMoved:
    """The change of the task had another content when a completed call of these tools read it."""

    tools: frozenset[str]


@dataclass(frozen=True, slots=True)
class ChangeUnread:
    """The change of the task contains files that no rule reads, such as settings or C++ sources."""


@dataclass(frozen=True, slots=True)
class SpeedUpAsked:
    """The request concerns a speed-up, and none of these agents concludes."""

    agents: frozenset[str]


@dataclass(frozen=True, slots=True)
class OutcomeMissing:
    """One of these agents concludes, but a completed call of these tools had another outcome, or there is none."""

    agents: frozenset[str]
    tools: frozenset[str]
    outcomes: frozenset[str]


@dataclass(frozen=True, slots=True)
class OutcomeReached:
    """A completed call of these tools had one of these outcomes."""

    tools: frozenset[str]
    outcomes: frozenset[str]


@dataclass(frozen=True, slots=True)
class EvidenceMissing:
    """A call ended with this outcome and was not repeated successfully.

    Attributes:
        outcome: The outcome.
        except_tools: Tools whose calls do not count.
        only_tools: Tools whose calls count; empty for any.
        is_by_target: Whether a later call of the same tool on the same target repeats it, whatever its other arguments.
    """

    outcome: CallOutcome
    except_tools: frozenset[str] = field(default_factory=frozenset)
    only_tools: frozenset[str] = field(default_factory=frozenset)
    is_by_target: bool = False


@dataclass(frozen=True, slots=True)
class CriticalAssumption:
    """A critical assumption has this state; one settled without completed recorded evidence counts as open."""

    state: AssumptionState


@dataclass(frozen=True, slots=True)
class BlockingGap:
    """An information gap blocks the decision."""


@dataclass(frozen=True, slots=True)
class FilesUnread:
    """A completed call of these tools lists a file that it could not read, and no later call read it."""

    tools: frozenset[str]


@dataclass(frozen=True, slots=True)
class ImplementationRisk:
    """The implementation risk of the advice is at least this level, and no user has acknowledged it."""

    at_least: str


@dataclass(frozen=True, slots=True)
class NoSafeWay:
    """A critical finding exists, and its fix has at least this risk and is hard to undo.

    Attributes:
        at_least: Minimum risk of the fix.
        is_confirmed: As in `FindingsStand`.
    """

    at_least: str
    is_confirmed: bool | None = None


Condition: TypeAlias = (
    FindingsStand
    | NothingExamined
    | NoMeasurement
    | SyntheticInputs
    | NotExecuted
    | ChangeAsked
    | ChangeMoved
    | ChangeUnread
    | SpeedUpAsked
    | OutcomeMissing
    | OutcomeReached
    | EvidenceMissing
    | CriticalAssumption
    | BlockingGap
    | FilesUnread
    | ImplementationRisk
    | NoSafeWay
)
