"""Certificates that close follow-ups of earlier ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from certificate_samples import certificate, evidence, finding, source

from esper_agents.domain.change import BASE, DIFF, HEAD, TREE
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Category, Standing
from esper_agents.orchestration.follow_ups import checks_again

PATH = "examples/train.py"
RULES = {"rules": ["ESP101", "ESP301"]}
BRANCH = {DIFF: "main...perf/lean", BASE: "a" * 40, HEAD: "b" * 40, TREE: "commit"}
OTHER_BRANCH = BRANCH | {DIFF: "main...perf/other"}
WORK_TREE_CHANGE = {DIFF: "main", BASE: "a" * 40}


def review(text="x = 1\n", **fields):
    return evidence(**{"examined": (source(text=text),), "output": RULES, **fields})


def change_review(**fields):
    return review(arguments={"paths": [PATH], "since": "main..lean"}, **fields)


def issued(*calls, findings=(), options=None):
    made = certificate(evidence=calls, examined=(source(text="x = 1\n"),), findings=findings)
    return replace(made, task=replace(made.task, options=options or {}))


def before(call=None, options=None, **fields):
    found = finding()
    return issued(call or evidence(), findings=(replace(found, **fields),), options=options)


def closes(*calls, earlier=None, options=None):
    earlier = earlier or before()
    return checks_again(issued(*calls, options=options), earlier, earlier.findings[0].claim.fingerprint)


def test_a_review_of_the_file_by_the_rule_that_found_it_closes_a_follow_up():
    assert closes(review())
    assert closes(review(arguments={"paths": ["examples"], "categories": ["memory"]}))


@pytest.mark.parametrize(
    "call",
    [
        review(arguments={"paths": ["examples/losses.py"], "related": [PATH]}),
        review(output={"rules": ["ESP101"]}),
        review(outcome=CallOutcome.FAILED),
        review(tool="read-file"),
        review(examined=(source("examples/losses.py"),)),
        change_review(),
    ],
    ids=["context of another file", "other rules", "failed", "only read", "not read", "only a change"],
)
def test_a_call_that_does_not_check_the_file_for_the_finding_closes_nothing(call):
    assert not closes(call)


def test_a_review_of_content_that_was_edited_later_closes_nothing():
    edited = evidence(2, tool="edit-file", examined=(source(text="x = 2\n"),))
    assert not closes(review(), edited)
    assert closes(review(), edited, review("x = 2\n", id="ev_3"))


def test_a_finding_in_a_branch_is_closed_only_by_a_review_of_the_same_branch():
    earlier = before(change_review(), options=BRANCH)
    assert not closes(review(), earlier=earlier)
    assert not closes(change_review(), earlier=earlier, options=OTHER_BRANCH)
    assert not closes(change_review(), earlier=before(), options=BRANCH)
    assert closes(change_review(), earlier=earlier, options=BRANCH | {HEAD: "c" * 40})


def test_what_a_change_removed_is_not_checked_by_a_review_of_the_file_as_it_is():
    removed = replace(finding().claim, category=Category.COMPANION)
    earlier = before(change_review(), options=WORK_TREE_CHANGE, claim=removed)
    assert not closes(review(), earlier=earlier)
    assert closes(review(), earlier=before(change_review(), options=WORK_TREE_CHANGE))
    assert closes(change_review(), earlier=earlier, options=WORK_TREE_CHANGE)


def test_a_finding_of_another_tool_is_closed_by_the_same_call():
    earlier = before(evidence(tool="torch-nan", arguments={"target": "a:b"}))
    assert closes(review(tool="torch-nan", arguments={"target": "a:b"}), earlier=earlier)
    assert not closes(review(tool="torch-nan", arguments={"target": "a:c"}), earlier=earlier)


def test_no_call_closes_what_only_a_model_said():
    assert not closes(review(), earlier=before(standing=Standing.LOCATED))
