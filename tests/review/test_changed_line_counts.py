"""Changed lines, and those of them that are form."""

from __future__ import annotations

from esper_agents.review.change_description import describe_change

OLD = '''\
import torch


def scale(x, by=2.0):
    """Scale."""
    total = x * by
    if total.sum() > 0:
        total = total.relu()
    return total


def other(x):
    return x.sum()
'''


def counts(new: str) -> tuple[int, int]:
    found = describe_change({"m.py": OLD}, {"m.py": new}, ["m.py"])
    return found.lines, found.form_lines


def test_renames_docstrings_and_comments_are_form():
    new = OLD.replace("total", "scaled").replace("Scale.", "Scale it.").replace("def other", "# the sum\ndef other")
    assert counts(new) == (6, 6)


def test_a_statement_with_an_edit_is_not():
    new = OLD.replace("total", "scaled").replace("x * by", "x + by")
    assert counts(new) == (4, 3)


def test_deleted_lines_count():
    assert counts(OLD.replace("    if total.sum() > 0:\n        total = total.relu()\n", "")) == (2, 0)


def test_all_lines_of_a_new_function_count():
    assert counts(OLD + "\n\ndef more(x):\n    y = x + 1\n    return y * 2\n") == (5, 2)
