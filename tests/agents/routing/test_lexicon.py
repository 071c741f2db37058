"""The lexicon: every vote reaches an agent, every phrase can be found, and a broken file is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from esper_agents.agents.registry import load_registry
from esper_agents.agents.routing.lexicon import Where, lexicon, read_lexicon
from esper_agents.agents.routing.phrases import spelled_out
from esper_agents.errors import DefinitionError
from esper_agents.paths import data_folder

OURS = frozenset(load_registry(None).agents)
READING = (data_folder("prompts") / "routing" / "reading.toml").read_text(encoding="utf-8")
CUE = '[[cue]]\nname = "herons"\nvotes = { profiler = 3 }\nen = ["grey heron"]\n'


def folder_with(tmp_path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    return tmp_path


def test_every_vote_and_hint_is_for_an_agent_that_there_is():
    assert lexicon().agents <= OURS | {"refused"}
    assert {name for names in lexicon().hints.values() for name in names} <= OURS


def test_every_agent_of_ours_has_a_cue():
    assert lexicon().agents >= OURS


def test_every_word_that_slips_are_mended_to_is_a_word_and_no_exception_to_it():
    assert all(word.isascii() and word.isalpha() and word.islower() for word in lexicon().spelling)
    assert not lexicon().spelling & lexicon().plain


def test_a_cue_is_read_with_its_votes_in_thousandths(tmp_path):
    read = read_lexicon(folder_with(tmp_path, reading=READING, birds=CUE))
    assert "heron" in read.cues[Where.TEXT].vocabulary()
    assert read.agents == {"profiler"}


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"reading": READING, "birds": "[[cue]\n"}, "birds.toml"),
        ({"reading": READING, "birds": CUE.replace("votes", "votse")}, "birds.toml"),
        ({"reading": READING.replace("closers", "closer"), "birds": CUE}, "reading.toml"),
        ({"birds": CUE}, "reading.toml"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_to_do(tmp_path, broken: dict[str, str], named: str):
    with pytest.raises(DefinitionError) as caught:
        read_lexicon(folder_with(tmp_path, **broken))
    assert named in caught.value.problem
    assert caught.value.remedy


def test_a_phrase_of_the_lexicon_stands_for_every_choice_in_it():
    assert set(spelled_out("make/add .. tests")) == {("make", "..", "test"), ("add", "..", "test")}
    assert list(spelled_out("quantiz*")) == [("quantiz*",)]
    assert list(spelled_out("=training")) == [("=training",)]
    assert list(spelled_out("#x faster")) == [("#x", "faster")]


def test_the_development_set_names_agents_that_there_are():
    path = Path(__file__).parents[3] / "benchmarks" / "routing" / "development.jsonl"
    prompts = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len({prompt["text"] for prompt in prompts}) == len(prompts)
    for prompt in prompts:
        assert prompt["best"] in prompt["acceptable"]
        assert set(prompt["acceptable"]) <= OURS | {"REFUSED"}
