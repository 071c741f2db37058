"""Match policy rule conditions against the facts of a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.certificates.policy.conditions import (
    RISK_LEVELS,
    BlockingGap,
    ChangeAsked,
    ChangeMoved,
    ChangeUnread,
    Condition,
    ConditionMatch,
    CriticalAssumption,
    EvidenceMissing,
    Facts,
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
from esper_agents.certificates.policy.question_type import change_asked, speed_up_asked
from esper_agents.domain.assumption import Assumption, AssumptionState
from esper_agents.domain.change import CHANGE_DIGEST
from esper_agents.domain.evidence import CallOutcome, Evidence, change_rows, coverage_rows
from esper_agents.domain.finding import UNCONFIRMED, Confidence, Finding, Severity, Standing
from esper_agents.domain.plain_text import plain
from esper_agents.domain.task import is_about

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HARD_TO_UNDO = ("Difficult", "Irreversible")
_LONGEST_QUOTE = 100
_PYTHON = (".py", ".ipynb")
# Outcomes of a test run whose passing tests count as executions; another policy rule answers for the flaky one.
_EXECUTED = frozenset(("passed", "flaky"))
_SHORT = 12
# Arguments that name what is measured.
_TARGETS = ("target", "baseline", "candidate", "base")


def match_condition(condition: Condition, facts: Facts) -> ConditionMatch | None:  # noqa: C901, PLR0911, PLR0912 - one for each condition
    """Return the match of a condition, or None if it does not apply. Total."""
    match condition:
        case FindingsStand():
            return _findings_stand(condition, facts)
        case NothingExamined():
            return None if _has_examined(facts) else ConditionMatch()
        case NoMeasurement(tools):
            measured = any(each.tool in tools and each.outcome is CallOutcome.COMPLETED for each in facts.evidence)
            return None if measured else ConditionMatch()
        case SyntheticInputs(tools):
            calls = _calls(tools, facts)
            is_synthetic = calls and all(_has_synthetic_inputs(call) for call in calls)
            return ConditionMatch(len(calls), tuple(call.tool for call in calls)) if is_synthetic else None
        case NotExecuted():
            return _not_executed(condition, facts)
        case ChangeAsked():
            return _change_asked(condition, facts)
        case ChangeMoved(tools):
            return _change_moved(tools, facts)
        case ChangeUnread():
            return _quoted(facts.change.others if facts.change else ())
        case SpeedUpAsked(agents):
            return None if facts.agent in agents else _quoted([asked] if (asked := _speed_up(facts)) else [])
        case OutcomeMissing():
            return _outcome_missing(condition, facts)
        case OutcomeReached(tools, outcomes):
            return _told([call for call in _calls(tools, facts) if _outcome(call) in outcomes])
        case EvidenceMissing():
            return _evidence_missing(condition, facts)
        case CriticalAssumption(state):
            texts = [
                assumption.text
                for assumption in facts.assumptions
                if assumption.is_critical and _state(assumption, facts) is state
            ]
            return _quoted(texts)
        case BlockingGap():
            return _quoted([gap.what for gap in facts.gaps if gap.blocks_approval])
        case FilesUnread(tools):
            return _files_unread(tools, facts)
        case ImplementationRisk(at_least):
            is_open = _is_risky(facts, at_least) and not _is_agreed(facts)
            return ConditionMatch(places=(facts.risks.implementation_risk,)) if is_open else None
        case NoSafeWay():
            return _no_safe_way(condition, facts)


def _change_asked(condition: ChangeAsked, facts: Facts) -> ConditionMatch | None:
    asked = change_asked(plain(facts.request)) or (facts.change.since if facts.change else "")
    is_judged = any(_is_of_change(call, facts) for call in _calls(condition.comparisons, facts))
    is_executed = any(_executes_change(call, facts) for call in _calls(condition.tests, facts))
    return _quoted([asked]) if asked and not (is_judged or is_executed) else None


def _is_of_change(call: Evidence, facts: Facts) -> bool:
    """Return whether a call judged the change in question: the review of it, or a comparison of a file with it."""
    if since := call.arguments.get("since"):
        change = facts.change
        return change is not None and since == change.since and call.output.get(CHANGE_DIGEST) == change.sha256
    # A comparison of a file that the task is not about says nothing about the change in question.
    candidate = str(call.arguments.get("candidate", "")).rpartition(":")[0]
    return bool(call.arguments.get("base")) and is_about(facts.paths, candidate)


def _executes_change(call: Evidence, facts: Facts) -> bool:
    """Return whether tests that passed executed every edit of the change in question."""
    if not call.arguments.get("since") or not _is_of_change(call, facts) or _outcome(call) not in _EXECUTED:
        return False
    rows = list(change_rows(call))
    named = {path for path, _, _ in rows}
    return set(facts.paths) <= named and all(blocks == executed for _, blocks, executed in rows)


def _change_moved(tools: frozenset[str], facts: Facts) -> ConditionMatch | None:
    change = facts.change
    if change is None:
        return None
    read = [call for call in _calls(tools, facts) if call.arguments.get("since") == change.since]
    digests = {str(each.output[CHANGE_DIGEST]) for each in read if CHANGE_DIGEST in each.output} - {change.sha256}
    places = tuple(f"{plain(digest[:_SHORT]) or 'not in the work tree'}" for digest in sorted(digests))
    return ConditionMatch(len(places), places) if places else None


def _findings_stand(condition: FindingsStand, facts: Facts) -> ConditionMatch | None:
    standing: dict[str, Finding] = {}
    for finding in sorted(facts.findings, key=_place):
        if _is_of_sort(condition, finding):
            standing.setdefault(finding.claim.fingerprint, finding)
    if len(standing) < max(condition.at_least, 1):
        return None
    places = tuple(map(_named_place, standing.values()))
    return ConditionMatch(len(standing), places, tuple(standing))


def _named_place(finding: Finding) -> str:
    claim = finding.claim
    # All findings of models have one rule code.
    return f"{claim.name if finding.standing in UNCONFIRMED else claim.rule} at {claim.location}"


def _place(finding: Finding) -> tuple[str, int, str, str]:
    claim = finding.claim
    return (plain(claim.location.path), claim.location.line, plain(claim.rule), claim.fingerprint)


def _is_of_sort(condition: FindingsStand, finding: Finding) -> bool:
    claim = finding.claim
    return (
        claim.severity is condition.severity
        and claim.confidence in condition.confidence
        and (not condition.categories or claim.category in condition.categories)
        and (not condition.rules or claim.rule in condition.rules or claim.name in condition.rules)
        and _is_of_standing(condition.is_confirmed, finding.standing)
    )


def _is_of_standing(is_confirmed: bool | None, standing: Standing) -> bool:  # noqa: FBT001 - see `FindingsStand`
    """Return whether a rule applies to a standing.

    A model's finding that a rule, run or test confirmed counts for neither: the finding of that rule, run or test does.
    """
    match is_confirmed:
        case None:
            return True
        case True:
            return standing is Standing.RECORDED
        case False:
            return standing in UNCONFIRMED


def _has_examined(facts: Facts) -> bool:
    completed = (each for each in facts.evidence if each.outcome is CallOutcome.COMPLETED)
    return facts.examined_lines > 0 and any(file.lines > 0 for each in completed for file in each.examined)


def _speed_up(facts: Facts) -> str:
    # As recorded, so that a derivation from the record gives the same result.
    return speed_up_asked(plain(facts.request))


def _calls(tools: frozenset[str], facts: Facts) -> list[Evidence]:
    return [each for each in facts.evidence if each.tool in tools and each.outcome is CallOutcome.COMPLETED]


def _outcome(evidence: Evidence) -> str:
    return str(evidence.output.get("outcome", ""))


def _has_synthetic_inputs(evidence: Evidence) -> bool:
    return evidence.output.get("synthetic") is True


def _not_executed(condition: NotExecuted, facts: Facts) -> ConditionMatch | None:
    """Return a match if any file was not executed; tests of one file say nothing about another."""
    executed = set(_compared_files(condition, facts))
    exempt: set[str] = set()
    for call in _calls(condition.tests, facts):
        for path, lines, hit_lines in coverage_rows(call):
            if lines == 0:
                exempt.add(path)
            elif hit_lines > 0 and _outcome(call) in _EXECUTED:
                executed.add(path)
    read = {
        file.path
        for each in facts.evidence
        if each.outcome is CallOutcome.COMPLETED
        for file in each.examined
        if file.lines > 0 and file.path.endswith(_PYTHON)
    }
    wanted = {path for path in read if is_about(facts.paths, path)}
    missing = tuple(sorted(map(plain, wanted - executed - exempt)))
    if missing:
        return ConditionMatch(len(missing), missing)
    return None if wanted & executed else ConditionMatch(places=("a line of what is asked about",))


def _compared_files(condition: NotExecuted, facts: Facts) -> Iterator[str]:
    for call in _calls(condition.comparisons, facts):
        baseline, candidate = (str(call.arguments.get(name, "")) for name in ("baseline", "candidate"))
        base = call.arguments.get("base")
        # A run on inputs that the program chose shows only that the code runs.
        if _has_synthetic_inputs(call):
            continue
        # A comparison of something with itself always passes.
        if _outcome(call) in condition.outcomes and (base or baseline != candidate):
            yield candidate.rpartition(":")[0]
            if not base:
                yield baseline.rpartition(":")[0]


def _outcome_missing(condition: OutcomeMissing, facts: Facts) -> ConditionMatch | None:
    """Return a match if any call had another outcome: repeating a measurement does not replace an unwanted result."""
    if facts.agent not in condition.agents:
        return None
    calls = _calls(condition.tools, facts)
    others = [call for call in calls if _outcome(call) not in condition.outcomes]
    return _told(others) if calls else ConditionMatch(places=("nothing was compared",))


def _told(calls: Sequence[Evidence]) -> ConditionMatch | None:
    flaky = tuple(name for call in calls for name in _flaky_tests(call))
    places = flaky or tuple(
        f"{call.tool} came to {plain(_outcome(call) or 'no outcome')} ({call.id})" for call in calls
    )
    return ConditionMatch(len(places), places) if calls else None


def _flaky_tests(call: Evidence) -> Iterator[str]:
    """Yield the flaky tests of a run that they left undecided."""
    rows = call.output.get("flaky", ()) if _outcome(call) == "flaky" else ()
    for row in rows if isinstance(rows, list | tuple) else ():
        if isinstance(row, dict):
            yield plain(str(row.get("test", "")))


def _evidence_missing(condition: EvidenceMissing, facts: Facts) -> ConditionMatch | None:
    missing: dict[tuple[str, str], Evidence] = {}
    for each in facts.evidence:
        call = (each.tool, _target(each) if condition.is_by_target else each.arguments_sha256)
        if each.outcome is CallOutcome.COMPLETED:
            missing.pop(call, None)
        elif each.outcome is condition.outcome and _is_meant(condition, each.tool):
            missing[call] = each
    places = tuple(f"{each.tool} ({each.id})" for each in missing.values())
    return ConditionMatch(len(missing), places) if missing else None


def _files_unread(tools: frozenset[str], facts: Facts) -> ConditionMatch | None:
    unread: dict[str, None] = {}
    for each in facts.evidence:
        if each.outcome is not CallOutcome.COMPLETED:
            continue
        for file in each.examined:
            unread.pop(file.path, None)
        listed = each.output.get("unreadable", []) if each.tool in tools else []
        for entry in listed if isinstance(listed, list | tuple) else []:
            if isinstance(entry, dict):
                unread[str(entry.get("path", ""))] = None
    return _quoted(tuple(unread))


def _target(call: Evidence) -> str:
    """Return what a call was about; the digest of its arguments if they name no target."""
    named = [f"{name}={call.arguments[name]}" for name in _TARGETS if call.arguments.get(name)]
    return ", ".join(named) or call.arguments_sha256


def _is_meant(condition: EvidenceMissing, tool: str) -> bool:
    return tool not in condition.except_tools and (not condition.only_tools or tool in condition.only_tools)


def _state(assumption: Assumption, facts: Facts) -> AssumptionState:
    completed = {each.id for each in facts.evidence if each.outcome is CallOutcome.COMPLETED}
    return assumption.state if completed.intersection(assumption.evidence) else AssumptionState.OPEN


def _is_risky(facts: Facts, at_least: str) -> bool:
    return RISK_LEVELS.index(facts.risks.implementation_risk) >= RISK_LEVELS.index(at_least)


def _is_agreed(facts: Facts) -> bool:
    """Return whether a named user acknowledged exactly this risk."""
    risk = facts.risks.implementation_risk
    return any(
        agreement.is_given and agreement.by and agreement.implementation_risk == risk for agreement in facts.agreements
    )


def _no_safe_way(condition: NoSafeWay, facts: Facts) -> ConditionMatch | None:
    if not _is_risky(facts, condition.at_least) or facts.risks.reversibility not in _HARD_TO_UNDO:
        return None
    certain = frozenset((Confidence.HIGH, Confidence.MODERATE))
    critical = FindingsStand(Severity.CRITICAL, certain, is_confirmed=condition.is_confirmed)
    return _findings_stand(critical, facts)


def _quoted(texts: Sequence[str]) -> ConditionMatch | None:
    places = tuple(_quote(plain(text)) for text in texts)
    return ConditionMatch(len(places), places) if places else None


def _quote(text: str) -> str:
    return f"'{text}'" if len(text) <= _LONGEST_QUOTE else f"'{text[:_LONGEST_QUOTE]}...'"
