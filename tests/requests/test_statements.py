"""Tests of `esper_agents.requests.statements`."""

from __future__ import annotations

import pytest

from esper_agents.requests.statements import statements


@pytest.mark.parametrize(
    ("words", "kind", "value"),
    [
        ("my labels are 0..9", "labels", "0..9"),
        ("unsere labels gehen von 0 bis 9", "labels", "0..9"),
        ("i call it twice", "calls", "2"),
        ("we run torch 2.4", "torch", "2.4"),
        ("batch is 64", "batch", "64"),
        ("batch size=64", "batch", "64"),
        ("actions are in [-1,1]", "actions", "-1..1"),
        ("on 8 gpus", "devices", "8"),
        ("only one gpu", "devices", "1"),
        ("we train in bf16", "precision", "bf16"),
        ("läuft nur auf der cpu", "device", "cpu"),
    ],
)
def test_what_a_user_states_is_read_with_its_words(words, kind, value) -> None:
    found = {each.kind: each for each in statements(words)}
    assert found[kind].value == value
    assert found[kind].text in words


@pytest.mark.parametrize("words", ["the loss goes from 3 to 0", "line 12", "is it faster?", "batch norm", "see 2.4"])
def test_other_numbers_state_nothing(words) -> None:
    assert statements(words) == ()
