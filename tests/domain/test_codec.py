"""JSON of data classes whose fields are absent when they have their default."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from esper_agents.domain.codec import parsed, plain


@dataclass(frozen=True, slots=True)
class Inner:
    """A part."""

    count: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Outer:
    """A whole; `raised` is null without one, `parts` is absent."""

    raised: Inner | None
    share: float | str
    parts: tuple[Inner, ...] | None = None


@pytest.mark.parametrize(
    "value",
    [
        {"raised": None, "share": 0.5},
        {"raised": {"count": 1}, "share": "nan", "parts": []},
        {"raised": None, "share": 1.0, "parts": [{"count": 2, "note": "x"}]},
    ],
)
def test_an_object_is_the_same_after_it_was_a_data_class(value):
    assert plain(parsed(Outer, value)) == value


@pytest.mark.parametrize(
    "value", [{"share": 0.5}, {"raised": {"count": "1"}, "share": 0.5}, {"raised": [], "share": 1}]
)
def test_an_object_of_another_form_is_refused(value):
    with pytest.raises(ValueError, match="validation error"):
        parsed(Outer, value)
