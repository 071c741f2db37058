from __future__ import annotations

from dataclasses import replace

import pytest
from memory_samples import note, source
from sqlalchemy import delete, text
from storage_samples import PROJECT

from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.memory import notes
from esper_agents.memory.search import search
from esper_agents.storage.tables import note_file

KEY = PROJECT.key


def said(found):
    return [each.text for each in found]


def test_notes_come_back_as_they_were_written(store, session, write):
    wanted = note("a", session=session, sources=(source("train.py"),), command="esper why", author="ann")
    write(wanted)
    assert notes.listing(store, KEY) == (wanted,)


def test_a_listing_is_newest_first_and_stops_at_its_limit(store, write, session):
    write(*(note(f"n{number}", session=session) for number in range(9)))
    assert said(notes.listing(store, KEY, limit=3)) == ["n8", "n7", "n6"]


def test_a_listing_holds_what_is_asked_for_of_agent_kind_and_state(store, write, session):
    write(
        note("one", session=session),
        note("two", session=session, agent="other"),
        note("three", session=session, kind=NoteKind.ACTION),
    )
    assert said(notes.listing(store, KEY, agent="other")) == ["two"]
    assert said(notes.listing(store, KEY, kind=NoteKind.ACTION)) == ["three"]
    assert notes.listing(store, KEY, states=(NoteState.DONE,)) == ()
    assert notes.listing(store, "another-project") == ()


def test_a_newer_note_on_a_subject_supersedes_what_was_current_and_nothing_else(store, write, session):
    same = {"subject": "verdict:x", "session": ""}
    write(note("first", **same), note("of another agent", agent="other", **same))
    write(note("on another subject", session=session), note("second", **same))
    states = {each.text: each.state for each in notes.listing(store, KEY)}
    assert states.pop("first") is NoteState.SUPERSEDED
    assert set(states.values()) == {NoteState.CURRENT}
    assert len(states) == 3


def test_files_find_only_what_is_current(store, write):
    write(note("first", subject="s", sources=(source("a.py"), source("b.py"))))
    write(note("second", subject="s", sources=(source("b.py"),)))
    with store.reading() as connection:
        rows = connection.execute(note_file.select()).all()
    assert [row.path for row in rows] == ["b.py"]


def test_a_note_is_found_by_the_end_of_its_identifier(store, write):
    wanted = note("a")
    write(wanted, note("b"))
    assert notes.find(store, KEY, wanted.id) == wanted
    assert notes.find(store, KEY, wanted.id[-12:]) == wanted
    assert notes.find(store, KEY, f"mem_{wanted.id[-8:]}") == wanted


def test_an_end_that_several_share_is_refused(store, write):
    write(note("a", id=f"mem_{0x1AB:032x}"), note("b", id=f"mem_{0x2AB:032x}"))
    with pytest.raises(UsageError, match="more than one note ends in 'ab'"):
        notes.find(store, KEY, "ab")


@pytest.mark.sample(6)
@pytest.mark.parametrize("wanted", ["mem_", "", "x' OR 1=1", "\0", f"mem_{5:032x}", "*", '"', "ffffffff"])
def test_what_names_no_note_is_not_found(store, write, wanted):
    write(note("a"))
    with pytest.raises(NotFoundError):
        notes.find(store, KEY, wanted)


def test_a_note_of_another_project_is_not_found(store, write):
    wanted = note("a")
    write(wanted)
    for name in (wanted.id, wanted.id[-12:]):
        with pytest.raises(NotFoundError):
            notes.find(store, "another-project", name)


def test_actions_are_settled_by_hand_and_nothing_else_is(store, write):
    action, fact = note("do it", kind=NoteKind.ACTION), note("so it is")
    write(action, fact)
    assert notes.settle_action(store, KEY, action.id, NoteState.DROPPED).state is NoteState.DROPPED
    assert notes.settle_action(store, KEY, action.id, NoteState.DONE).state is NoteState.DONE
    assert notes.find(store, KEY, action.id) == replace(action, state=NoteState.DONE)
    with pytest.raises(UsageError, match="is not a follow-up"):
        notes.settle_action(store, KEY, fact.id, NoteState.DONE)


def test_an_action_is_closed_only_when_all_its_files_were_looked_at_by_who_looks_for_it(store, write):
    both = (source("a.py"), source("b.py"))
    write(
        note("two files", kind=NoteKind.ACTION, sources=both),
        note("one file", kind=NoteKind.ACTION, sources=both[:1]),
        note("still there", kind=NoteKind.ACTION, sources=both[:1], subject="fingerprint"),
        note("of another agent", kind=NoteKind.ACTION, sources=both[:1], agent="other"),
        note("not checked", kind=NoteKind.ACTION, sources=both[:1]),
    )
    with store.writing() as transaction:
        notes.close_actions(
            transaction,
            KEY,
            agents={"reviewer"},
            examined={"a.py"},
            standing={"fingerprint"},
            was_checked=lambda each: each.text != "not checked",
        )
    done = [each.text for each in notes.listing(store, KEY, states=(NoteState.DONE,))]
    assert done == ["one file"]


def test_agents_that_keep_something_are_named_once(store, write):
    write(*(note(f"{number}", agent=f"agent-{number % 3}") for number in range(9)))
    assert notes.agents(store, KEY) == ("agent-0", "agent-1", "agent-2")


def test_notes_from_before_they_could_be_found_are_found_after_the_next_write(store, write):
    write(*(note(f"old {number}", kind=NoteKind.ACTION, sources=(source("a.py"),)) for number in range(7)))
    with store.writing() as transaction:
        transaction.connection.execute(text("DELETE FROM note_text"))
        transaction.connection.execute(delete(note_file))
    assert search(store, KEY, "old") == ()
    write(note("new"))
    assert len(search(store, KEY, "old")) == 7
    with store.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM note_file")) == 7
