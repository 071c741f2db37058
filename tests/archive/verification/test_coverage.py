from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from certificate_samples import evidence, measurement, of_status, ran_tests, source

from esper_agents.archive.verification import coverage
from esper_agents.archive.verification.coverage import (
    AGAINST,
    CoverageState,
    CoveringCertificate,
    coverage_of,
    exit_code,
    narrower_than_review,
)
from esper_agents.archive.verification.supersession import Override
from esper_agents.archive.verification.verify import FreshnessState, VerificationResult
from esper_agents.certificates.check import Check, CheckOutcome
from esper_agents.domain.change import TaskChange
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.gate_level import GateLevel
from esper_agents.domain.status import Status
from esper_agents.errors import ExitCode

PATH, HERE, OLD = "train.py", "a" * 64, "b" * 64
ENOUGH = frozenset({Status.APPROVED, Status.GO})


def judged(
    status=Status.APPROVED,
    *,
    agent="pytorch-code-reviewer",
    digest=HERE,
    genuine=CheckOutcome.HOLDS,
    complete=CheckOutcome.HOLDS,
    currency=FreshnessState.VALID,
):
    verified = VerificationResult(
        certificate=replace(of_status(status), agent=agent),
        genuine=(Check("signature", genuine, ""),),
        complete=(Check("log", complete, ""),),
        verdict=(Check("ceiling", CheckOutcome.HOLDS, ""),),
        citations=(Check("citations", CheckOutcome.HOLDS, ""),),
        currency=currency,
        place=None,
        later=(),
        files=(),
        root=Path(),
    )
    return CoveringCertificate(verified, {PATH: frozenset({digest})})


def standing(*found, agent="", required=ENOUGH):
    return coverage_of(PATH, HERE, agent, found, required)


def test_a_valid_approval_of_the_bytes_that_are_there_covers_them():
    assert standing(judged()).standing is CoverageState.COVERED


@pytest.mark.parametrize("status", [Status.APPROVED, Status.GO])
@pytest.mark.parametrize("run", [(), (measurement(tool="torch-profile"),), (ran_tests(output={"exit_code": 0}),)])
def test_a_status_that_todays_policy_would_not_allow_for_its_evidence_does_not_count(status, run):
    old = judged(status)
    issued = replace(old.verified.certificate, evidence=(evidence(), *run))
    old = replace(old, verified=replace(old.verified, certificate=issued))
    found = standing(old)
    assert (found.standing, found.certificate) == (CoverageState.NOT_CURRENT, issued.id)
    assert found.why.startswith(f"it does not count: {status}, and today's policy allows ")
    assert "executed examples/train.py" in found.why
    # Another one that counts does.
    assert standing(old, judged()).standing is CoverageState.COVERED


def test_a_verdict_against_a_file_counts_whatever_todays_policy_says():
    against = judged(Status.REQUIRES_REMEDIATION)
    issued = replace(against.verified.certificate, findings=())
    against = replace(against, verified=replace(against.verified, certificate=issued))
    assert standing(against).standing is CoverageState.AGAINST


def of_change(base, *, digest=HERE, blob="after", status=Status.GO, **more):
    """Return a certificate about a change, from content with one git object to content with another."""
    found = judged(status, digest=digest, **more)
    issued = found.verified.certificate
    options = TaskChange("main", "c" * 40, "", "d" * 64).options
    task = replace(issued.task, options={**issued.task.options, **options}, paths=(PATH,))
    # The samples were executed, but not as what a change brings: see the tests of the policy.
    issued = replace(issued, task=task, verdict=replace(issued.verdict, kind=issued.verdict.kind))
    narrower = {PATH: f"reviewed for {issued.task.change.label} only"}
    verified = replace(found.verified, certificate=issued)
    return replace(found, verified=verified, narrower=narrower, bases={PATH: base}, blobs={PATH: frozenset({blob})})


@pytest.fixture
def lenient(monkeypatch):
    """Let each recorded status count: what the policy allows for a change is tested with the policy."""
    monkeypatch.setattr(coverage, "_excess", lambda _: "")


@pytest.mark.usefixtures("lenient")
def test_a_change_covers_a_file_that_it_added_or_whose_content_before_was_covered():
    whole = replace(judged(digest=OLD, currency=FreshnessState.STALE), blobs={PATH: frozenset({"before"})})
    assert standing(of_change("")).standing is CoverageState.COVERED
    assert standing(of_change("before"), whole).standing is CoverageState.COVERED
    between = of_change("before", digest="c" * 64, blob="between", currency=FreshnessState.STALE)
    assert standing(of_change("between"), between, whole).standing is CoverageState.COVERED
    found = standing(of_change("before"))
    assert (
        found.standing,
        found.why.endswith("the file was reviewed for change ccccccccc..work tree (1 file) only"),
    ) == (
        CoverageState.UNCOVERED,
        True,
    )


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize(
    "whole",
    [
        judged(Status.NEEDS_FURTHER_REVIEW, digest=OLD),
        judged(digest=OLD, currency=FreshnessState.REVOKED),
        judged(digest=OLD, genuine=CheckOutcome.CANNOT_DECIDE),
        judged(Status.ADVISORY_ONLY, digest=OLD),
    ],
)
def test_a_change_to_content_that_no_certificate_covered_covers_nothing(whole):
    whole = replace(whole, blobs={PATH: frozenset({"before"})})
    open_states = {CoverageState.UNCOVERED, CoverageState.NOT_CURRENT}
    assert standing(of_change("before"), whole).standing in open_states


@pytest.mark.usefixtures("lenient")
def test_content_that_is_accepted_needs_no_certificate_and_changes_that_build_on_each_other_end():
    found = coverage_of(PATH, HERE, "", [of_change("main")], ENOUGH, accepted="main")
    assert found.standing is CoverageState.COVERED
    loop = [of_change("one", blob="two"), of_change("two", blob="one")]
    assert standing(*loop).standing is CoverageState.UNCOVERED


@pytest.mark.usefixtures("lenient")
def test_a_later_edit_makes_a_change_stale_with_the_reason():
    found = standing(of_change("", digest=OLD, currency=FreshnessState.STALE))
    assert found.standing is CoverageState.NOT_CURRENT
    assert found.why == "the file has changed since change ccccccccc..work tree (1 file) was judged"


def test_what_nobody_judged_is_uncovered():
    assert standing().standing is CoverageState.UNCOVERED
    assert standing(replace(judged(), digests={"other.py": frozenset({HERE})})).standing is CoverageState.UNCOVERED


def test_other_bytes_are_not_covered():
    found = standing(judged(digest=OLD))
    assert (found.standing, found.why) == (CoverageState.NOT_CURRENT, "the file has changed since")


@pytest.mark.parametrize("currency", [FreshnessState.STALE, FreshnessState.SUPERSEDED, FreshnessState.REVOKED])
def test_a_verdict_that_has_ended_covers_nothing_even_where_this_file_is_the_same(currency):
    assert standing(judged(currency=currency)).standing is CoverageState.NOT_CURRENT


@pytest.mark.parametrize("group", ["genuine", "complete"])
def test_what_cannot_be_decided_covers_nothing(group):
    assert standing(judged(**{group: CheckOutcome.CANNOT_DECIDE})).standing is CoverageState.UNDECIDED


def test_a_tree_that_may_be_another_one_is_not_covered():
    assert standing(judged(currency=FreshnessState.CANNOT_DECIDE)).standing is CoverageState.UNDECIDED


@pytest.mark.parametrize("group", ["genuine", "complete"])
def test_what_is_not_genuine_stops_the_gate_whatever_else_there_is(group):
    assert standing(judged(), judged(**{group: CheckOutcome.FAILS})).standing is CoverageState.TAMPERED
    assert standing(judged(), judged(**{group: CheckOutcome.FAILS}, digest=OLD)).standing is CoverageState.TAMPERED


@pytest.mark.parametrize("status", sorted(AGAINST))
def test_a_verdict_against_the_same_bytes_stops_the_gate_whoever_approved_them(status):
    assert standing(judged(), judged(status, agent="pytorch-expert")).standing is CoverageState.AGAINST
    assert standing(judged(status, agent="pytorch-expert"), judged()).standing is CoverageState.AGAINST


@pytest.mark.parametrize("status", sorted(AGAINST))
def test_a_verdict_against_that_the_same_agent_took_back_later_does_not(status):
    assert standing(judged(), judged(status)).standing is CoverageState.COVERED


def with_tests(found, *outcomes):
    runs = tuple(ran_tests(number, output={"outcome": each}) for number, each in enumerate(outcomes, 8))
    issued = replace(found.verified.certificate, evidence=(evidence(), *runs))
    return replace(found, verified=replace(found.verified, certificate=issued))


CONDITIONAL = frozenset({Status.APPROVED, Status.CONDITIONALLY_APPROVED})


@pytest.mark.parametrize("currency", [FreshnessState.VALID, FreshnessState.SUPERSEDED])
@pytest.mark.parametrize("runs", [("failed",), ("failed", "passed")])
def test_failing_tests_stand_against_the_same_bytes_until_a_later_run_passes(runs, currency):
    failing = with_tests(judged(Status.REQUIRES_REMEDIATION, currency=currency), *runs)
    unrun = with_tests(judged(Status.CONDITIONALLY_APPROVED))
    found = standing(unrun, failing, required=CONDITIONAL)
    assert (found.standing, found.certificate) == (CoverageState.AGAINST, failing.verified.certificate.id)
    assert found.why.startswith("the tests failed on these bytes, and no later run of them passed")
    undecided = with_tests(judged(Status.CONDITIONALLY_APPROVED), "not decided")
    assert standing(undecided, failing, required=CONDITIONAL).standing is CoverageState.AGAINST
    passing = with_tests(judged(Status.CONDITIONALLY_APPROVED), "passed")
    assert standing(passing, failing, required=CONDITIONAL).standing is CoverageState.COVERED
    assert standing(unrun, passing, failing, required=CONDITIONAL).standing is CoverageState.COVERED


def test_failing_tests_of_other_bytes_or_of_a_revoked_certificate_do_not_stand():
    unrun = with_tests(judged(Status.CONDITIONALLY_APPROVED))
    for ended in ({"digest": OLD}, {"currency": FreshnessState.REVOKED}, {"currency": FreshnessState.STALE}):
        failing = with_tests(judged(Status.REQUIRES_REMEDIATION, **ended), "failed")
        assert standing(unrun, failing, required=CONDITIONAL).standing is CoverageState.COVERED


def test_failing_tests_that_an_accepted_override_answers_for_do_not_stand():
    unrun = with_tests(judged(Status.CONDITIONALLY_APPROVED))
    failing = with_tests(judged(Status.REQUIRES_REMEDIATION), "failed")
    for accepted, expected in ((True, CoverageState.COVERED), (False, CoverageState.AGAINST)):
        waived = overridden(failing, Status.CONDITIONALLY_APPROVED, is_better=True, accepted=accepted)
        assert standing(unrun, waived, required=CONDITIONAL).standing is expected


ASIDE = frozenset({Status.RECOMMEND, Status.DO_NOT_RECOMMEND, Status.ADVISORY_ONLY})


@pytest.mark.parametrize("status", sorted(ASIDE))
def test_advice_and_recommendations_count_neither_for_nor_against(status):
    assert standing(judged(status), judged()).standing is CoverageState.COVERED
    alone = standing(judged(status), required=frozenset(Status))
    assert alone.standing is CoverageState.UNCOVERED
    assert alone.why.endswith(("is advice, which does not count", "is a recommendation, which does not count"))
    refused = standing(judged(status), judged(Status.REJECTED))
    assert (refused.standing, refused.status) == (CoverageState.AGAINST, Status.REJECTED)


def test_a_certificate_that_is_narrower_than_a_review_does_not_cover_a_file():
    narrow = replace(judged(), narrower={PATH: "reviewed for memory only"})
    alone = standing(narrow, agent="pytorch-code-reviewer")
    assert alone.standing is CoverageState.UNCOVERED
    assert "does not cover it: the file was reviewed for memory only" in alone.why
    assert standing(narrow, judged()).standing is CoverageState.COVERED


def test_a_narrower_certificate_stands_against_a_file_and_takes_nothing_back():
    against = replace(judged(Status.REJECTED), narrower={PATH: "reviewed for memory only"})
    assert standing(against, judged()).standing is CoverageState.AGAINST
    narrow = replace(judged(), narrower={PATH: "reviewed for memory only"})
    assert standing(narrow, judged(Status.REJECTED)).standing is CoverageState.AGAINST


def call_of(**arguments):
    arguments = {"paths": ["examples"]} | arguments
    return evidence(arguments=arguments)


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([call_of()], None),
        ([call_of(paths=["."])], None),
        ([call_of(paths=["examples/train.py"])], None),
        ([call_of(categories=[])], None),
        ([call_of(categories=["memory"])], "reviewed for memory only"),
        ([call_of(categories=["memory"]), call_of()], None),
        ([call_of(since="HEAD~1")], "reviewed for what changed since HEAD~1 only"),
        ([call_of(paths=["tests"], related=["examples/train.py"])], "read as context of another file"),
        ([replace(call_of(), tool="read-file")], "read, not reviewed"),
        ([replace(call_of(), outcome=CallOutcome.FAILED)], "read, not reviewed"),
        ([replace(call_of(), examined=(source(text="x = 1\n"),))], "read, not reviewed"),
    ],
)
def test_what_was_reviewed_follows_from_the_evidence(calls, said):
    issued = replace(of_status(Status.APPROVED), evidence=tuple(calls), examined=(source(),))
    assert narrower_than_review(issued).get("examples/train.py") == said


@pytest.mark.parametrize("status", sorted(set(Status) - ENOUGH - AGAINST - ASIDE))
def test_another_status_than_is_required_is_named(status):
    found = standing(judged(status), judged())
    assert found.standing is CoverageState.OTHER_STATUS
    assert found.why == f"{status}, and APPROVED or GO is required"
    assert standing(judged(status), required=frozenset({status})).standing is CoverageState.COVERED


@pytest.mark.parametrize("status", [Status.GO])
def test_a_go_on_a_condition_covers_only_where_conditions_are_taken(status):
    found = judged(status)
    issued = found.verified.certificate
    verdict = replace(issued.verdict, conditions=("its tests must pass as well",))
    found = replace(found, verified=replace(found.verified, certificate=replace(issued, verdict=verdict)))
    required = frozenset({Status.APPROVED, status})
    open_still = standing(found, required=required)
    assert open_still.standing is CoverageState.OTHER_STATUS
    assert "its tests must pass as well" in open_still.why
    taken = standing(found, required=required | {Status.CONDITIONALLY_APPROVED})
    assert taken.standing is CoverageState.COVERED


def overridden(found, status, *, is_better, accepted=False):
    override = Override(status, is_better, "ann", "2026-01-31T09:30:00.000Z", "not shipped", "ntc_" + "0" * 32)
    return replace(found, verified=replace(found.verified, overridden=override), accepts_overrides=accepted)


def test_an_override_that_makes_a_status_better_counts_only_where_that_is_accepted():
    found = overridden(judged(Status.REJECTED), Status.APPROVED, is_better=True)
    refused = standing(found)
    assert (refused.standing, refused.status) == (CoverageState.AGAINST, Status.REJECTED)
    assert "overridden by ann to APPROVED: not shipped (which counts only with --accept-overrides)" in refused.why
    taken = standing(replace(found, accepts_overrides=True))
    assert (taken.standing, taken.status) == (CoverageState.COVERED, Status.APPROVED)
    assert taken.why == "overridden by ann to APPROVED: not shipped"


@pytest.mark.parametrize("accepted", [False, True])
def test_an_override_that_makes_a_status_worse_always_counts(accepted):
    found = standing(overridden(judged(), Status.REJECTED, is_better=False, accepted=accepted))
    assert (found.standing, found.status) == (CoverageState.AGAINST, Status.REJECTED)
    assert found.why.endswith("; overridden by ann to REJECTED: not shipped")


def test_what_an_accepted_override_puts_in_the_place_of_a_status_is_not_under_its_conditions():
    found = judged(Status.CONDITIONALLY_APPROVED)
    assert found.verified.certificate.verdict.conditions
    accepted = overridden(found, Status.APPROVED, is_better=True, accepted=True)
    assert standing(accepted).standing is CoverageState.COVERED
    assert standing(replace(accepted, accepts_overrides=False)).standing is CoverageState.OTHER_STATUS


def test_an_override_that_makes_a_status_worse_waives_no_condition():
    found = judged(Status.CONDITIONALLY_APPROVED)
    worse = overridden(found, Status.NEEDS_FURTHER_REVIEW, is_better=False, accepted=True)
    required = frozenset({Status.NEEDS_FURTHER_REVIEW})
    assert standing(worse, required=required).standing is CoverageState.OTHER_STATUS


@pytest.mark.parametrize("outcome", [CheckOutcome.FAILS, CheckOutcome.CANNOT_DECIDE])
def test_no_override_makes_up_for_what_is_not_genuine(outcome):
    found = overridden(judged(Status.REJECTED, genuine=outcome), Status.APPROVED, is_better=True, accepted=True)
    assert standing(found).standing in {CoverageState.TAMPERED, CoverageState.UNDECIDED}


def test_each_agent_that_is_asked_for_must_have_judged_it():
    assert standing(judged(), agent="pytorch-expert").standing is CoverageState.UNCOVERED
    assert standing(judged(agent="pytorch-expert"), agent="pytorch-expert").standing is CoverageState.COVERED


@pytest.mark.parametrize(
    ("standings", "code"),
    [
        ([], ExitCode.DONE),
        ([CoverageState.COVERED], ExitCode.DONE),
        ([CoverageState.COVERED, CoverageState.UNDECIDED], ExitCode.UNDECIDED),
        ([CoverageState.UNDECIDED, CoverageState.UNCOVERED], ExitCode.NOT_CURRENT),
        ([CoverageState.UNCOVERED, CoverageState.OTHER_STATUS], ExitCode.AGAINST),
        ([CoverageState.AGAINST, CoverageState.NOT_CURRENT], ExitCode.AGAINST),
        ([CoverageState.AGAINST, CoverageState.TAMPERED], ExitCode.TAMPERED),
    ],
)
def test_the_worst_standing_decides_the_exit_code(standings, code):
    found = [replace(standing(judged()), standing=each) for each in standings]
    assert exit_code(found, GateLevel.UNCOVERED) is code
    assert exit_code(found, GateLevel.AGAINST) is (code if {"tampered", "against"} & set(standings) else ExitCode.DONE)
    assert exit_code(found, GateLevel.NEVER) is ExitCode.DONE
