"""How many there are of a thing, in words."""

from __future__ import annotations

import pytest

from esper_agents.domain.pluralize import number_of


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((0, "file"), "0 files"),
        ((1, "file"), "1 file"),
        ((1234, "file"), "1,234 files"),
        ((1, "entry", "entries"), "1 entry"),
        ((2, "entry", "entries"), "2 entries"),
    ],
)
def test_one_thing_is_one_and_all_other_numbers_are_several(said, words):
    assert number_of(*said) == words
