"""Certificates that close follow-ups of earlier ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from certificate_samples import certificate, evidence, finding, source

from esper_agents.api import open_project
from esper_agents.domain.change import BASE, DIFF, HEAD, TREE
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Category, Standing
from esper_agents.domain.memory import NoteKind, NoteState
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


TRAIN = """\
from losses import loss_of


def train(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss
    return total
"""
LOSSES = "import torch.nn.functional as F\n\n\ndef loss_of(x, y):\n    return F.cross_entropy(x, y)\n"


async def follow_up_states(root, *paths):
    """Return the states of the follow-ups for the finding in `train.py` after a review of each path."""
    async with open_project(root) as project:
        for path in paths:
            task = project.tasks.create("review this", [root / path], agent="pytorch-code-reviewer")
            await (await project.tasks.submit(task)).run()
        found = await project.memory.list(agent="pytorch-code-reviewer", kind=NoteKind.ACTION)
    return [each.state for each in found if "ESP301" in each.text]


@pytest.mark.anyio
async def test_a_review_that_reads_the_file_as_context_leaves_the_follow_up_open(make_project):
    root = make_project({"train.py": TRAIN, "losses.py": LOSSES})
    assert await follow_up_states(root, "train.py", "losses.py") == [NoteState.CURRENT]
    (root / "train.py").write_text(TRAIN.replace("total += loss", "total += loss.detach()"))
    assert await follow_up_states(root, "losses.py") == [NoteState.CURRENT]
    assert await follow_up_states(root, "train.py") == [NoteState.DONE]


@pytest.mark.anyio
async def test_a_review_of_another_branch_leaves_the_follow_ups_of_a_branch_open(make_project, git):
    root = make_project({"train.py": TRAIN.replace("total += loss", "total += loss.detach()"), "losses.py": LOSSES})
    git(root, "checkout", "-q", "-b", "lean")
    (root / "train.py").write_text(TRAIN)
    git(root, "commit", "-q", "-a", "-m", "lean")
    git(root, "checkout", "-q", "main")
    async with open_project(root) as project:
        await (await project.tasks.submit(project.tasks.create("can I merge this?", diff="main...lean"))).run()
    assert await follow_up_states(root) == [NoteState.CURRENT]
    assert await follow_up_states(root, "train.py") == [NoteState.CURRENT]
