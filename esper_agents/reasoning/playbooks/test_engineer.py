"""The offline test engineer: which behaviour has no test, a first test that ran, and the cases that a test needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools, Conclude, ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import CallOutcome, is_test_run, tests_told
from esper_agents.domain.finding import Category
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.request import ConstraintKind
from esper_agents.domain.status import QuestionType, Stance
from esper_agents.reasoning.investigation import completed, run
from esper_agents.reasoning.static_specialist import SpecialistProfile, conclude_from, look, without_code
from esper_agents.reasoning.testing import TESTING, tests_to_run
from esper_agents.requests.run_requests import asks_to_run_tests, named_test_files

if TYPE_CHECKING:
    from collections.abc import Generator

    from esper_agents.domain.agent_action import Move, ToolReport
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.frame import Brief
    from esper_agents.reasoning.static_specialist import ReviewSummary

_RESULTS = "whether the tests pass"
_TESTS_ONLY = "Passing tests show only what they execute and assert."
_SPECIALISM = SpecialistProfile(
    categories=(Category.COMPANION,),
    searches=("def test_", "pytest.raises("),
    meanings={},
    measured=((_RESULTS, "python -m pytest"),),
    why_measure="a list of cases is no test run",
    is_whole=True,
)
_DRAFT, _TOPIC = "torch-test", "tests"
_MOST_TRIED, _LONGEST = 3, 160
_NOT_ASSERTED = "values against a reference, other sizes, and the errors that it raises"


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Inspect which definitions have tests and which cases they need, and draft a first test that runs."""
    if not brief.task.paths:
        return without_code(brief, _SPECIALISM)
    if asks_to_run_tests(brief.task.request) and not brief.question:
        return (yield from _test_run(brief))
    seen = yield from look(brief, _SPECIALISM)
    drafts = (yield from _drafts(_targets(brief, seen))) if _is_wanted(brief) else ()
    conclusion = yield from conclude_from(brief, _SPECIALISM, seen)
    if not drafts:
        return conclusion
    last = drafts[-1]
    gap = _gap(last)
    return replace(
        conclusion,
        summary=f"{_told(last) if _runs(last) else _problem(last)} {conclusion.summary}",
        gaps=(gap, *(each for each in conclusion.gaps if each.what != _SPECIALISM.measured[0][0])),
        caveats=("A drafted test asserts what the code does now, not what it should do.",) if _runs(last) else (),
    )


def _test_run(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Run the tests that the request names, or all around the paths, and conclude whether they pass."""
    around = yield from run(brief, ToolCall("related-code", {"paths": list(brief.task.paths)}))
    calls = tests_to_run(brief, around, is_asked=True)
    reports = yield from run(brief, *(_narrowed(brief, each, around) for each in calls))
    ran = reports[0].evidence if reports else None
    if ran is not None and is_test_run(ran):
        files = ", ".join("the project" if each == "." else str(each) for each in ran.arguments["paths"])
        return Conclude(summary=f"Ran the tests of {files}: {tests_told([ran])}.", caveats=(_TESTS_ONLY,))
    why = ran.summary.rstrip(".") if ran is not None else "no call was made"
    if not calls:
        why = "the project has no tests"
    denied = " ".join(each for each in brief.task.options.get("deny", "").split() if each != TESTING)
    command = replace(brief.task, options={**brief.task.options, "deny": denied}).command(allow=TESTING)
    return Conclude(
        summary=f"No test ran: {why}. To run the tests: {command}",
        stance=Stance.UNDECIDED,
        below_ceiling="no test ran",
        gaps=(InformationGap(_RESULTS, why, command, blocks_approval=True),),
    )


def _narrowed(brief: Brief, call: ToolCall, around: tuple[ToolReport, ...]) -> ToolCall:
    """Return a test run limited to the test files that the request names, if it names some."""
    related = completed(around, "related-code")
    known = [*related.evidence.output["own_tests"], *related.evidence.output["tests"]] if related else []
    named = named_test_files(brief.task.request, [str(each) for each in known])
    return replace(call, arguments={**call.arguments, "paths": named}) if named else call


def _is_wanted(brief: Brief) -> bool:
    """Return whether the request asks for a test, and a draft may run."""
    request = brief.request
    if request is None or brief.task.kind is not QuestionType.ADVICE or request.restricts(ConstraintKind.NO_RUN):
        return False
    is_offered = any(tool.name == _DRAFT for tool in brief.tools)
    return is_offered and any(topic.name == _TOPIC for topic in request.topics)


def _targets(brief: Brief, seen: ReviewSummary) -> list[str]:
    """Return the definitions to test: those that the request names, else those without a test, the longest first."""
    named = [f"{symbol.path}:{symbol.name}" for symbol in brief.request.symbols] if brief.request else []
    if named:
        # Of a class and its method, the method is meant.
        return [each for each in named if not any(other.startswith(f"{each}.") for other in named)][:_MOST_TRIED]
    queries = [query for report in seen.inspected for query in report.evidence.output.get("queries", ())]
    facts = [fact for query in queries for fact in query["facts"] if fact.get("definitions")]
    # Those without a test come first.
    ordered = sorted(facts, key=lambda fact: (fact["assessment"] == "fine", fact["line"] - fact["end_line"]))
    return list(dict.fromkeys(str(fact["definitions"][0]) for fact in ordered))[:_MOST_TRIED]


def _drafts(targets: list[str]) -> Generator[Move, Any, tuple[Evidence, ...]]:
    """Draft a test of the first target that runs; the attempts are returned in order."""
    tried: list[Evidence] = []
    for target in targets:
        given = yield CallTools((ToolCall(_DRAFT, {"target": target}),))
        if isinstance(given, Refusal):
            break
        tried.append(given[0].evidence)
        if _runs(tried[-1]):
            break
    return tuple(tried)


def _runs(evidence: Evidence) -> bool:
    return evidence.outcome is CallOutcome.COMPLETED and bool(evidence.output.get("draft"))


def _told(evidence: Evidence) -> str:
    """Return what the drafted test is, asserts, and does not assert."""
    result, target = evidence.output["result"], str(evidence.arguments["target"])
    runs = result.get("runs", [])
    failed = [run for run in runs if isinstance(run, dict) and run.get("error")]
    outcome = f"{len(failed)} of {len(runs)} fail" if failed else f"all {len(runs)} pass"
    inputs = " on inputs that the program chose" if evidence.output.get("synthetic") else ""
    lead = f"Tests of {target} are drafted in {evidence.output['draft']}: {outcome}, run once{inputs}."
    asserted = "; ".join(map(str, result.get("asserted", ())))
    showed = "; ".join(map(str, result.get("unasserted", ())))
    showed = f"; the run also showed that {showed}" if showed else ""
    asserts = f"They assert {asserted}." if asserted else "You edited this draft."
    return f"{lead} {asserts} Not asserted: {_NOT_ASSERTED}{showed}."


def _problem(evidence: Evidence) -> str:
    target = str(evidence.arguments["target"])
    reason = str(evidence.output.get("error") or evidence.summary).rstrip(".")[:_LONGEST]
    return f"No test of {target} could be drafted: {reason}."


def _gap(evidence: Evidence) -> InformationGap:
    target = str(evidence.arguments["target"])
    if _runs(evidence):
        why = "the drafted tests assert what it does now"
        return InformationGap(f"what {target} should return", why, str(evidence.output["copy_command"]))
    why = "no arguments were found with which it runs"
    return InformationGap(f"a first test of {target} that runs", why, f"esper torch test {target}")
