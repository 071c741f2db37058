from __future__ import annotations

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.certificates.canonical_json import canonical_bytes

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_the_bytes_are_those_of_rfc_8785(value):
    assert canonical_bytes(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "names",
    [("\ue000", "\U0001f600"), ("\uffff", "\U00010000"), ("a", "\u00e4"), ("\u2028", "\u0080")],
    ids=["private and astral", "last and astral", "letters", "separators"],
)
def test_names_stand_in_the_order_of_their_utf_16(names):
    found = list(json.loads(canonical_bytes(dict.fromkeys(names, 1))))
    assert found == sorted(names, key=lambda each: each.encode("utf-16-be"))


def test_half_a_surrogate_pair_has_no_canonical_form():
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical_bytes({"a": "\ud800"})
