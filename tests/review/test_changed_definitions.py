"""Definitions that a change edits, in both versions."""

from __future__ import annotations

import pytest

from esper_agents.review.changed_definitions import changed_definitions

OLD = """\
import torch


def scale(x, by=2.0):
    return x * by


class Net:
    size = 4

    def __init__(self, width):
        self.width = width

    def forward(self, x):
        def inner(y):
            return y + 1

        return inner(x) * self.width

    def helper(self, x):
        total = x.sum()
        total = total + self.width
        return total
"""


def names(after: str) -> list[tuple[str, str, str, bool]]:
    found = changed_definitions(OLD, after)
    return [(each.before, each.after, each.holder, each.is_run_by_object) for each in found]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("by=2.0", "by=3.0", [("scale", "scale", "", False)]),
        ("size = 4", "size = 5", [("Net", "Net", "Net", True)]),
        ("self.width = width", "self.width = 1", [("Net.__init__", "Net.__init__", "Net", True)]),
        ("return y + 1", "return y + 2", [("Net.forward", "Net.forward", "Net", True)]),
        ("x.sum()", "x.mean()", [("Net.helper", "Net.helper", "Net", False)]),
    ],
)
def test_an_edit_belongs_to_the_outermost_function_around_it(old, new, expected):
    assert names(OLD.replace(old, new)) == expected


def test_form_changes_no_definition():
    after = OLD.replace("(x, by=2.0)", "(x: torch.Tensor, by: float = 2.0) -> torch.Tensor")
    assert names(after.replace("    total = x.sum()", "    # the sum\n        total = x.sum()")) == []


def test_a_renamed_method_is_found_by_its_body():
    after = OLD.replace("def helper", "def reduced").replace("total + self.width", "total - self.width")
    assert names(after) == [("Net.helper", "Net.reduced", "Net", False)]


def test_what_is_new_or_gone_is_in_one_version_only():
    assert (
        names(OLD.replace("def scale(x, by=2.0):\n    return x * by\n", "def other():\n    raise SystemExit\n")) == []
    )


def test_the_lines_are_those_of_the_new_definition():
    (found,) = changed_definitions(OLD, "# first\n" + OLD.replace("x.sum()", "x.mean()"))
    assert (found.line, found.last_line) == (21, 24)
