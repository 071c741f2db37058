"""The requests that the router learns from: what they hold, how they are read, and what comes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from esper_agents.agents.registry import load_registry
from esper_agents.agents.routing.taught import Taught, habits, read_taught, taught
from esper_agents.agents.routing.words import words
from esper_agents.errors import DefinitionError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_requests_that_ship_name_agents_that_there_are() -> None:
    known = {*load_registry(None).agents, "refused"}
    assert taught()
    assert {name for each in taught() for name in each.agents} <= known


def leans(request: str, *lessons: Taught) -> dict[str, int]:
    return {each.agent: each.weight_milli for each in habits(lessons).of(words(request))}


def test_words_lean_towards_whom_their_requests_went_to() -> None:
    found = leans("herons", Taught("count the herons", ("a",)), Taught("paint the wall", ("b",)))
    assert found["a"] > 0 > found["b"]


def test_numbers_and_code_teach_nothing() -> None:
    lesson = Taught("count 22\n```\nherons = 1\n```", ("a",))
    other = Taught("paint", ("b",))
    assert leans("22 herons", lesson, other) == {}


@pytest.mark.parametrize("line", ["not JSON", '{"text": "no agents"}', "[1]"])
def test_a_line_that_is_no_request_is_named_with_what_to_do(tmp_path: Path, line: str) -> None:
    path = tmp_path / "taught.jsonl"
    path.write_text('{"text": "a", "agents": ["b"]}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(DefinitionError) as caught:
        read_taught(path)
    assert "taught.jsonl:2" in caught.value.problem
    assert caught.value.remedy


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError):
        read_taught(tmp_path / "gone.jsonl")
