from __future__ import annotations

from dataclasses import replace

import pytest
from memory_samples import note, source
from storage_samples import PROJECT, submission

from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.errors import UsageError
from esper_agents.memory import notes
from esper_agents.memory.search import search
from esper_agents.storage import sessions

KEY = PROJECT.key


def said(found):
    return [each.text for each in found]


def test_all_words_must_be_said_in_any_order_without_case_and_accents(store, write):
    write(note("Gradient accumulation is naïve"), note("gradient clipping"))
    assert said(search(store, KEY, "NAIVE gradient")) == ["Gradient accumulation is naïve"]
    assert said(search(store, KEY, "gradient")) == ["gradient clipping", "Gradient accumulation is naïve"]
    assert search(store, KEY, "gradient unheard") == ()


def test_commands_and_paths_are_words_too(store, write):
    write(note("a", command="esper profile model.py"), note("b", sources=(source("src/loader.py"),)))
    assert said(search(store, KEY, "profile")) == ["a"]
    assert said(search(store, KEY, "loader")) == ["b"]


@pytest.mark.sample(4)
@pytest.mark.parametrize("words", ["", " ", "!?", '"', "\0", "* OR *"[:1], "()&|"])
def test_without_a_word_nothing_is_searched(store, words):
    with pytest.raises(UsageError, match="no search terms"):
        search(store, KEY, words)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "words",
    ["a OR b", 'x" OR "y', "near(a b)", "a*", "-a", "a & !b", "'; DROP TABLE note; --", "a:b", "\ud800 a", "x\0y"],
)
def test_no_word_means_anything_to_a_database(store, write, words):
    write(note("something else"))
    assert search(store, KEY, words) == ()
    assert len(notes.listing(store, KEY)) == 1


def test_a_file_finds_what_speaks_of_it_and_a_folder_what_speaks_of_its_files(store, write):
    write(note("a", sources=(source("src/deep/a.py"),)), note("b", sources=(source("src.py"),)))
    assert said(search(store, KEY, "", path="src")) == ["a"]
    assert said(search(store, KEY, "", path="src/deep/a.py")) == ["a"]
    assert said(search(store, KEY, "", path="src.py")) == ["b"]
    assert search(store, KEY, "", path="deep") == ()


def test_states_agents_and_kinds_narrow_it(store, write):
    write(note("slow one", subject="s"), note("slow two", subject="s"), note("slow three", agent="other"))
    write(note("slow four", kind=NoteKind.ACTION))
    current = (NoteState.CURRENT,)
    assert said(search(store, KEY, "slow", states=current)) == ["slow four", "slow three", "slow two"]
    assert said(search(store, KEY, "slow", states=(NoteState.SUPERSEDED,))) == ["slow one"]
    assert said(search(store, KEY, "slow", agent="other")) == ["slow three"]
    assert said(search(store, KEY, "slow", kind=NoteKind.ACTION)) == ["slow four"]


def test_what_is_rare_among_many_is_found_however_old(store, write):
    write(note("needle", kind=NoteKind.ACTION))
    write(*(note(f"needle hay {number}") for number in range(300)))
    assert said(search(store, KEY, "needle", kind=NoteKind.ACTION, limit=5)) == ["needle"]
    assert said(search(store, KEY, "hay", limit=2)) == ["needle hay 299", "needle hay 298"]


def test_another_projects_notes_are_not_found_even_by_the_marks_of_one(store, write):
    from esper_agents.memory.words import project_mark

    write(note(f"forged {project_mark('another')}"))
    assert search(store, "another", "forged") == ()


def test_behind_many_of_another_project_in_the_same_database_its_own_are_found(store, write):
    other = replace(PROJECT, key="another-0123456789ab")
    sessions.create(store, other, submission())
    write(note("gradient"))
    write(*(note(f"gradient {number}") for number in range(60)), project=other.key)
    assert said(search(store, KEY, "gradient", limit=5)) == ["gradient"]
