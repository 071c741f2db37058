"""Proposed skills wait where nobody loads them, and go into the project as the person has seen them."""

from __future__ import annotations

import pytest

from esper_agents.errors import NotFoundError, UsageError
from esper_agents.learning.proposals import accept, find_proposal, proposals, write_proposals

TEXT = "---\nname: learnt-memory\n---\nDetach.\n"


@pytest.fixture
def places(tmp_path):
    (tmp_path / "project").mkdir()
    return tmp_path / "home", tmp_path / "project"


def test_a_proposal_is_kept_and_replaced_by_a_newer_one(places) -> None:
    home, _ = places
    write_proposals(home, {"learnt-memory": "old"})
    write_proposals(home, {"learnt-memory": TEXT})
    assert [(proposal.name, proposal.text) for proposal in proposals(home)] == [("learnt-memory", TEXT)]


def test_an_accepted_proposal_is_in_the_project_as_it_was_seen_and_waits_no_more(places) -> None:
    home, root = places
    write_proposals(home, {"learnt-memory": TEXT})
    agreed = find_proposal(home, "learnt-memory")
    write_proposals(home, {"learnt-memory": "changed meanwhile"})
    target = accept(home, root, agreed)
    assert target == root / ".esper/skills/learnt-memory/SKILL.md"
    assert target.read_text() == TEXT
    assert proposals(home) == ()


def test_a_skill_that_the_project_has_is_not_overwritten(places) -> None:
    home, root = places
    write_proposals(home, {"learnt-memory": TEXT})
    own = root / ".esper/skills/learnt-memory/SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("ours")
    with pytest.raises(UsageError, match=r"has '\.esper/skills/learnt-memory' already"):
        accept(home, root, find_proposal(home, "learnt-memory"))
    assert own.read_text() == "ours"
    assert len(proposals(home)) == 1


def test_a_folder_that_leads_out_of_the_project_is_refused(places, tmp_path) -> None:
    home, root = places
    write_proposals(home, {"learnt-memory": TEXT})
    (tmp_path / "elsewhere").mkdir()
    (root / ".esper").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is outside the project"):
        accept(home, root, find_proposal(home, "learnt-memory"))


@pytest.mark.parametrize("name", ["learnt-mem", "../../etc", "", "."])
def test_a_name_that_nothing_was_proposed_under_is_refused(places, name) -> None:
    home, _ = places
    write_proposals(home, {"learnt-memory": TEXT})
    with pytest.raises(NotFoundError):
        find_proposal(home, name)


@pytest.mark.parametrize("name", ["../outside", "..", "", "/outside", "a/b", "a\0b", "A", ".hidden"])
def test_a_name_that_is_more_than_one_component_is_refused_and_nothing_is_written(places, name) -> None:
    home, _ = places
    with pytest.raises(UsageError, match="is not a valid skill name"):
        write_proposals(home, {"learnt-memory": TEXT, name: TEXT})
    assert not home.exists()
