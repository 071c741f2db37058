"""Operations that a change replaces by their form in place."""

from __future__ import annotations

import pytest

from esper_agents.review.change_description import describe_change

CHANGES = "it changes `x` in place, and with it what shares its memory"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("x = x.add(y)", "x.add_(y)", f"`x.add_(y)` instead of `x = x.add(y)`: {CHANGES}"),
        ("x = x * y", "x *= y", f"`x *= y` instead of `x = x * y`: {CHANGES}"),
        ("y = x.relu()", "y = x.relu_()", f"calls `x.relu_` instead of `x.relu`: {CHANGES}"),
        ("x *= y", "x = x * y", "`x = x * y` instead of `x *= y`: `x` itself keeps its value"),
        ("x = x.add(y)", "x.mul_(y)", "`x.mul_(y)` instead of `x = x.add(y)`"),
    ],
)
def test_the_form_in_place_is_named_with_what_follows(old, new, text):
    before, after = (f"def f(x, y):\n    {line}\n    return x, y\n" for line in (old, new))
    (edit,) = describe_change({"m.py": before}, {"m.py": after}, ["m.py"]).edits
    assert edit.text == text
