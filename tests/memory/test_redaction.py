from __future__ import annotations

import pytest
from memory_samples import note, source
from sqlalchemy import text
from storage_samples import PROJECT

from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.errors import UsageError
from esper_agents.memory import notes
from esper_agents.memory.redaction import STRUCK_OUT, forget_note, redact
from esper_agents.memory.search import search

KEY = PROJECT.key
STRUCK = 'Ann\'s 100% \\ "key"'


def everything(store):
    with store.reading() as connection:
        rows = [*connection.execute(text("SELECT * FROM note")), *connection.execute(text("SELECT * FROM note_file"))]
        return str(rows) + str(connection.execute(text("SELECT * FROM note_text")).all())


def test_what_is_forgotten_leaves_a_mark_and_nothing_of_what_it_said(store, write, session):
    one = note("zebra one", session=session, command="esper zebra", sources=(source("zebra.py"),), author="zebra")
    write(one, note("zebra two", session=session))
    gone = forget_note(store, KEY, one.id)
    assert forget_note(store, KEY, notes.listing(store, KEY)[0].id).state is NoteState.FORGOTTEN
    assert "zebra" not in everything(store)
    kept = notes.find(store, KEY, one.id)
    assert kept == gone
    assert (kept.agent, kept.certificate, kept.written_at, kept.text) == (
        one.agent,
        one.certificate,
        one.written_at,
        "",
    )
    assert search(store, KEY, "zebra") == ()
    with pytest.raises(UsageError, match="forgotten already"):
        forget_note(store, KEY, one.id)


def test_a_text_is_struck_out_everywhere_and_only_there(store, write, session):
    write(
        note(f"before {STRUCK} after", session=session, subject="one"),
        note("in the command", command=f"esper {STRUCK}"),
        note("in the subject", subject=f"gap:{STRUCK}", kind=NoteKind.ACTION, session=session),
        note("in the path", sources=(source(f"src/{STRUCK}.py"),)),
        note("nothing of it", subject="other"),
    )
    struck = redact(store, KEY, STRUCK)
    assert len(struck) == 4
    assert redact(store, KEY, STRUCK) == ()
    found = {each.text: each for each in notes.listing(store, KEY)}
    assert f"before {STRUCK_OUT} after" in found
    assert all(each.state is NoteState.CURRENT for each in found.values())
    assert "100%" not in everything(store)
    assert [each.text for each in search(store, KEY, "struck")] != []


def test_another_projects_notes_are_not_touched(store, write):
    write(note("a secret"))
    assert redact(store, "another", "a secret") == ()
    assert notes.listing(store, KEY)[0].text == "a secret"


@pytest.mark.parametrize("wanted", ["", "   ", "abc", "a  ", "struck out"])
def test_a_text_that_stands_everywhere_is_refused(store, wanted):
    with pytest.raises(UsageError):
        redact(store, KEY, wanted)
