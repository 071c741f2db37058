"""Renames that other code or saved files can see."""

from __future__ import annotations

import pytest

from esper_agents.review.change_description import describe_change

OLD = """\
import torch
from torch import nn


class Reverse(nn.Module):
    def __init__(self, base_func, width=4, mul=1.0):
        super().__init__()
        self.base_func = base_func
        self.proj = nn.Linear(width, width)
        self.mul = mul
        self.extra = Extra(width)

    def forward(self, y):
        return self.mul * self.base_func(-y) + self.proj(y) + self.extra(y)


def tolerance(rtol, scale):
    return rtol * scale


def _inner(rtol, scale):
    return rtol + scale
"""


def described(*pairs: tuple[str, str]) -> tuple[list[str], tuple[str, ...]]:
    new = OLD
    for old, other in pairs:
        new = new.replace(old, other)
    found = describe_change({"m.py": OLD}, {"m.py": new}, ["m.py"])
    return [each.text for each in found.edits], found.form


@pytest.mark.parametrize(
    ("old", "new", "follow"),
    [
        ("self.proj", "self.projection", "checkpoints with keys of `proj` no longer load"),
        ("self.base_func", "self.func", "if it holds a module, checkpoints with keys of `base_func.` no longer load"),
        ("self.extra", "self.more", "if it holds a module, checkpoints with keys of `extra.` no longer load"),
    ],
)
def test_an_attribute_that_names_saved_state_is_more_than_a_rename(old, new, follow):
    edits, _ = described((old, new))
    assert edits == [f"`{old}` of `Reverse` is now called `{new}`: {follow}"]


def test_other_attributes_are_form():
    edits, form = described(("mul", "factor"))
    assert edits == []
    assert form == ("1 rename (`mul` to `factor`)",)


RENAMED = (("def tolerance(rtol", "def tolerance(relative"), ("return rtol * scale", "return relative * scale"))


def test_a_parameter_that_a_call_passes_by_its_old_name_is_more_than_a_rename():
    new = OLD
    for pair in RENAMED:
        new = new.replace(*pair)
    caller = "from m import tolerance\n\nprint(tolerance(rtol=1.0, scale=2.0))\n"
    found = describe_change({"m.py": OLD, "use.py": caller}, {"m.py": new, "use.py": caller}, ["m.py"])
    text = "parameter `rtol` of `tolerance` is now called `relative`: use.py:3 still passes `rtol=`"
    assert [each.text for each in found.edits] == [text]


def test_other_parameters_are_form():
    edits, form = described(*RENAMED)
    assert edits == []
    assert form == ("1 rename (`rtol` to `relative`)",)
