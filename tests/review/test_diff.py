"""What a change brought, and what stood before it, wherever lines and files went."""

from __future__ import annotations

import json

import pytest

from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity
from esper_agents.review.changes import review_change
from esper_agents.review.diff import SnapshotComparison, TreeSnapshot, compare_snapshots, renamed
from esper_agents.review.source import from_bytes

BUGGY = """\
def fit(model, loader, optimizer, criterion):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
SOUND = BUGGY.replace("        loss = ", "        optimizer.zero_grad()\n        loss = ")
KEEPS = SOUND.replace("def fit", "def fit_and_keep").replace(
    "        optimizer.step()\n", "        optimizer.step()\n        losses.append(loss)\n"
)


def tree(files):
    return [from_bytes(text.encode(), path) for path, text in files.items()]


@pytest.fixture
def brought(tmp_path):
    """Return a function from two trees to the rules and lines that the change between them brought."""

    def look(before, after, **more):
        before, after = ({"train.py": each} if isinstance(each, str) else each for each in (before, after))
        report = review_change(tmp_path, tree(before), tree(after), **more).report
        return [f"{claim.rule} {claim.location}" for claim in report.claims]

    return look


def test_what_stood_before_is_not_reported_and_counted(tmp_path):
    both = review_change(tmp_path, tree({"a.py": BUGGY}), tree({"a.py": BUGGY}))
    assert both.report.claims == ()
    assert both.earlier == 1


def test_a_new_finding_is_reported_and_the_old_one_is_not(brought):
    assert brought(BUGGY, BUGGY + "\n\n" + KEEPS) == ["ESP301 train.py:14"]


def test_a_finding_that_lines_above_pushed_down_is_an_old_one(brought):
    above = "import torch\n\n\ndef other(x):\n    return x\n\n\n"
    assert brought(BUGGY, above + BUGGY) == []


def test_a_finding_in_a_function_that_was_moved_within_its_file_is_an_old_one(brought):
    assert brought(BUGGY + "\n\n" + SOUND * 3, SOUND * 3 + "\n\n" + BUGGY) == []


def test_a_finding_in_a_function_that_was_moved_to_another_file_is_an_old_one(brought):
    before = {"a.py": "x = 1\n\n\n" + BUGGY, "b.py": "y = 2\n"}
    assert brought(before, {"a.py": "x = 1\n", "b.py": "y = 2\n\n\n" + BUGGY}) == []


def test_a_function_that_was_copied_brings_its_finding_once_more(brought):
    assert len(brought(BUGGY, BUGGY + "\n\n" + BUGGY.replace("fit", "fit_again"))) == 1


def test_white_space_alone_brings_nothing(brought):
    indented = "class Trainer:\n" + "".join(
        f"    {line}\n" for line in BUGGY.replace("(model", "(self, model").splitlines()
    )
    assert brought(BUGGY, indented) == []


def test_a_line_that_was_edited_a_little_keeps_its_old_finding(brought):
    assert brought(KEEPS, KEEPS.replace("losses.append(loss)", "history.append(loss)")) == []


def test_an_edit_that_makes_it_worse_brings_a_finding(brought):
    load = 'import torch\n\nstate = torch.load("a.pt")\n'
    assert brought(load, load.replace('")', '", weights_only=False)')) == ["ESP901 train.py:3"]


def test_one_finding_mended_and_another_one_made_is_one_brought(brought):
    assert brought({"a.py": BUGGY}, {"a.py": SOUND, "b.py": BUGGY}) == ["ESP101 b.py:4"]


def test_a_comment_taken_away_brings_the_finding_that_it_silenced(brought):
    silenced = BUGGY.replace("backward()", "backward()  # esper: ignore[ESP101] one step only")
    assert brought(silenced, BUGGY) == ["ESP101 train.py:4"]


def test_a_finding_whose_cause_is_in_another_file_counts_as_brought(brought):
    trainer = (
        "from steps import clear\n\n\ndef fit(model, loader, optimizer):\n    for x in loader:\n"
        "        clear(optimizer)\n        model(x).backward()\n        optimizer.step()\n"
    )
    clears = "def clear(optimizer):\n    optimizer.zero_grad()\n"
    before = {"steps.py": clears, "train.py": trainer}
    after = {"steps.py": clears.replace("optimizer.zero_grad()", "del optimizer"), "train.py": trainer}
    assert brought(before, after) == ["ESP101 train.py:7"]


def test_a_renamed_file_keeps_its_findings(brought):
    assert brought({"old/train.py": BUGGY}, {"new/fit.py": BUGGY}) == []
    edited = BUGGY.replace("loader:", "tqdm(loader):")
    assert brought({"old/train.py": BUGGY}, {"new/fit.py": edited}) == []


def test_a_new_file_brings_all_its_findings(brought):
    assert brought({"a.py": "x = 1\n"}, {"a.py": "x = 1\n", "b.py": BUGGY}) == ["ESP101 b.py:4"]


def test_a_finding_in_a_file_that_is_gone_is_not_reported(brought):
    assert brought({"a.py": "x = 1\n", "b.py": BUGGY}, {"a.py": "x = 1\n"}) == []


def test_renames_are_found_by_what_the_files_hold():
    before = {"a.py": BUGGY, "b.py": SOUND + KEEPS, "same.py": "x = 1\n"}
    after = {"c.py": SOUND + KEEPS + "y = 2\n", "d.py": BUGGY, "same.py": "x = 1\n", "e.py": "something = 'else'\n"}
    assert renamed(before, after) == {"c.py": "b.py", "d.py": "a.py"}


def test_a_file_that_did_not_parse_before_brings_what_is_found_in_it(brought):
    assert brought("def f(:\n", BUGGY) == ["ESP101 train.py:4"]


def test_a_notebook_is_compared_by_the_lines_of_its_code(tmp_path):
    def notebook(*cells, metadata=""):
        held = [{"cell_type": "code", "metadata": {"id": metadata}, "outputs": [], "source": cell} for cell in cells]
        return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": held}, indent=1)

    old = BUGGY.splitlines(keepends=True)
    new = KEEPS.splitlines(keepends=True)
    before = tree({"a.ipynb": notebook(old)})
    after = tree({"a.ipynb": notebook(["import torch\n"], old, new, metadata="ran again")})
    report = review_change(tmp_path, before, after).report
    assert [claim.rule for claim in report.claims] == ["ESP301"]


def test_long_files_are_compared_in_reasonable_steps(brought):
    many = "".join(f"x{number} = {number}\n" for number in range(8000))
    other = "".join(f"y{number} = {number}\n" for number in range(8000))
    assert brought(BUGGY + many, "import os\n" + BUGGY + other) == []


def diagnostic(line, severity=Severity.WARNING, rule="ESP1", path="a.py"):
    return Diagnostic(
        rule, "a-rule", severity, Category.MEMORY, Location(path, line, 1, line), "it is wrong", "fix it",
        Confidence.HIGH, "a rule", f"line {line}", f"{rule}{path}{line}{severity}",
    )  # fmt: skip


def test_diagnostics_that_became_worse_or_are_gone_are_named():
    text = "one = 1\ntwo = 2\nthree = 3\nfour = 4\n"
    was = [diagnostic(1), diagnostic(2), diagnostic(3), diagnostic(4)]
    now = [diagnostic(1), diagnostic(2, Severity.CRITICAL)]
    before = TreeSnapshot({"a.py": text}, was)
    found = compare_snapshots(before, TreeSnapshot({"a.py": text.replace("four = 4\n", "")}, now))
    assert (found.introduced, found.worsened) == ((now[1],), (now[1],))
    assert found.fixed == (was[2], was[3])
    assert compare_snapshots(before, before) == SnapshotComparison((), (), ())
