from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from certificate_samples import certificate, critical, evidence, finding, measurement, of_status, ran_tests, source

from esper_agents.certificates.policy.verdict_ceiling import (
    NO_REASON,
    apply_ceiling,
    ceiling,
    ceiling_of,
    load_policy,
    policy_text,
    verdict_levels,
)
from esper_agents.domain.agent_action import RiskAssessment
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.change import TaskChange
from esper_agents.domain.evidence import CallOutcome, SourceFile
from esper_agents.domain.finding import Confidence, Severity, Standing
from esper_agents.domain.status import QuestionType, Stance, Status
from esper_agents.paths import data_folder

POLICY = load_policy()
JUDGED = [QuestionType.APPROVAL, QuestionType.GO, QuestionType.RECOMMENDATION]


def top(kind=QuestionType.APPROVAL, **facts):
    given = {
        "findings": (),
        "evidence": (evidence(), measurement()),
        "assumptions": (),
        "gaps": (),
        "examined_lines": 10,
    }
    return ceiling(POLICY, kind, **(given | facts))


def conditional(kind):
    """Return what a condition comes to: a go/no-go question has no conditional answer."""
    return Stance.UNDECIDED if kind is QuestionType.GO else Stance.CONDITIONAL


def names(found):
    return [line.name for line in found.lines]


@pytest.mark.parametrize("kind", QuestionType)
def test_examined_code_without_a_finding_allows_everything(kind):
    assert top(kind).stance is Stance.FOR
    assert top(kind).lines == ()
    assert top(kind).policy_sha256 == sha256(policy_text().encode()).hexdigest()


@pytest.mark.parametrize("kind", QuestionType)
@pytest.mark.parametrize(
    "read",
    [
        {"evidence": (), "examined_lines": 0},
        {"examined_lines": 0},
        {"evidence": (evidence(examined=()), measurement(examined=()))},
        {"evidence": (evidence(examined=(source(text=""),)), measurement(examined=()))},
    ],
)
def test_where_no_line_was_read_nothing_is_decided(kind, read):
    found = top(kind, **read)
    assert found.status is Status.NEEDS_FURTHER_REVIEW
    assert "nothing-examined" in names(found)


def test_a_call_that_did_not_complete_has_examined_nothing():
    assert "nothing-examined" in names(top(evidence=(evidence(outcome=CallOutcome.FAILED),)))


@pytest.mark.parametrize("kind", JUDGED)
def test_a_file_of_the_task_that_was_not_read_leaves_it_undecided(kind):
    unread = replace(evidence(), tool="static-review", output={"unreadable": [{"path": "padded.py"}]})
    found = top(kind, evidence=(unread,))
    assert found.stance is Stance.UNDECIDED
    (line,) = (each for each in found.lines if each.name == "files-unread")
    assert line.because == "one file of the task was not read, and it can hold anything: 'padded.py'"
    read = replace(evidence(), examined=(SourceFile("padded.py", "0" * 64, "0" * 40, 3, 9),))
    assert "files-unread" not in names(top(kind, evidence=(unread, read)))


@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize("confidence", [Confidence.HIGH, Confidence.MODERATE])
def test_a_critical_finding_that_is_certain_enough_is_against(kind, confidence):
    found = top(kind, findings=(critical(confidence=confidence),))
    assert found.stance is Stance.AGAINST
    assert found.lines[0].because == "one critical finding stands: ESP101 at examples/train.py:7"
    assert found.lines[0].findings == (critical().claim.fingerprint,)


@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize("confidence", [Confidence.LOW, Confidence.INSUFFICIENT_DATA])
def test_a_critical_finding_that_is_not_certain_leaves_it_undecided(kind, confidence):
    assert top(kind, findings=(critical(confidence=confidence),)).stance is Stance.UNDECIDED


@pytest.mark.parametrize(("count", "stance"), [(4, Stance.AGAINST), (5, Stance.REJECTED)])
def test_many_critical_findings_reject(count, stance):
    found = top(findings=tuple(critical(number) for number in range(count)))
    assert found.stance is stance
    assert f"{count} critical findings" in found.lines[0].because
    assert found.lines[0].because.endswith(f"and {count - 3} more")


def test_the_same_critical_finding_recorded_often_counts_once():
    assert top(findings=(critical(1),) * 9).stance is Stance.AGAINST


@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize("confidence", Confidence)
def test_a_warning_makes_it_conditional(kind, confidence):
    assert top(kind, findings=(finding(confidence=confidence),)).stance is conditional(kind)


def test_a_suggestion_changes_nothing():
    assert top(findings=(finding(severity=Severity.SUGGESTION),)).stance is Stance.FOR


def test_advice_stays_advice_whatever_was_found():
    found = top(QuestionType.ADVICE, findings=tuple(critical(number) for number in range(9)))
    assert found.status is Status.ADVISORY_ONLY
    assert found.stance is Stance.FOR


@pytest.mark.parametrize("kind", QuestionType)
def test_a_gap_that_blocks_leaves_it_undecided(kind):
    gap = InformationGap("the size of a batch", "it decides", "esper ask", blocks_approval=True)
    assert top(kind, gaps=(gap,)).status is Status.NEEDS_FURTHER_REVIEW
    assert top(kind, gaps=(replace(gap, blocks_approval=False),)).lines == ()


def assumed(state, evidence_ids=(), *, is_critical=True):
    return Assumption("one GPU", Tier.WORK, is_critical, state, evidence_ids, "nvidia-smi")


@pytest.mark.parametrize("kind", JUDGED)
def test_an_open_critical_assumption_leaves_it_undecided(kind):
    assert top(kind, assumptions=(assumed(AssumptionState.OPEN),)).stance is Stance.UNDECIDED
    assert top(kind, assumptions=(assumed(AssumptionState.OPEN, is_critical=False),)).stance is Stance.FOR


def test_an_assumption_confirmed_by_evidence_on_record_is_settled():
    assert top(assumptions=(assumed(AssumptionState.CONFIRMED, (evidence().id,)),)).stance is Stance.FOR


@pytest.mark.parametrize("ids", [(), ("ev_" + "f" * 32,)])
def test_an_assumption_confirmed_without_evidence_on_record_is_open(ids):
    assert top(assumptions=(assumed(AssumptionState.CONFIRMED, ids),)).stance is Stance.UNDECIDED


def test_a_refuted_critical_assumption_makes_it_conditional():
    assert top(assumptions=(assumed(AssumptionState.REFUTED, (evidence().id,)),)).stance is Stance.CONDITIONAL


@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize(
    ("outcome", "stance"),
    [
        (CallOutcome.FAILED, Stance.UNDECIDED),
        (CallOutcome.INTERRUPTED, Stance.UNDECIDED),
        (CallOutcome.DENIED, Stance.CONDITIONAL),
    ],
)
def test_evidence_that_is_missing_lowers_the_ceiling_until_the_same_call_completes(kind, outcome, stance):
    stance = conditional(kind) if stance is Stance.CONDITIONAL else stance
    missing = evidence(3, tool="run-tests", outcome=outcome, examined=())
    again = evidence(4, tool="run-tests", examined=())
    other = evidence(5, tool="run-tests", arguments_sha256="0" * 64)
    base = (evidence(), measurement())
    assert top(kind, evidence=(*base, missing)).stance is stance
    assert top(kind, evidence=(*base, missing, other)).stance is stance
    assert top(kind, evidence=(*base, missing, again)).stance is Stance.FOR
    assert top(kind, evidence=(*base, again, missing)).stance is stance


def test_a_measurement_that_failed_is_made_good_by_another_one_of_the_same_target_only():
    def call(number, outcome, **arguments):
        return evidence(
            number,
            tool="torch-profile",
            outcome=outcome,
            examined=(),
            arguments=arguments,
            arguments_sha256=f"{number:064x}",
        )

    base = (evidence(), measurement())
    failed = call(3, CallOutcome.FAILED, target="train.py:make", inputs=["randn(2)"])
    again = call(4, CallOutcome.COMPLETED, target="train.py:make", inputs=["randn(4)"])
    other = call(5, CallOutcome.COMPLETED, target="train.py:other", inputs=["randn(2)"])
    assert top(evidence=(*base, failed, other)).stance is Stance.UNDECIDED
    assert top(evidence=(*base, failed, again)).stance is Stance.FOR
    assert top(evidence=(*base, again, failed)).stance is Stance.UNDECIDED


UNCONFIRMED = [Standing.LOCATED, Standing.UNVERIFIED]


@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize("standing", UNCONFIRMED)
@pytest.mark.parametrize("count", [1, 9])
def test_critical_findings_of_a_model_that_nothing_confirms_leave_it_undecided_however_many(kind, standing, count):
    said = tuple(replace(critical(number), standing=standing) for number in range(count))
    found = top(kind, findings=said)
    assert (found.stance, names(found)) == (Stance.UNDECIDED, ["unconfirmed-critical-finding"])
    assert top(kind, findings=(*said, critical(20))).stance is Stance.AGAINST


@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize("standing", UNCONFIRMED)
def test_a_warning_of_a_model_that_nothing_confirms_is_to_be_confirmed_first(kind, standing):
    said = replace(finding(), standing=standing)
    found = top(kind, findings=(said,))
    assert (found.stance, names(found)) == (conditional(kind), ["unconfirmed-warning"])
    if kind is QuestionType.APPROVAL:
        verdict = apply_ceiling(found, kind, wanted=None, reason="", rationale="", conditions=(), findings=(said,))
        assert verdict.conditions == (f"confirm or refute {said.claim.name} at {said.claim.location}",)


def test_a_confirmed_finding_of_a_model_counts_by_the_finding_that_confirms_it():
    assert top(findings=(replace(critical(), standing=Standing.CONFIRMED),)).stance is Stance.FOR


def test_what_only_a_model_says_stops_nothing_whatever_the_risk():
    said = replace(critical(), standing=Standing.LOCATED)
    assert top(findings=(said,), risks=RiskAssessment("High", "Irreversible")).stance is Stance.UNDECIDED


def test_a_policy_that_does_not_ask_for_confirmation_counts_every_finding():
    earlier = load_policy((data_folder("certificates") / "earlier" / "policy-0.1.0.toml").read_text(encoding="utf-8"))
    said = replace(critical(), standing=Standing.UNVERIFIED)
    given = {"evidence": (evidence(), measurement()), "assumptions": (), "gaps": (), "examined_lines": 10}
    assert ceiling(earlier, QuestionType.APPROVAL, findings=(said,), **given).stance is Stance.AGAINST


def test_a_look_up_that_failed_lowers_nothing():
    missing = evidence(3, tool="read-file", outcome=CallOutcome.FAILED, examined=())
    assert top(evidence=(evidence(), ran_tests(), missing)).stance is Stance.FOR


@pytest.mark.parametrize("measured", [(), (measurement(outcome=CallOutcome.FAILED),)])
def test_a_recommendation_without_a_measurement_is_undecided(measured):
    found = top(QuestionType.RECOMMENDATION, evidence=(evidence(), *measured))
    assert found.status is Status.NEEDS_FURTHER_REVIEW
    assert "no-measurement" in names(found)


def test_a_recommendation_from_inputs_that_the_program_chose_alone_is_conditional():
    invented = measurement(3, tool="torch-profile", output={"synthetic": True})
    found = top(QuestionType.RECOMMENDATION, evidence=(evidence(), invented))
    assert found.stance is Stance.CONDITIONAL
    assert "synthetic-inputs" in names(found)
    own = measurement(4, tool="torch-profile", output={})
    assert "synthetic-inputs" not in names(top(QuestionType.RECOMMENDATION, evidence=(evidence(), invented, own)))


def test_a_comparison_on_inputs_that_the_program_chose_is_no_execution():
    assert "not-executed" not in names(top(evidence=(evidence(), measurement())))
    synthetic = measurement(output={**measurement().output, "synthetic": True})
    assert "not-executed" in names(top(evidence=(evidence(), synthetic)))


ENGINEER = "pytorch-ultimate-performance-engineer"
OTHERS = ["torch-specialist", "pytorch-code-reviewer", f"project:{ENGINEER}", ""]


def compared(number, outcome, **changes):
    return measurement(number, output={"outcome": outcome}, **changes)


@pytest.mark.parametrize("agent", OTHERS)
@pytest.mark.parametrize("outcome", ["faster as claimed", "not shown"])
def test_nobody_but_the_performance_engineer_recommends_a_speed_up(agent, outcome):
    asked = {"request": "is the new one faster?", "evidence": (evidence(), compared(2, outcome))}
    found = top(QuestionType.RECOMMENDATION, agent=agent, **asked)
    assert found.status is Status.NEEDS_FURTHER_REVIEW
    assert names(found) == ["speed-up-of-another"]
    assert "'is faster'" in found.lines[0].because or "'is the new one faster'" in found.lines[0].because


@pytest.mark.parametrize("kind", [QuestionType.APPROVAL, QuestionType.GO])
@pytest.mark.parametrize("agent", OTHERS)
def test_what_another_approves_besides_a_claimed_speed_up_stays_conditional_on_it(kind, agent):
    found = top(kind, agent=agent, request="review this, it is 1.3x faster than before")
    assert found.stance is conditional(kind)
    assert names(found) == ["speed-up-besides"]
    assert top(kind, agent=agent, request="review this").stance is Stance.FOR


@pytest.mark.parametrize("kind", JUDGED)
def test_the_performance_engineer_certifies_on_a_comparison_that_came_out_as_claimed(kind):
    shown = (evidence(), compared(2, "faster as claimed"))
    assert top(kind, agent=ENGINEER, request="is the new one faster?", evidence=shown).stance is Stance.FOR


@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize("request_text", ["is the new one faster?", "review this"])
@pytest.mark.parametrize(
    "measured",
    [
        (),
        (compared(2, "not shown"),),
        (compared(2, "error"),),
        (measurement(output={}),),
        (measurement(output={"outcome": ["faster as claimed"]}),),
        (measurement(tool="torch-profile", output={"outcome": "faster as claimed"}),),
        (compared(2, "faster as claimed"), compared(3, "not shown")),
        (compared(2, "not shown"), compared(3, "faster as claimed")),
    ],
)
def test_without_exactly_that_the_performance_engineer_signs_nothing(kind, request_text, measured):
    found = top(kind, agent=ENGINEER, request=request_text, evidence=(evidence(), ran_tests(), *measured))
    assert found.stance is Stance.UNDECIDED
    assert "speed-up-not-shown" in names(found)


@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize("agent", [ENGINEER, *OTHERS])
@pytest.mark.parametrize("outcome", ["wrong", "not as fast as claimed"])
def test_a_comparison_that_came_out_against_it_is_against_whoever_concludes(kind, agent, outcome):
    for measured in ((compared(2, outcome),), (compared(2, outcome), compared(3, "faster as claimed"))):
        found = top(kind, agent=agent, request="is it faster?", evidence=(evidence(), *measured))
        assert found.stance is Stance.AGAINST
        assert (
            found.lines[0].because == f"a comparison came out against it: torch-compare came to {outcome} (ev_{2:032x})"
        )


def test_a_comparison_that_failed_is_none():
    failed = replace(compared(2, "faster as claimed"), outcome=CallOutcome.FAILED)
    assert top(QuestionType.RECOMMENDATION, agent=ENGINEER, evidence=(evidence(), failed)).stance is Stance.UNDECIDED


def test_advice_about_speed_needs_no_comparison():
    assert top(QuestionType.ADVICE, agent="torch-specialist", request="why is B 1.3x faster?").lines == ()


TRAIN = "examples/train.py"
SHAPES = [(QuestionType.APPROVAL, Stance.CONDITIONAL), (QuestionType.GO, Stance.UNDECIDED)]


def covered(path=TRAIN, lines=7, executed=6):
    return {"path": path, "lines": lines, "executed": executed}


def passing(number=8, outcome="passed", coverage=None, **changes):
    rows = [covered()] if coverage is None else list(coverage)
    return ran_tests(number, output={"outcome": outcome, "coverage": rows}, **changes)


@pytest.mark.parametrize(("kind", "stance"), [*SHAPES, (QuestionType.ADVICE, Stance.FOR)])
def test_code_that_was_only_read_is_approved_at_best_on_conditions_and_no_go(kind, stance):
    found = top(kind, evidence=(evidence(),))
    assert found.stance is stance
    assert ("not-executed" in names(found)) is (stance is not Stance.FOR)
    assert top(kind, evidence=(evidence(), ran_tests())).stance is Stance.FOR


@pytest.mark.parametrize(("kind", "stance"), SHAPES)
@pytest.mark.parametrize(
    "run",
    [
        *(measurement(tool=tool) for tool in ("torch-profile", "torch-memory", "torch-nan", "torch-explain")),
        measurement(tool="reproduce-evidence", output={"outcome": "reproduced"}),
        measurement(tool="torch-benchmark"),
        measurement(output={"outcome": "error"}),
        measurement(arguments={"baseline": f"{TRAIN}:new", "candidate": f"{TRAIN}:new"}),
        measurement(arguments={"baseline": "other.py:old", "candidate": "other.py:new"}),
        passing(outcome="failed"),
        passing(outcome="not decided"),
        passing(coverage=()),
        passing(coverage=(covered(executed=0),)),
        passing(coverage=(covered("other.py"),)),
        passing(coverage=(covered(lines=0, executed=0),)),
        replace(passing(), outcome=CallOutcome.FAILED),
        # As version 0.1.0 recorded a run of the tests.
        ran_tests(output={"exit_code": 0, "output": "12 passed in 3.10s"}),
        *(ran_tests(output={"outcome": "passed", "coverage": each}) for each in (3, None, [3], [{"path": TRAIN}])),
    ],
)
def test_a_run_that_could_not_have_failed_for_the_reason_asked_about_lifts_nothing(kind, stance, run):
    found = top(kind, evidence=(evidence(), run))
    assert "not-executed" in names(found)
    assert verdict_levels(kind).index(found.stance) >= verdict_levels(kind).index(stance)


@pytest.mark.parametrize("kind", [QuestionType.APPROVAL, QuestionType.GO])
@pytest.mark.parametrize(
    "run",
    [
        passing(),
        passing(coverage=(covered("other.py"), covered(executed=1))),
        measurement(),
        measurement(output={"outcome": "not shown"}),
        measurement(arguments={"baseline": f"{TRAIN}:new", "candidate": f"{TRAIN}:new", "base": "HEAD~1"}),
    ],
)
def test_tests_that_executed_its_lines_or_a_comparison_with_a_reference_decide(kind, run):
    assert top(kind, evidence=(evidence(), run)).lines == ()


@pytest.mark.parametrize(("kind", "stance"), SHAPES)
def test_every_file_in_question_must_have_been_executed(kind, stance):
    read = evidence(examined=(source(), source("examples/model.py"), source("notes.md")))
    found = top(kind, evidence=(read, passing()))
    assert found.stance is stance
    assert found.lines[0].because.endswith("executed examples/model.py")
    both = passing(coverage=(covered(), covered("examples/model.py", executed=1)))
    assert top(kind, evidence=(read, both)).lines == ()
    # In two runs, or where nothing in it can be executed.
    assert top(kind, evidence=(read, passing(), passing(9, coverage=(covered("examples/model.py"),)))).lines == ()
    assert top(kind, evidence=(read, passing(coverage=(covered(), covered("examples/model.py", 0, 0))))).lines == ()
    # A caller that was read beside it is not in question.
    assert top(kind, evidence=(read, passing()), paths=(TRAIN,)).lines == ()


@pytest.mark.parametrize("kind", JUDGED)
def test_tests_that_fail_are_against_and_passing_ones_do_not_take_that_back(kind):
    for runs in ((passing(outcome="failed"),), (passing(outcome="failed"), passing(9))):
        found = top(kind, evidence=(evidence(), measurement(), *runs))
        assert found.stance is Stance.AGAINST
        assert found.lines[0].name == "tests-fail"


@pytest.mark.parametrize("kind", JUDGED)
def test_a_question_about_a_change_is_undecided_whatever_passes(kind):
    asked = {"request": "may I merge this branch?", "evidence": (evidence(), measurement(), passing())}
    found = top(kind, **asked)
    line = "change-not-compared" if kind is QuestionType.RECOMMENDATION else "change-not-judged"
    executed = [] if kind is QuestionType.RECOMMENDATION else ["change-not-executed"]
    assert (found.stance, names(found)) == (Stance.UNDECIDED, [line, *executed])
    assert "'this branch'" in found.lines[0].because or "'merge'" in found.lines[0].because
    assert top(kind, **asked, findings=(critical(),)).stance is Stance.AGAINST
    assert top(QuestionType.ADVICE, **asked).lines == ()


CHANGE = TaskChange("main", "a" * 40, "", "d" * 64, (TRAIN,))


def of_change(sha256=CHANGE.sha256, rows=((1, 1),), outcome="passed", since=CHANGE.since, path=TRAIN):
    """Return the review of a change, and the tests that executed some of its edits."""
    files = [{"path": path, "blocks": blocks, "executed_blocks": done} for blocks, done in rows]
    digest = {"change_sha256": sha256}
    reviewed = evidence(arguments={"paths": [TRAIN], "since": since}, output=digest)
    output = {"outcome": outcome, "coverage": [covered()], "change": {"files": files}, **digest}
    return reviewed, ran_tests(8, arguments={"paths": ["."], "since": since}, output=output)


@pytest.mark.parametrize("kind", [QuestionType.APPROVAL, QuestionType.GO])
def test_a_change_whose_edits_are_all_executed_by_passing_tests_may_be_merged(kind):
    asked = {"request": "may I merge this branch?", "paths": (TRAIN,), "change": CHANGE}
    assert top(kind, evidence=of_change(), **asked).lines == ()
    open_ = {
        "one edit was not executed": of_change(rows=((2, 1),)),
        "another file was": of_change(path="other.py"),
        "nothing of the change was": of_change(rows=()),
        "the row cannot be read": of_change(rows=(("1", 1),)),
        "nothing passed": of_change(outcome="not decided"),
    }
    for why, calls in open_.items():
        assert names(top(kind, evidence=(*calls, passing()), **asked)) == ["change-not-executed"], why
    of_another = top(kind, evidence=of_change(since="HEAD~9"), **asked)
    assert {"change-not-judged", "change-not-executed"} == set(names(of_another))


@pytest.mark.parametrize("kind", JUDGED)
def test_a_flaky_test_leaves_a_change_undecided_by_name_and_the_others_still_executed_it(kind):
    reviewed, ran = of_change(outcome="flaky")
    ran = replace(ran, output={**ran.output, "flaky": [{"test": "tests/test_a.py::test_b"}]})
    measured = (measurement(),) if kind is QuestionType.RECOMMENDATION else ()
    found = top(kind, request="review it", paths=(TRAIN,), change=CHANGE, evidence=(reviewed, ran, *measured))
    (line,) = [each for each in found.lines if each.name == "tests-flaky"]
    assert (found.stance, line.because.endswith(": tests/test_a.py::test_b")) == (Stance.UNDECIDED, True)
    assert {"not-executed", "change-not-executed"}.isdisjoint(names(found))


@pytest.mark.parametrize("kind", JUDGED)
def test_a_change_that_was_edited_during_the_review_is_undecided(kind):
    found = top(
        kind, request="review it", paths=(TRAIN,), change=CHANGE, evidence=(*of_change("e" * 64), measurement())
    )
    (line,) = [each for each in found.lines if each.name == "change-moved"]
    assert (found.stance, line.because.rpartition(" ")[2]) == (Stance.UNDECIDED, "e" * 12)


@pytest.mark.parametrize("kind", [QuestionType.APPROVAL, QuestionType.GO])
def test_files_of_a_change_that_no_rule_reads_leave_it_undecided_whichever_agent_concludes(kind):
    change = replace(CHANGE, others=("conf.yaml", "ops.cpp"))
    found = top(kind, paths=(TRAIN,), change=change, evidence=of_change(), agent="devops-engineer")
    assert (found.stance, names(found)) == (Stance.UNDECIDED, ["change-unread"])
    assert "'conf.yaml', 'ops.cpp'" in found.lines[0].because


@pytest.mark.parametrize(("base", "file"), [("", TRAIN), ("HEAD~1", "other.py"), ("HEAD~1", TRAIN)])
@pytest.mark.parametrize("kind", JUDGED)
def test_a_change_is_judged_by_a_comparison_with_what_it_was_before_where_speed_is_asked(kind, base, file):
    pair = {"baseline": f"{file}:step", "candidate": f"{file}:step", "base": base}
    compared = evidence(2, tool="torch-compare", arguments=pair, output={"outcome": "faster as claimed"})
    found = top(
        kind,
        request="is train.py:step faster since HEAD~1?",
        evidence=(evidence(), passing(), compared),
        agent="pytorch-ultimate-performance-engineer",
        paths=(TRAIN,),
    )
    is_judged = kind is QuestionType.RECOMMENDATION and base and file == TRAIN
    assert ("change-not" in " ".join(names(found))) is not bool(is_judged)


@pytest.mark.parametrize("kind", QuestionType)
@pytest.mark.parametrize(
    ("risk", "stance"), [("Low", Stance.FOR), ("Medium", Stance.CONDITIONAL), ("High", Stance.CONDITIONAL)]
)
def test_a_risky_implementation_is_at_best_conditional_on_a_person(kind, risk, stance):
    stance = conditional(kind) if stance is Stance.CONDITIONAL else stance
    assert top(kind, risks=RiskAssessment(risk, "Easy")).stance is stance


@pytest.mark.parametrize("kind", QuestionType)
@pytest.mark.parametrize(
    ("risks", "stops"),
    [
        (RiskAssessment("High", "Irreversible"), True),
        (RiskAssessment("Critical", "Difficult"), True),
        (RiskAssessment("High", "Easy"), False),
        (RiskAssessment("Medium", "Irreversible"), False),
    ],
)
def test_where_no_way_out_is_less_than_high_risk_everything_stops(kind, risks, stops):
    assert (top(kind, findings=(critical(),), risks=risks).status is Status.EMERGENCY_STOP) is stops
    assert top(kind, risks=risks).status is not Status.EMERGENCY_STOP


def test_the_deciding_line_comes_first():
    assert names(top(findings=(finding(1), critical(2)))) == ["critical-finding", "warning"]


@pytest.mark.parametrize("status", Status)
def test_each_of_the_eleven_statuses_can_be_reached(status):
    made = of_status(status)
    assert made.verdict.status is status
    assert ceiling_of(POLICY, made) == made.verdict.ceiling


def decide(stance=Stance.FOR, kind=QuestionType.APPROVAL, **said):
    facts = {
        Stance.FOR: {},
        Stance.CONDITIONAL: {"findings": (finding(),)},
        Stance.UNDECIDED: {"evidence": (), "examined_lines": 0},
        Stance.AGAINST: {"findings": (critical(),)},
    }[stance]
    given = {"wanted": None, "reason": "", "rationale": "", "conditions": ()}
    return apply_ceiling(top(kind, **facts), kind, **(given | said), findings=facts.get("findings", ()))


def test_an_agent_that_says_nothing_takes_the_ceiling():
    assert decide().status is Status.APPROVED
    assert decide(Stance.AGAINST).status is Status.REQUIRES_REMEDIATION


def test_an_agent_never_stands_above_the_ceiling_and_the_record_says_what_it_wanted():
    verdict = decide(Stance.AGAINST, wanted=Stance.FOR, rationale="It is fine.")
    assert verdict.status is Status.REQUIRES_REMEDIATION
    assert verdict.rationale == "It is fine. (The agent's own stance was for; the evidence allows at most against.)"


def test_an_agent_may_go_below_with_a_written_reason():
    verdict = decide(wanted=Stance.AGAINST, reason="the tests were never run")
    assert verdict.status is Status.REQUIRES_REMEDIATION
    assert verdict.below_ceiling == "the tests were never run"
    assert verdict.ceiling.stance is Stance.FOR


def test_a_stance_below_without_a_reason_stands_and_the_record_says_so():
    verdict = decide(wanted=Stance.REJECTED)
    assert verdict.status is Status.REJECTED
    assert verdict.below_ceiling == NO_REASON


def test_an_approval_with_conditions_is_a_conditional_one():
    verdict = decide(wanted=Stance.FOR, conditions=("run it once on two GPUs", " "))
    assert verdict.status is Status.CONDITIONALLY_APPROVED
    assert verdict.conditions == ("run it once on two GPUs",)
    assert verdict.below_ceiling == "conditions were named"


def test_a_go_with_conditions_is_undecided():
    verdict = decide(kind=QuestionType.GO, conditions=("run it once on two GPUs",))
    assert (verdict.status, verdict.below_ceiling) == (Status.NEEDS_FURTHER_REVIEW, "conditions were named")


def test_a_conditional_verdict_says_what_to_mend_and_where():
    assert decide(Stance.CONDITIONAL).conditions == ("mend ESP301 at examples/train.py:9",)


def test_conditions_of_an_agent_do_not_replace_what_must_be_mended():
    verdict = decide(Stance.CONDITIONAL, conditions=("smile",))
    assert verdict.conditions == ("smile", "mend ESP301 at examples/train.py:9")


def test_a_conditional_verdict_has_a_condition_even_if_nobody_named_one():
    verdict = decide(wanted=Stance.CONDITIONAL, reason="it was tried on one machine only")
    assert verdict.status is Status.CONDITIONALLY_APPROVED
    assert verdict.conditions == ("meet what this rests on: it was tried on one machine only",)


def test_without_findings_at_hand_conditions_quote_the_policy():
    conditional = top(findings=(finding(),))
    verdict = apply_ceiling(conditional, QuestionType.APPROVAL, wanted=None, reason="", rationale="", conditions=())
    assert verdict.conditions == ("settle first: one warning stands: ESP301 at examples/train.py:9",)


def test_a_rationale_is_never_empty():
    assert decide().rationale == "what was examined gives no reason against it"
    assert decide(Stance.UNDECIDED).rationale.startswith("no line of code was read, so there is nothing to judge")


def test_advice_that_warns_against_something_is_still_advice_but_never_out_of_nothing():
    assert (
        decide(kind=QuestionType.ADVICE, wanted=Stance.AGAINST, reason="it loses data").status is Status.ADVISORY_ONLY
    )
    assert (
        decide(Stance.UNDECIDED, kind=QuestionType.ADVICE, wanted=Stance.AGAINST).status is Status.NEEDS_FURTHER_REVIEW
    )


def test_what_cannot_be_seen_in_a_gap_does_not_change_the_ceiling_that_is_derived_again():
    gap = InformationGap("\x1b" * 99 + "batch size", "", "", blocks_approval=True)
    made = certificate(gaps=(gap,))
    assert made.verdict.ceiling.lines[0].because.count("\\u001b") > 10
