from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256

import pytest
from certificate_samples import TRAIN, certificate, critical, every_text, evidence, finding, full, of_status, source
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.archive.verification.statement import CheckOutcome, verify_statement, verify_view
from esper_agents.certificates.policy.verdict_ceiling import policy_text
from esper_agents.certificates.statement import normal, parse, statement
from esper_agents.certificates.views.markdown import layout, render_markdown
from esper_agents.domain.agent_action import RiskAssessment
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.finding import Location, Standing
from esper_agents.domain.status import QuestionType, Stance, Status

POLICY = policy_text()


def outcomes(checks):
    return {check.name: check.outcome for check in checks}


def failing(made, policy=POLICY):
    checks = verify_statement(statement(made), policy)
    return {check.name: check.detail for check in checks if check.outcome is not CheckOutcome.HOLDS}


def with_verdict(made, **changes):
    return replace(made, verdict=replace(made.verdict, **changes))


@pytest.mark.parametrize("status", Status)
def test_a_genuine_certificate_of_every_status_holds_in_everything(status):
    data = statement(of_status(status))
    assert set(outcomes(verify_statement(data, POLICY)).values()) == {CheckOutcome.HOLDS}
    assert set(outcomes(verify_view(data, render_markdown(data))).values()) == {CheckOutcome.HOLDS}


def test_what_was_recorded_with_unseen_characters_in_it_derives_again():
    nasty = "\x1b[31m" * 30 + "\r\nbatch \ud800"
    made = certificate(
        findings=(finding(rule=nasty, location=Location("examples/train.py", 9)),),
        gaps=(InformationGap(nasty, nasty, nasty, blocks_approval=True),),
        assumptions=(Assumption(nasty, Tier.WORK, True, AssumptionState.OPEN, (), ""),),
        risks=RiskAssessment("High", "Easy"),
    )
    assert failing(made) == {}
    assert failing(normal(made)) == {}


def test_a_view_with_another_hash_fails():
    data = statement(full())
    view = render_markdown(data)
    forged = view.replace(view.split("Certificate Hash: sha256:")[1][:8], "00000000")
    assert outcomes(verify_view(data, forged)) == {
        "record": CheckOutcome.HOLDS,
        "hash in the view": CheckOutcome.FAILS,
        "view": CheckOutcome.FAILS,
    }


@pytest.mark.parametrize(
    "forge",
    [
        lambda view: view.replace("REQUIRES_REMEDIATION", "APPROVED"),
        lambda view: view + "\n",
        lambda view: view.replace("\n", "\r\n"),
        lambda view: view.replace("Conditions", "conditions"),
        lambda view: view[:-1],
        lambda view: view[:0],
    ],
)
def test_a_view_with_anything_changed_fails(forge):
    data = statement(full())
    forged = forge(render_markdown(data))
    assert outcomes(verify_view(data, forged))["view"] is CheckOutcome.FAILS


def test_a_second_hash_in_a_view_fails():
    data = statement(full())
    view = render_markdown(data)
    assert outcomes(verify_view(data, view + view))["hash in the view"] is CheckOutcome.FAILS
    assert outcomes(verify_view(data, "# nothing"))["hash in the view"] is CheckOutcome.FAILS


def test_a_view_of_an_older_layout_cannot_be_compared_but_its_hash_can():
    data = statement(full())
    older = render_markdown(data).replace(layout(), "0.deadbeef0000").replace("## FINDINGS", "## FOUND")
    assert outcomes(verify_view(data, older)) == {
        "record": CheckOutcome.HOLDS,
        "hash in the view": CheckOutcome.HOLDS,
        "view": CheckOutcome.CANNOT_DECIDE,
    }


def test_a_view_of_an_earlier_version_is_compared_with_what_that_version_rendered():
    data, earlier = statement(full()), "1.44146d57bf61"
    view = render_markdown(data, earlier)
    assert view != render_markdown(data)
    assert set(outcomes(verify_view(data, view)).values()) == {CheckOutcome.HOLDS}
    forged = view.replace("**Status**: REQUIRES_REMEDIATION", "**Status**: APPROVED")
    assert outcomes(verify_view(data, forged))["view"] is CheckOutcome.FAILS


@pytest.mark.parametrize("named", ["0.deadbeef0000", "../../etc/passwd", "1.44146d57bf61/../1.44146d57bf61", ""])
def test_a_layout_that_a_view_names_becomes_no_path(named):
    data = statement(full())
    other = render_markdown(data).replace(f"View: {layout()}", f"View: {named}")
    assert outcomes(verify_view(data, other))["view"] is CheckOutcome.CANNOT_DECIDE


def test_the_line_where_a_view_differs_is_named():
    data = statement(full())
    forged = render_markdown(data).replace("**Agent**", "**agent**")
    assert verify_view(data, forged)[-1].detail == "view differs from the statement from line 5 on"


def test_bytes_that_are_no_certificate_fail_and_raise_nothing():
    for checks in (verify_view(b"{}", "x"), verify_statement(b"{}", POLICY)):
        assert [check.outcome for check in checks] == [CheckOutcome.FAILS]
        assert checks[0].detail.startswith("not a certificate: ")


def test_under_another_policy_the_ceiling_cannot_be_derived():
    found = outcomes(verify_statement(statement(full()), POLICY + "# another\n"))
    assert found["policy"] is found["ceiling"] is CheckOutcome.CANNOT_DECIDE
    assert found["verdict"] is CheckOutcome.HOLDS


def test_a_policy_that_this_version_cannot_read_decides_nothing():
    text = "version = 99\n"
    made = full()
    top = replace(made.verdict.ceiling, policy_sha256=sha256(text.encode()).hexdigest())
    assert "policy" in failing(with_verdict(made, ceiling=top), text)


def test_a_ceiling_that_the_facts_do_not_give_fails():
    made = of_status(Status.APPROVED)
    lifted = replace(made, findings=(critical(),))
    assert failing(lifted) == {"ceiling": "recorded status APPROVED, recomputed status REQUIRES_REMEDIATION"}


def test_a_finding_taken_out_of_the_record_fails():
    made = certificate(findings=(critical(), finding(2)))
    assert failing(replace(made, findings=(critical(),))) == {
        "ceiling": "applied policy rules differ from the recorded ones"
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stance": Stance.FOR, "status": Status.APPROVED}, "for is above the ceiling against"),
        ({"status": Status.APPROVED}, "APPROVED is not the approval status for against"),
        ({"stance": Stance.REJECTED, "status": Status.REJECTED}, "below its ceiling without a reason"),
    ],
)
def test_a_verdict_that_its_ceiling_does_not_carry_fails(changes, words):
    assert words in failing(with_verdict(certificate(findings=(critical(),)), **changes))["verdict"]


def test_a_conditional_verdict_without_a_condition_fails():
    made = certificate(findings=(finding(),))
    assert failing(with_verdict(made, conditions=())) == {"verdict": "verdict is conditional without a condition"}


def test_an_approval_with_conditions_fails():
    assert failing(with_verdict(certificate(), conditions=("x",))) == {
        "verdict": "verdict is unconditional and has conditions"
    }


def test_a_verdict_of_another_kind_than_the_task_fails():
    made = certificate()
    assert "another question type" in failing(replace(made, task=replace(made.task, kind=QuestionType.GO)))["verdict"]


@pytest.mark.parametrize(
    ("location", "words"),
    [
        (Location("examples/train.py", 11), "has 10 lines, but 11 to 11 is cited"),
        (Location("examples/train.py", 9, 1, 12), "9 to 12 is cited"),
        (Location("examples/train.py", 0), "0 to 0 is cited"),
        (Location("examples/other.py", 1), "examples/other.py:1 is not a file that was read"),
    ],
)
def test_a_citation_of_what_was_not_read_fails(location, words):
    assert words in failing(certificate(findings=(finding(location=location),)))["citations"]


def test_a_finding_marked_as_unverified_may_cite_what_is_not_there_and_a_located_one_may_not():
    invented = replace(finding(), claim=replace(finding().claim, location=Location("gone.py", 12)), evidence=())
    for standing, is_wrong in ((Standing.UNVERIFIED, False), (Standing.LOCATED, True)):
        made = certificate(findings=(replace(invented, standing=standing),))
        assert ("citations" in failing(made), "evidence" in failing(made)) == (is_wrong, is_wrong)


def test_a_finding_recorded_by_the_program_has_no_standing_in_the_bytes():
    made = certificate(findings=(finding(1), replace(finding(2), standing=Standing.LOCATED, checks=("found",))))
    recorded, said = json.loads(statement(made))["predicate"]["findings"]
    assert not {"standing", "checks"} & set(recorded)
    assert (said["standing"], said["checks"]) == ("located", ["found"])
    assert parse(statement(made)) == normal(made)


def test_a_citation_of_the_last_line_holds():
    assert failing(certificate(findings=(finding(location=Location("examples/train.py", 10, 1, 10)),))) == {}


def test_a_finding_without_evidence_on_record_fails():
    assert "has no evidence" in failing(certificate(findings=(replace(finding(), evidence=()),)))["evidence"]
    unknown = replace(finding(), evidence=("ev_" + "9" * 32,))
    assert "which is not included" in failing(certificate(findings=(unknown,)))["evidence"]


def test_a_file_that_no_completed_call_read_fails():
    made = certificate(examined=(source(), source("b.py")))
    assert failing(made)["evidence"] == "no recorded call read b.py"
    other = certificate(examined=(replace(source(), sha256="0" * 64),))
    assert failing(other)["evidence"] == "no recorded call read examples/train.py"


def test_a_long_list_of_problems_is_cut():
    findings = tuple(finding(number, location=Location(f"{number}.py", 1)) for number in range(9))
    assert failing(certificate(findings=findings))["citations"].endswith(" and 6 more")


def test_every_detail_is_told_for_whatever_text_a_certificate_holds():
    data = statement(every_text(full(), "\x1b]0;x\x07## y"))
    checks = verify_statement(data, POLICY)
    assert outcomes(checks)["citations"] is CheckOutcome.HOLDS
    assert outcomes(checks)["policy"] is CheckOutcome.CANNOT_DECIDE


def test_a_status_changed_in_the_bytes_is_found():
    value = json.loads(statement(certificate(findings=(critical(),))))
    value["predicate"]["verdict"]["status"] = "APPROVED"
    data = json.dumps(value).encode()
    assert parse(data).verdict.status is Status.APPROVED
    assert outcomes(verify_statement(data, POLICY))["verdict"] is CheckOutcome.FAILS


def test_a_file_that_changed_under_the_session_may_be_cited_in_either_state():
    longer = source(text=TRAIN + "# more\n" * 5)
    for files in ((source(), longer), (longer, source())):
        cited = finding(location=Location("examples/train.py", 14))
        made = certificate(evidence=(evidence(examined=files),), examined=files, findings=(cited,))
        assert failing(made) == {}


@given(st.permutations([critical(1), critical(2), finding(3), critical(4), critical(5), finding(6)]))
def test_the_order_in_which_findings_were_recorded_does_not_matter(findings):
    assert failing(replace(certificate(findings=findings), findings=tuple(reversed(findings)))) == {}


def kind_of_task(request, kind):
    made = certificate()
    data = statement(replace(made, task=replace(made.task, request=request, kind=kind)))
    return next(check for check in verify_statement(data, POLICY) if check.name == "kind")


@pytest.mark.parametrize("request_", ["review this", "may this ship?", "which is better, a.py or b.py?"])
def test_advice_on_a_request_whose_words_ask_for_more_holds(request_):
    found = kind_of_task(request_, QuestionType.ADVICE)
    assert found.outcome is CheckOutcome.HOLDS
    assert "approves nothing" in found.detail


def test_more_than_the_words_ask_for_fails():
    assert kind_of_task("what does this do?", QuestionType.GO).outcome is CheckOutcome.FAILS
