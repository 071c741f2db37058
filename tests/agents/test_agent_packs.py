"""Packs that a definition names are offered where they are installed, and recommended where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from esper_agents.agents.agent_packs import packs_of
from esper_agents.agents.definition import load_definition, read_definition
from esper_agents.agents.plugins import load_plugin

PACKS = Path(__file__).parent / "wild/collection_b"
SEED = next((Path(__file__).parents[3] / "shared/seeds").glob("003_*"), None)


def agent(body: str, front: str = ""):
    text = f"---\nname: heron\ndescription: Counts herons.\n{front}---\n{body}\n"
    return read_definition(text.encode(), path="heron.md", stem="heron", namespace="ponds")


def test_an_installed_pack_is_offered_with_what_it_brings() -> None:
    doctor = load_definition(PACKS / "tensor-engineering/agents/autograd-doctor.md", namespace="tensor-engineering")
    found = packs_of(doctor, [load_plugin(PACKS / "optimizer-lore")])
    (pack,) = found.present
    assert (pack.name, pack.what_for) == ("optimizer-lore", "schedules and warm-up")
    assert "optimizer-lore:schedule-designer" in pack.agents
    assert pack.commands == ("optimizer-lore:sweep",)
    assert found.missing == ()
    assert "esper run optimizer-lore:sweep" in found.lines[0]


def test_a_pack_that_is_not_installed_is_recommended_for_what_the_text_says() -> None:
    found = packs_of(agent('if not glob("plugins/reed-lore/plugin.json"): print("Recommend: reed-lore for reeds")'), [])
    assert [(each.name, each.what_for) for each in found.missing] == [("reed-lore", "reeds")]
    assert found.lines == ("reed-lore is not installed (reeds); recommended: esper plugins add PATH",)


def test_a_pack_whose_skill_is_named_counts_and_its_own_pack_does_not() -> None:
    found = packs_of(agent("Look.", "skills: [reed-lore:cutting, ponds:edges, plain]\n"), [])
    assert [each.name for each in found.missing] == ["reed-lore"]


@pytest.mark.parametrize("body", ["Recommend: caution for everybody", "see plugins/ for more", "plugins/../../etc/x"])
def test_words_that_name_no_pack_recommend_nothing(body) -> None:
    assert packs_of(agent(body), []).missing == ()


@pytest.mark.skipif(SEED is None, reason="the seeds are not here")
def test_the_reviewer_of_the_seeds_names_three_packs() -> None:
    found = packs_of(load_definition(SEED), [])
    assert {each.name: each.what_for for each in found.missing} == {
        "axiom-python-engineering": "Python patterns",
        "yzmir-training-optimization": "convergence issues",
        "yzmir-neural-architectures": "design review",
    }
