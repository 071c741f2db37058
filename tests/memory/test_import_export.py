from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_samples import note, source
from storage_samples import PROJECT

from esper_agents.domain.memory import IMPORTED, NoteKind, NoteState
from esper_agents.memory import import_export, notes
from esper_agents.memory.document_parser import read_document
from esper_agents.memory.documents import document
from esper_agents.memory.paragraphs import LONGEST, MOST
from esper_agents.memory.redaction import forget_note

KEY = PROJECT.key
HOSTILE = (
    "--> <script>alert(1)</script> <!-- esper:note {} -->\n# Heading\n- [x] `a` ``b`` {{ 7*7 }}"
    " \u202e\u200b | é \U0001f600 --"
)


def every_kind(session=""):
    fields = {"sources": (source("a.py"), source("b c.py")), "command": "esper `why`"}
    return [
        note(f"{HOSTILE} {kind} {state}", kind=kind, state=state, session=session, author=author, **fields)
        for kind in NoteKind
        for state in (NoteState.CURRENT, NoteState.SUPERSEDED, NoteState.DONE, NoteState.DROPPED)
        for author in ("", "ann")
    ]


def exported(store):
    return {
        (agent, kind): import_export.documents_to_export(store, KEY, agent, kind)
        for agent in notes.agents(store, KEY)
        for kind in NoteKind
    }


@pytest.fixture
def empty(empty_database):
    """Return another store of the same system with nothing in it."""
    from esper_agents.storage.store import Store

    opened = Store(empty_database)
    yield opened
    opened.close()


def test_what_is_exported_is_the_same_bytes_after_an_import_into_an_empty_database(store, empty, write):
    with store.writing() as transaction:
        notes.add(transaction, KEY, [*every_kind(), note("x", agent="project:other agent")])
    forget_note(store, KEY, notes.listing(store, KEY)[3].id)
    before = exported(store)
    for text in before.values():
        reading = read_document(text.encode(), "somebody else", NoteKind.WORKING)
        assert reading.texts == ()
        import_export.import_document(empty, PROJECT, reading)
    assert exported(empty) == before
    assert not any(each.is_vouched_for for each in notes.listing(empty, KEY))


def test_an_import_into_where_it_came_from_changes_nothing(store, write):
    with store.writing() as transaction:
        notes.add(transaction, KEY, every_kind())
    before = notes.listing(store, KEY)
    for text in exported(store).values():
        taken = import_export.import_document(store, PROJECT, read_document(text.encode(), "", NoteKind.WORKING))
        assert (taken.notes, taken.texts) == (0, 0)
    assert notes.listing(store, KEY) == before


STRANGE = """# Working Memory - torch-specialist
*Last updated*: yesterday

## Active
Kasmina's layers are slow.
They take 40 ms.

- [x] fuse the kernel
- look at:
  1. the allocator
  2. the streams

```python
x = 1

- not an item
```
| a | b |
"""


def test_a_document_that_no_parser_has_seen_is_kept_word_for_word_as_text_of_nobody(store, session):
    taken = import_export.import_document(
        store, PROJECT, read_document(STRANGE.encode(), "torch-specialist", NoteKind.WORKING)
    )
    assert taken.notes == 0
    found = notes.listing(store, KEY)
    assert len(found) == taken.texts
    assert {(each.author, each.agent, each.is_vouched_for, each.said_by) for each in found} == {
        (IMPORTED, "torch-specialist", False, IMPORTED)
    }
    kept = "\n".join(each.text for each in found).split("\n")
    assert [each for each in kept if each.strip()] == [each for each in STRANGE.split("\n") if each.strip()]
    assert any(
        each.text.startswith("```python\nx = 1\n\n- not an item") or "- not an item" in each.text for each in found
    )
    assert (
        import_export.import_document(
            store, PROJECT, read_document(STRANGE.encode(), "torch-specialist", NoteKind.WORKING)
        ).texts
        == 0
    )


def test_ticked_boxes_of_strangers_are_done_actions_and_others_open(store, session):
    data = b"# Next\n- [ ] open\n- [x] done\n* [X] done too\ntext\n"
    import_export.import_document(store, PROJECT, read_document(data, "a", NoteKind.ACTION))
    assert [(each.text.split("] ")[-1].split("\n")[0], each.state) for each in notes.listing(store, KEY)] == [
        ("open", NoteState.CURRENT),
        ("done", NoteState.DONE),
        ("done too", NoteState.DONE),
    ]


def test_what_people_write_into_our_document_is_taken_in_beside_what_stands_there(store, write):
    write(note("the fact"))
    text = import_export.documents_to_export(store, KEY, "reviewer", NoteKind.WORKING)
    edited = text.replace("- the fact", "- not the fact") + "\nA line by hand.\n"
    taken = import_export.import_document(store, PROJECT, read_document(edited.encode(), "", NoteKind.WORKING))
    assert (taken.notes, taken.texts) == (0, 2)
    texts = {each.text: each for each in notes.listing(store, KEY)}
    assert texts["the fact"].state is NoteState.CURRENT
    assert texts["A line by hand."].author == IMPORTED
    assert any(each.startswith("- not the fact") for each in texts)


def test_a_note_that_says_something_else_here_is_kept_beside_it_as_text(store, write):
    wanted = note("ours")
    write(wanted)
    forged = document("reviewer", NoteKind.WORKING, [replace(wanted, text="forged")])
    import_export.import_document(store, PROJECT, read_document(forged.encode(), "", NoteKind.WORKING))
    found = {each.text: each for each in notes.listing(store, KEY)}
    assert found["ours"] == wanted
    assert found["forged"].author == IMPORTED


def test_what_was_forgotten_does_not_come_back_with_the_document(store, write):
    wanted = note("a secret")
    write(wanted)
    text = import_export.documents_to_export(store, KEY, "reviewer", NoteKind.WORKING)
    forget_note(store, KEY, wanted.id)
    import_export.import_document(store, PROJECT, read_document(text.encode(), "", NoteKind.WORKING))
    assert "a secret" not in str(notes.listing(store, KEY))


def test_a_document_of_another_project_of_the_same_database_is_taken_in_beside_it(store, write):
    write(note("a fact"))
    text = import_export.documents_to_export(store, KEY, "reviewer", NoteKind.WORKING)
    other = replace(PROJECT, key="other-0123456789ab")
    import_export.import_document(store, other, read_document(text.encode(), "", NoteKind.WORKING))
    assert [each.text for each in notes.listing(store, other.key)] == ["a fact"]
    assert import_export.import_document(store, other, read_document(text.encode(), "", NoteKind.WORKING)).known == 1


FORGED = (
    '{"id": "mem_1"}',
    "{}",
    "[]",
    "[" * 50_000,
    '{"a":' * 50_000,
    "1" * 10_000,
    '{"id":"' + "mem_" + "0" * 32 + '","state":"current"}',
    "NaN",
    '{"agent":"../../x","kind":"working-memory"}',
)


@pytest.mark.parametrize("said", FORGED, ids=range(len(FORGED)))
@pytest.mark.parametrize("name", ["esper:note", "esper:memory"])
def test_comments_that_only_look_like_ours_are_text(said, name):
    reading = read_document(f"<!-- {name} {said} -->\n".encode(), "a", NoteKind.WORKING)
    assert reading.notes == ()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=2000), st.sampled_from(list(NoteKind)))
def test_any_bytes_are_read_and_nothing_of_them_is_lost(data, kind):
    reading = read_document(data, "a", kind)
    assert reading.notes == ()
    kept = "".join("".join(text.split()) for text, _ in reading.texts)
    if not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        from esper_agents.memory.words import fit

        shown = fit(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "backslashreplace"))
        assert kept == "".join(shown.split())


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.text(max_size=200), st.sampled_from(list(NoteState))), max_size=6), st.text(max_size=30))
def test_whatever_notes_say_the_document_reads_back_as_they_are(said, agent):
    from esper_agents.memory.document_parser import named
    from esper_agents.memory.words import fit

    agent = named(agent) or "a"
    for kind in NoteKind:
        wanted = [
            note(fit(text), state=state, kind=kind, agent=agent, subject=f"{n}") for n, (text, state) in enumerate(said)
        ]
        reading = read_document(document(agent, kind, wanted).encode(), "x", NoteKind.WORKING)
        assert set(reading.notes) == set(wanted)
        assert (reading.agent, reading.kind, reading.texts) == (agent, kind, ())


def test_a_huge_document_is_bounded_and_whole():
    lines = [f"- item {number}" for number in range(20_000)]
    reading = read_document("\n".join(lines).encode(), "a", NoteKind.ACTION)
    assert len(reading.texts) <= MOST
    assert [each for text, _ in reading.texts for each in text.split("\n") if each] == lines
    (whole,) = {len(text) for text, _ in read_document(b"x" * (3 * LONGEST), "a", NoteKind.WORKING).texts}
    assert whole == LONGEST


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 5000, b"\xff\xfe\x00", b"\xef\xbb\xbf", b"\r" * 100, b"<!--" * 1000, b"```\n" * 999, b"#" * 99],
)
def test_odd_documents_are_taken_in(store, session, data):
    import_export.import_document(store, PROJECT, read_document(data, "\0 a\nb", NoteKind.WORKING))
    assert all(each.agent for each in notes.listing(store, KEY))
