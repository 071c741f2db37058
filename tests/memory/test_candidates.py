from __future__ import annotations

import pytest
from memory_samples import note
from storage_samples import PROJECT

from esper_agents.memory import candidates
from esper_agents.memory.candidates import named

KEY = PROJECT.key
GROUPS = [["common"], ["rare", "scarce"], ["unheard"]]


@pytest.fixture
def found(store, write, monkeypatch):
    """Return what is found for some words among more notes than are looked through first."""
    monkeypatch.setattr(candidates, "_NEAR", 20)
    write(note("rare 0"), note("scarce 1"), note("common rare 2", agent="other"))
    write(*(note(f"common {number}") for number in range(3, 60)))

    def said(connection, places):
        texts = dict(connection.exec_driver_sql("SELECT id, text FROM note").all())
        return [texts[each] for each in named(connection, places)]

    with store.reading() as connection:
        looked = candidates.candidates(connection, KEY, "reviewer", GROUPS, 10)
        return [said(connection, places) for places in (looked.newest, *looked.saying)]


def test_the_newest_of_an_agent_are_found_newest_first(found):
    assert found[0] == [f"common {number}" for number in range(59, 39, -1)]


def test_of_what_many_say_the_newest_are_found_up_to_the_limit(found):
    assert found[1] == [f"common {number}" for number in range(59, 49, -1)]


def test_what_few_say_is_found_however_old_and_nothing_of_others(found):
    assert found[2:] == [["scarce 1", "rare 0"], []]


def test_without_words_only_the_newest_are_found(store, write):
    write(note("a fact"))
    with store.reading() as connection:
        looked = candidates.candidates(connection, KEY, "reviewer", [], 10)
    assert (len(looked.newest), looked.saying) == (1, [])
