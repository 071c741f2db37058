"""The change of a task in words: edits, form, and runs of both versions."""

from __future__ import annotations

from certificate_samples import evidence as sample

from esper_agents.domain.change_told import change_edits, change_told, form_counted, versions_told

EDITS = [
    {"place": "ops.py:3", "text": "`dim` of `sum` is `0` instead of `1`"},
    {"place": "ops.py:12", "text": "`y = x` is gone"},
    {"place": "other.py:3", "text": "adds `print(x)`"},
]


def evidence(edits=EDITS, form=("1 rename (`a` to `b`)", "docstrings"), lines=(41, 31), comparisons=()):
    change = {
        "edits": list(edits),
        "form": list(form),
        "form_only": not edits,
        "lines": lines[0],
        "form_lines": lines[1],
    }
    review = sample(tool="static-review", output={"change": change})
    return (review, sample(tool="torch-versions", output={"comparisons": list(comparisons)}))


SAME = {"target": "ops.py:Net", "outcome": "same", "inputs": 40, "lines": [2, 5]}


def test_an_edit_in_a_definition_that_did_the_same_is_marked_and_comes_last():
    found = change_edits(evidence(comparisons=[SAME]))
    assert [(each.place, each.is_same) for each in found] == [
        ("ops.py:12", False),
        ("other.py:3", False),
        ("ops.py:3", True),
    ]
    told = list(change_told(evidence(comparisons=[SAME])))
    assert told[2] == "ops.py:3  the same when run: `dim` of `sum` is `0` instead of `1`"


def test_an_edit_in_a_definition_that_differs_is_not():
    differs = {**SAME, "outcome": "differs"}
    assert not any(each.is_same for each in change_edits(evidence(comparisons=[differs])))


def test_lines_that_are_form_are_counted_with_their_kinds():
    assert form_counted(evidence()) == "31 of 41 changed lines are form (1 rename, docstrings)"
    assert form_counted(evidence(edits=(), lines=(9, 9))) == "all 9 changed lines are form (1 rename, docstrings)"
    assert form_counted(evidence(lines=(9, 0))) == ""
    last = list(change_told(evidence()))[-1]
    assert last == "unchanged by syntax (31 of 41 changed lines): 1 rename (`a` to `b`), docstrings"


def test_runs_of_both_versions_are_told_with_what_was_not_compared():
    close = {**SAME, "target": "ops.py:f", "outcome": "same up to rounding", "inputs": 12}
    missing = {"target": "ops.py:g", "outcome": "not compared"}
    assert str(versions_told(evidence(comparisons=[SAME, close, missing]))) == (
        "`Net`, `f` do the same up to rounding before and after the change on 12 kinds of input, made up; "
        "1 edited definition could not be compared by running"
    )
    assert versions_told(evidence()) is None


def test_records_that_cannot_be_read_say_nothing():
    broken = sample(tool="torch-versions", output={"comparisons": [1, {"target": "x"}, None]})
    other = sample(tool="static-review", output={"change": {"edits": 3, "form": 4, "lines": "x"}})
    assert list(change_told((broken, other))) == []
    assert versions_told((broken,)) is None
    assert form_counted((other,)) == ""
