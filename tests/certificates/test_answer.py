"""The answer of a certificate: the deciding statement first, no filler, one next command."""

from __future__ import annotations

from dataclasses import replace

import pytest
from certificate_samples import certificate, critical, evidence, finding, full, measurement, of_status, ran_tests

from esper_agents.certificates.answer import answer_of, program_summary
from esper_agents.certificates.suggested_command import problem_of
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.change import TaskChange
from esper_agents.domain.finding import Location, Severity, Standing
from esper_agents.domain.reproduction import REPRODUCE
from esper_agents.domain.status import QuestionType, Stance, Status, status_for


def advice(summary="", **changes):
    return replace(certificate(QuestionType.ADVICE, request="why does memory grow?", **changes), summary=summary)


@pytest.mark.parametrize("status", Status)
def test_every_status_has_an_answer_and_a_next_command_that_parses(status):
    answer = answer_of(of_status(status))
    assert answer.status is status
    assert answer.text
    assert not answer.next_command or problem_of(answer.next_command) == ""


def test_findings_that_decided_come_first_and_the_others_follow_worst_first():
    answer = answer_of(certificate(findings=(finding(3), finding(2, location=Location("a.py", 2)), critical(1))))
    assert [line.rule for line in answer.because] == ["ESP101"]
    assert [(line.place, line.more_places) for line in answer.also] == [("examples/train.py:9", ("a.py:2",))]
    assert answer.text == "No: 1 critical, 2 warnings in 1 file (10 lines)."


def test_a_question_about_faults_is_not_answered_by_a_yes_that_says_the_opposite():
    found = replace(certificate(findings=(critical(1),)))
    asked = replace(found, task=replace(found.task, request="is something wrong with my setup?"))
    assert answer_of(asked).text == "There are faults: 1 critical in 1 file (10 lines)."


def test_the_same_statement_about_several_places_is_one_line():
    found = tuple(finding(number, location=Location(f"f{number}.py", number)) for number in range(1, 6))
    answer = answer_of(certificate(findings=found))
    (line,) = [each for each in (*answer.because, *answer.also) if each.rule]
    assert line.place_text == "f1.py:1, f2.py:2, f3.py:3, f4.py:4 and 1 more place"


def test_a_removed_guard_precedes_other_findings_of_its_severity():
    guard = finding(2, rule="ESP702", name="guard-removed")
    answer = answer_of(certificate(findings=(finding(1), guard, finding(3))))
    assert [line.rule for line in answer.because if line.rule] == ["ESP702", "ESP301"]


def test_a_reason_that_something_is_missing_follows_the_findings_and_is_dropped_if_they_decide_against():
    untested = (evidence(),)
    undecided = answer_of(certificate(QuestionType.GO, findings=(finding(),), evidence=untested))
    assert undecided.text == "Not decided: 1 warning in 1 file (10 lines); no test ran."
    assert [bool(line.rule) for line in undecided.because] == [True, False]
    assert "no test that passed" in undecided.because[-1].text
    against = answer_of(certificate(QuestionType.GO, findings=(critical(),), evidence=untested))
    assert [line.rule for line in against.because] == ["ESP101"]


def test_advice_begins_with_the_finding_unless_the_summary_names_it():
    answer = answer_of(advice("memory-diagnostician: It grows with every batch.", findings=(finding(),)))
    assert answer.text.startswith("examples/train.py:9: every loss in `losses` keeps the graph")
    named = answer_of(advice("The list at examples/train.py:9 keeps graphs.", findings=(finding(),)))
    assert named.text == "The list at examples/train.py:9 keeps graphs."


def test_an_answer_has_at_most_three_sentences_and_no_agent_in_front():
    answer = answer_of(advice("pytorch-code-reviewer: one grows. Two at net.py:3. Three is 0.5. Four."))
    assert answer.text == "One grows. Two at net.py:3. Three is 0.5."


def test_the_answer_is_in_the_programs_words_and_the_models_follow_under_its_name():
    issued = replace(full(), summary="The loader does not shuffle. Clip the gradients.")
    answer = answer_of(issued)
    assert answer.model == "claude-opus-5"
    assert answer.text.startswith("No: 1 critical")
    assert answer.model_text == "The loader does not shuffle. Clip the gradients."


def test_the_sentences_of_a_model_that_are_not_shown_are_counted():
    issued = replace(full(), summary="One grows. Two is at net.py:3. Three is 0.5. Four. Five.")
    assert answer_of(issued).model_text.endswith("Three is 0.5. (2 more sentences in the certificate)")


@pytest.mark.parametrize(
    ("stance", "summary", "is_shown"),
    [
        (Stance.AGAINST, "Looks good to me, ship it.", False),
        (Stance.AGAINST, "Everything is fine.", False),
        (Stance.AGAINST, "It is not safe to merge.", True),
        (Stance.UNDECIDED, "Approved: nothing wrong.", False),
        (Stance.UNDECIDED, "Do not merge this.", False),
        (Stance.FOR, "This must not be merged.", False),
        (Stance.FOR, "Safe to merge.", True),
    ],
)
def test_words_of_a_model_that_contradict_the_verdict_are_not_in_the_head(stance, summary, is_shown):
    issued = full()
    verdict = replace(issued.verdict, stance=stance, status=status_for(issued.verdict.kind, stance))
    assert bool(answer_of(replace(issued, summary=summary, verdict=verdict)).model_text) is is_shown


def test_words_of_a_model_with_an_unverified_number_are_not_in_the_head():
    doubt = "Unverified: the summary says 3.4x, which no measurement of this session has."
    assert not answer_of(replace(full(), summary="It is 3.4x faster.", caveats=(doubt,))).model_text


def test_conditions_caveats_and_follow_ups_of_a_model_are_in_the_answer_and_disputes_beside_the_findings():
    disputed = f"The finding {critical(1).claim.rule} is about a line that never runs."
    issued = replace(full(), caveats=(disputed, "Only the CPU was tried."), next_steps=("Add a test.",))
    met = replace(issued.verdict, conditions=("fix ESP101", "the model's condition: train.py is not resumed"))
    answer = answer_of(replace(issued, verdict=met))
    assert answer.because[0].remarks == (disputed,)
    assert answer.caveats == (disputed, "Only the CPU was tried.")
    assert answer.conditions == ("train.py is not resumed",)
    assert answer.follow_ups == ("Add a test.",)
    approving = answer_of(replace(issued, caveats=("Everything is fine, ship it.",)))
    assert approving.caveats == ("not shown here, as it contradicts the verdict; it is in the certificate",)


def test_runs_of_a_models_code_that_a_finding_cites_are_shown_as_run():
    code = evidence(7, tool="run-python", summary="the code exited with 0: as written equals no clipping: True")
    other = evidence(8, tool="run-python", summary="the code exited with 0: 1")
    cited = replace(finding(severity=Severity.WARNING), evidence=(code.id,))
    answer = answer_of(certificate(findings=(cited,), evidence=(evidence(), code, other)))
    (ran,) = answer.ran
    assert ran.startswith("the code exited with 0: as written equals no clipping: True (code of a model, for examples/")
    assert answer.text.startswith("From reading and runs of a model's code, only once the findings are settled")


def test_a_run_of_a_models_code_that_settled_an_assumption_is_shown_as_run():
    code = evidence(7, tool="run-python", summary="the code exited with 0: weights agree: True")
    settled = Assumption("the weights agree", Tier.WORK, False, AssumptionState.CONFIRMED, (code.id,), "")
    answer = answer_of(replace(certificate(findings=(), evidence=(evidence(), code)), assumptions=(settled,)))
    assert answer.ran == ("the code exited with 0: weights agree: True (code of a model)",)
    assert answer.text.startswith("No objection from reading and runs of a model's code")


def test_the_direct_answer_of_the_program_stands_beside_the_words_of_a_model():
    fact = {"assessment": "fine", "path": "a.py", "line": 9, "text": "it is not needed", "remedy": "", "rule": ""}
    output = {"queries": [{"name": "usage-questions", "facts": [{**fact, "name": "usage-questions"}]}]}
    inspection = evidence(9, tool="inspect-code", output=output)
    told = [each.text for each in answer_of(replace(full(), evidence=(inspection,))).facts]
    assert told == ["it is not needed"]
    direct = finding(severity=Severity.SUGGESTION, rule="usage-questions", message="it is not needed")
    asked = replace(advice(findings=(critical(), direct)), definitions=full().definitions)
    assert answer_of(asked).text.startswith(f"{direct.claim.location}: it is not needed.")
    assert answer_of(certificate(findings=(), evidence=(inspection,))).facts == ()


def test_caveats_of_playbooks_are_not_on_the_first_screen():
    assert answer_of(replace(advice("It grows."), caveats=("From static analysis only.",))).caveats == ()


def test_a_models_reason_for_a_lower_verdict_stands_under_its_name():
    issued = full()
    stated = replace(issued.verdict, below_ceiling="the model's reason: it needs a GPU")
    assert "in the words of claude-opus-5: it needs a GPU" in {
        each.text for each in answer_of(replace(issued, verdict=stated)).because
    }


def test_a_model_cannot_say_that_no_finding_is_about_the_request():
    own = replace(full(), verdict=advice().verdict, findings=(critical(),))
    hidden = replace(own, summary="No finding concerns the request. All is well.")
    assert answer_of(hidden).because == answer_of(own).because
    assert program_summary(hidden) == answer_of(hidden).text != hidden.summary


def test_a_finding_that_only_a_model_reports_is_marked_and_counted_apart():
    issued = full()
    said = replace(issued.findings[0], standing=Standing.LOCATED)
    answer = answer_of(replace(issued, findings=(said, *issued.findings[1:])))
    (line,) = [each for each in (*answer.because, *answer.also) if each.standing]
    assert (line.standing, line.text) == ("located", said.claim.message)
    assert "1 of a model that none of them confirmed" in answer.text


def test_tests_and_measurements_are_reported_and_searches_are_not():
    made = certificate(evidence=(evidence(), ran_tests(), measurement(), evidence(9, tool="torch-targets")))
    answer = answer_of(made)
    assert answer.ran == ("12 tests passed and executed 6 of 7 lines of examples/train.py",)
    assert answer.measured == ("speedup 1.31 (1.27 to 1.35) over 9 replicates",)


def test_missing_information_that_blocks_comes_first_and_its_command_is_next():
    gaps = (
        InformationGap("the batch size", "it decides", "esper torch memory a.py:f"),
        InformationGap("what to run", "nothing was measured", "esper torch nan a.py:g", blocks_approval=True),
    )
    answer = answer_of(advice(gaps=gaps))
    assert answer.unknown == ("what to run; nothing was measured", "the batch size; it decides")
    assert answer.next_command == "esper torch nan a.py:g"


def test_a_command_that_runs_as_printed_is_preferred_to_one_with_a_placeholder():
    gaps = (
        InformationGap("a version", "", "esper torch compare a.py:f FILE.py:NEW", blocks_approval=True),
        InformationGap("a typing error", "", "esper nan a.py:g"),
        InformationGap("the batch size", "", "esper torch memory a.py:f"),
    )
    assert answer_of(advice(gaps=gaps)).next_command == "esper torch memory a.py:f"
    only = answer_of(advice(gaps=gaps[:2])).next_command
    assert only == "esper torch compare a.py:f FILE.py:NEW # FILE.py:NEW: the other version"


def test_tests_are_offered_only_after_tests_are_written_if_the_project_has_none():
    found = evidence(7, tool="related-code", output={"tests": [], "own_tests": [], "other_tests": 0})
    made = certificate(QuestionType.GO, request="may this ship?", evidence=(evidence(), found))
    assert made.verdict.stance is Stance.UNDECIDED
    command = answer_of(made).next_command
    assert command.endswith("--allow run-tests # after adding tests that call examples/train.py")
    assert answer_of(replace(made, evidence=(evidence(),))).next_command.endswith("--allow run-tests")


def test_a_request_with_a_trace_is_repeated_by_its_certificate():
    long = 'may this ship?\nTraceback (most recent call last):\n  File "a.py", line 1\nValueError: no\n'
    found = evidence(7, tool="related-code", output={"tests": [], "own_tests": [], "other_tests": 0})
    made = certificate(QuestionType.GO, request=long, evidence=(evidence(), found))
    command = answer_of(made).next_command
    assert command == f"esper submit --rerun {made.id} # after adding tests that call examples/train.py"


def test_a_verdict_from_reading_alone_says_so_and_one_with_a_run_does_not():
    read = certificate(findings=(), evidence=(evidence(),))
    assert answer_of(read).text == "No objection from reading alone: no finding in 1 file (10 lines); no test ran."
    found = certificate(findings=(finding(severity=Severity.WARNING),), evidence=(evidence(),))
    assert answer_of(found).text.startswith("From reading alone, only once the findings are settled: 1 warning")
    measured = certificate(findings=(), evidence=(evidence(), measurement()))
    assert "reading alone" not in answer_of(measured).text


def test_a_verdict_on_evidence_that_was_run_again_is_told_in_its_own_words():
    made = certificate(findings=(), evidence=(evidence(),), summary="4 of 4 pieces of evidence came out again.")
    again = replace(made, task=replace(made.task, options={REPRODUCE: "crt_1"}))
    assert answer_of(again).text == "4 of 4 pieces of evidence came out again."


def test_findings_beside_the_request_neither_lead_nor_decide():
    answer = answer_of(advice("No finding concerns reproducibility; 1 about something else.", findings=(finding(),)))
    assert answer.text.startswith("No finding concerns reproducibility")
    assert (answer.because, len(answer.also)) == ((), 1)


def inspected(*places, wish="find-cause"):
    """Return the evidence of an inspection with facts at places."""
    facts = [
        {"assessment": "must change", "path": path, "line": line, "text": "grows", "remedy": "", "rule": rule}
        for path, line, rule in places
    ]
    output = {"queries": [{"name": "kept-memory", "facts": facts}]}
    return evidence(9, tool="inspect-code", output=output, arguments={"wish": wish, "topics": ["memory"]})


def test_where_a_cause_was_looked_for_only_findings_at_its_places_are_in_the_answer():
    other, own = finding(), critical()
    place = own.claim.location.path, own.claim.location.line, own.claim.rule
    assert place != (other.claim.location.path, other.claim.location.line, other.claim.rule)
    looked = answer_of(advice("It grows.", findings=(other, own), evidence=(inspected(place),)))
    assert [each.place for each in (*looked.because, *looked.also)] == [str(own.claim.location)]
    read = answer_of(advice("It grows.", findings=(other, own), evidence=(inspected(place, wish="judge"),)))
    assert len((*read.because, *read.also)) == 2


def test_if_no_cause_was_found_faults_about_something_else_are_named_last():
    minor = finding(severity=Severity.SUGGESTION)
    looked = answer_of(advice("It grows.", findings=(minor, critical()), evidence=(inspected(),)))
    assert (looked.because, [each.place for each in looked.also]) == ((), [str(critical().claim.location)])


def test_what_two_agents_say_alike_is_said_once():
    assert answer_of(advice("It grows. It grows. It leaks.")).text == "It grows. It leaks."


def test_the_edits_of_a_change_are_told_and_what_is_only_form_is_told_apart():
    change = {"edits": [{"place": "a.py:3", "text": "`x` lost its `.detach()`"}, 7], "form": ["1 rename (`a` to `b`)"]}
    options = {"diff": "main", "change-base": "a" * 40}

    def told(**changes):
        made = certificate(evidence=(evidence(output={"change": {**change, **changes}}),))
        return answer_of(replace(made, task=replace(made.task, options=options))).changed

    assert told() == ("a.py:3  `x` lost its `.detach()`", "unchanged by syntax: 1 rename (`a` to `b`)")
    assert told(edits=[]) == ("unchanged by syntax: 1 rename (`a` to `b`)",)
    alone = "behaviour of the Python sources unchanged by syntax: 1 rename (`a` to `b`)"
    assert told(edits=[], form_only=True) == (alone,)
    assert told(edits=3, form=None) == ()
    assert answer_of(certificate(evidence=(evidence(),))).changed == ()


def test_the_answer_about_a_change_begins_with_what_the_code_does_otherwise():
    rows = [
        ("a.py:3", "adds `log(x)`"),
        (
            "a.py:5",
            "the default of `n` is `2` instead of `1`; 1 of 2 calls there take it: b.py:7 (line 5 before: `n=1`)",
        ),
        ("a.py:9", "`if x` moved into `_check` (line 1), which is called here"),
    ]
    change = {"edits": [{"place": place, "text": text} for place, text in rows]}
    options = {"diff": "main", "change-base": "a" * 40}
    for made in (certificate(), advice("Static review: found nothing in 1 file.")):
        seen = replace(made, evidence=(evidence(output={"change": change}),))
        text = answer_of(replace(seen, task=replace(seen.task, options=options))).text
        assert "in 1 place: a.py:5 the default of `n` is `2` instead of `1`." in text
        assert "log" not in text


def test_lines_that_failing_tests_executed_are_told_apart_from_those_of_passing_ones():
    counts = {"passed": 2, "failed": 1, "errors": 0, "skipped": 0}
    rows = [{"path": "a.py", "lines": 5, "executed": 0, "failing": 4}]
    made = certificate(
        evidence=(evidence(), ran_tests(output={"outcome": "failed", "counts": counts, "coverage": rows}))
    )
    assert answer_of(made).ran == ("1 test failed and executed 4, 2 passed and executed 0 of 5 lines of a.py",)


def test_what_a_model_says_follows_what_the_program_recorded_and_unverified_findings_come_last():
    standings = (Standing.UNVERIFIED, Standing.LOCATED, Standing.RECORDED)
    said = tuple(replace(critical(number), standing=each) for number, each in enumerate(standings))
    answer = answer_of(replace(advice(), findings=(*said, finding(9))))
    assert [each.standing for each in answer.because if each.severity] == ["", "located", "", "unverified"]


def test_beside_a_stack_trace_that_was_explained_other_findings_are_not_in_the_answer():
    traced = replace(critical(), claim=replace(critical().claim, rule="TRACE"))
    explained = evidence(9, tool="explain-trace", output={})
    answer = answer_of(advice("It is raised there.", findings=(finding(), traced), evidence=(explained,)))
    assert [each.rule for each in (*answer.because, *answer.also)] == ["TRACE"]
    alone = answer_of(advice("It is raised there.", findings=(finding(),), evidence=(explained,)))
    assert (alone.because, alone.also) == ((), ())


CHANGE = TaskChange("--pr", "a" * 40, "", "0" * 64, ("examples/train.py",))
EDIT = {"place": "examples/train.py:3", "text": "`dim` of `sum` is `0` instead of `1`"}
SAME = {"target": "examples/train.py:step", "outcome": "same", "inputs": 40, "lines": [2, 5]}


def of_change(**changes):
    reviewed = {
        "change": {"edits": [EDIT], "form": ["docstrings"], "lines": 9, "form_lines": 8},
        "findings": 0,
        "lines": 10,
    }
    review = evidence(output=reviewed)
    made = certificate(QuestionType.GO, evidence=(review, *changes.pop("ran", ())), **changes)
    return answer_of(replace(made, task=replace(made.task, options={**made.task.options, **CHANGE.options})))


def test_the_answer_about_a_change_names_the_finding_first_and_counts_what_is_form():
    answer = of_change(findings=(critical(),))
    assert answer.text == (
        "No: examples/train.py:7 gradients add up over all steps, because nothing clears them; 1 critical in 1 file "
        "(10 lines); no test ran. The change alters what the code does in 1 place: examples/train.py:3 "
        "`dim` of `sum` is `0` instead of `1`. 8 of 9 changed lines are form (docstrings)."
    )


def test_inputs_that_the_program_did_not_choose_are_not_called_made_up():
    ran = evidence(2, tool="torch-versions", output={"comparisons": [{**SAME, "is_synthetic": False}]})
    assert "before and after the change on 40 kinds of input." in of_change(ran=(ran,), findings=()).text


def test_an_edit_that_did_the_same_when_run_is_not_said_to_alter_anything_and_lifts_nothing():
    ran = evidence(2, tool="torch-versions", output={"comparisons": [SAME], "synthetic": True})
    answer = of_change(ran=(ran,), findings=())
    assert answer.status is Status.NEEDS_FURTHER_REVIEW
    assert "alters" not in answer.text
    assert "`step` does the same before and after the change on 40 kinds of input, made up." in answer.text
    assert answer.changed[0].startswith("examples/train.py:3  the same when run: ")
