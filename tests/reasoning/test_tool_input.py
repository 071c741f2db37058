"""Arguments of tool calls that were cut off: what is complete is kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.reasoning.tool_input import complete_part

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", {}),
        ("{", {}),
        ('{"a": 1', {}),
        ('{"a": 1, "b', {"a": 1}),
        ('{"a": [{"b": "x, }"}, {"b": "y', {"a": [{"b": "x, }"}]}),
        ('{"a": "\\"}, ", "b": 2}', {"a": '"}, ', "b": 2}),
        ('{"a": {"b": {}', {"a": {"b": {}}}),
        ("[1, 2", {}),
        ('{"a": 1, "a": 2, ', {}),
        ("[" * 100_000, {}),
    ],
)
def test_members_that_are_complete_are_kept(text, kept):
    assert complete_part(text) == kept


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.data())
def test_wherever_arguments_are_cut_off_the_part_is_a_beginning_of_them(whole, data):
    text = json.dumps(whole)
    part = complete_part(text[: data.draw(st.integers(0, len(text)))])
    assert list(part) == list(whole)[: len(part)]
    assert all(part[name] == whole[name] for name in list(part)[:-1])
    assert complete_part(text) == whole
