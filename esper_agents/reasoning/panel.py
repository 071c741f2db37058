"""Panel: several consults in parallel, re-checked disagreements, reported conflicts.

Findings are never averaged: if one member reports a finding that another's evidence refutes, a tool checks it again. An
unresolved conflict is recorded in the certificate and keeps the verdict undecided.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools, Conclude, Consult, Panel
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.ledger import Refusal
from esper_agents.reasoning.confirmation_runs import CONFIRMING, attempts, confirmed
from esper_agents.reasoning.finding_ownership import named
from esper_agents.reasoning.request_answer import led_by_answer
from esper_agents.reasoning.static_specialist import review_call
from esper_agents.reasoning.target_choice import looking
from esper_agents.requests.measurement_options import measurement_options

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from esper_agents.domain.agent_action import Move, ToolReport
    from esper_agents.domain.assumption import Assumption
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.frame import Brief
    from esper_agents.domain.handoff import ConsultAnswer

_REVIEW, _TARGETS = "static-review", "torch-targets"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Finding on which the members of a panel disagree.

    Attributes:
        fingerprint: Fingerprint of the finding.
        stated_by: Agents that report it.
        refuted_by: Agents whose evidence refutes it.
        seen_again: Whether the second check found it; None if that check was inconclusive.
    """

    fingerprint: str
    stated_by: tuple[str, ...]
    refuted_by: tuple[str, ...]
    seen_again: bool | None

    def sentence(self, place: str = "") -> str:
        """Return a sentence with the positions of both sides."""
        found = place or f"the finding {self.fingerprint[:12]}"
        sides = f"{', '.join(self.stated_by)} found {found}; the evidence of {', '.join(self.refuted_by)} refutes it"
        match self.seen_again:
            case True:
                return f"{sides}; a second check found it"
            case False:
                return f"{sides}; a second check refuted it"
            case None:
                return f"{sides}; a second check was inconclusive"


@dataclass(frozen=True, slots=True)
class PanelResult:
    """Result of a panel.

    Attributes:
        answers: Answers of the members, in order.
        findings: Findings of the second check.
        agreed: Fingerprints that at least two members report and none refutes.
        conflicts: Findings in conflict.
        assumptions: Assumptions that runs settled.
        gaps: Remaining information gaps.
    """

    answers: tuple[ConsultAnswer, ...]
    findings: tuple[Finding, ...]
    agreed: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    assumptions: tuple[Assumption, ...]
    gaps: tuple[InformationGap, ...]


def run_panel(brief: Brief, consults: Sequence[Consult]) -> Generator[Move, Any, PanelResult]:
    """Consult a panel, and check its disagreements again."""
    answers = yield Panel(tuple(consults))
    if isinstance(answers, Refusal):
        gap = InformationGap("what the panel would have said", answers.reasons[0], "esper agents list", True)
        return PanelResult((), (), (), (), (), (gap,))
    stated, refuted = _by_agent(answers, refuted=False), _by_agent(answers, refuted=True)
    agreed = tuple(mark for mark, by in stated.items() if len(by) > 1 and mark not in refuted)
    if not stated.keys() & refuted.keys():
        return PanelResult(answers, (), agreed, (), (), tuple(_silent(answers)))
    again = yield from _look_again(brief)
    seen = {finding.claim.fingerprint for report in again for finding in report.findings}
    marks = {mark for report in again for mark in report.evidence.refutes}
    settled = confirmed([finding for report in again for finding in report.findings], again)
    conflicts = tuple(
        Conflict(mark, by, refuted[mark], _seen_again(mark, seen, marks))
        for mark, by in stated.items()
        if mark in refuted
    )
    open_ones = tuple(_open(conflicts, settled.findings))
    gaps = (*_silent(answers), *open_ones, *settled.gaps)
    return PanelResult(answers, settled.findings, agreed, conflicts, settled.assumptions, gaps)


def conclusion(brief: Brief, heard: PanelResult) -> Conclude:
    """Return the conclusion of a panel: each member's answer under its own name, and every conflict."""
    said = [f"{answer.agent}: {answer.answer}" for answer in heard.answers]
    places = {
        finding.claim.fingerprint: f"{finding.claim.name} at {finding.claim.location}" for finding in heard.findings
    }
    differ = [conflict.sentence(places.get(conflict.fingerprint, "")) for conflict in heard.conflicts]
    counts = f"{brief.agent.name} asked {len(heard.answers)} agents; {len(heard.agreed)} findings are shared"
    both = f"{counts} and {len(differ)} are in conflict." if heard.answers else "The panel could not be asked."
    again = f"Second check: {named(heard.findings)}." if heard.findings else ""
    return Conclude(
        summary=led_by_answer(
            brief,
            " ".join(filter(None, (both, *said, again, *(f"Conflict: {each}." for each in differ)))),
            heard.findings or brief.findings,
        ),
        assumptions=heard.assumptions,
        gaps=heard.gaps,
        caveats=tuple(f"Conflict: {each}." for each in differ),
    )


def _seen_again(mark: str, seen: set[str], refuted: set[str]) -> bool | None:
    """Return the result of the second check for a finding. A run that does not reproduce it has not refuted it."""
    if mark in refuted:
        return False
    return True if mark in seen else None


def _by_agent(answers: Sequence[ConsultAnswer], *, refuted: bool) -> Mapping[str, tuple[str, ...]]:
    """Return the agents that report each finding, or whose evidence refutes it, without duplicates."""
    found: dict[str, list[str]] = {}
    for answer in answers:
        marks = answer.refuted if refuted else [finding for finding in answer.findings if finding not in answer.refuted]
        for mark in marks:
            found.setdefault(mark, []).append(answer.agent)
    return {mark: tuple(Counter(by)) for mark, by in found.items()}


def _look_again(brief: Brief) -> Generator[Move, Any, tuple[ToolReport, ...]]:
    """Review the code again, and run what may settle a finding; empty if neither is possible here."""
    offered = {tool.name for tool in brief.tools}
    if _REVIEW not in offered or not brief.task.paths:
        return ()
    asked = measurement_options(brief.task.request)
    can_run = {CONFIRMING, _TARGETS} <= offered
    review = review_call(brief, brief.task.paths)
    reports: Any = yield CallTools((review, looking(brief, asked)) if can_run else (review,))
    if isinstance(reports, Refusal) or not can_run or not (tries := attempts(brief, asked, *reports)):
        return () if isinstance(reports, Refusal) else tuple(reports)
    runs: Any = yield CallTools(tries)
    return tuple(reports) if isinstance(runs, Refusal) else (*reports, *runs)


def _silent(answers: Sequence[ConsultAnswer]) -> Generator[InformationGap, None, None]:
    for answer in answers:
        yield from answer.gaps
        if answer.problem:
            what = f"what {answer.agent} would have answered to: {answer.question}"
            yield InformationGap(what, answer.problem, f"esper agents show {answer.agent}")


def _open(conflicts: Sequence[Conflict], findings: Sequence[Finding]) -> Generator[InformationGap, None, None]:
    places = {finding.claim.fingerprint: f"{finding.claim.name} at {finding.claim.location}" for finding in findings}
    for conflict in conflicts:
        if conflict.seen_again is None:
            place = places.get(conflict.fingerprint, conflict.fingerprint)
            why = conflict.sentence(places.get(conflict.fingerprint, ""))
            yield InformationGap(f"whether {place} is so", why, "esper why latest", blocks_approval=True)
