from __future__ import annotations

import pytest
from memory_samples import note
from storage_samples import PROJECT

from esper_agents.domain.memory import NoteKind
from esper_agents.memory import notes
from esper_agents.memory.contradictions import contradicted, status_in

KEY = PROJECT.key


def told(store):
    with store.reading() as connection:
        found = contradicted(connection, KEY, notes.listing(store, KEY))
    return {each.agent: set(each.contradicted_by) for each in found}


def judged(agent, status, **fields):
    fields = {"subject": "verdict:train", **fields}
    return note(f"train: {status} at noon. It says REJECTED elsewhere.", agent=agent, **fields)


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("one", "other", "is_so"),
    [
        ("APPROVED", "REJECTED", True),
        ("CONDITIONALLY_APPROVED", "REQUIRES_REMEDIATION", True),
        ("GO", "NO_GO", True),
        ("DO_NOT_RECOMMEND", "RECOMMEND", True),
        ("APPROVED", "EMERGENCY_STOP", True),
        ("APPROVED", "CONDITIONALLY_APPROVED", False),
        ("APPROVED", "NEEDS_FURTHER_REVIEW", False),
        ("ADVISORY_ONLY", "REJECTED", False),
        ("REJECTED", "REQUIRES_REMEDIATION", False),
    ],
)
def test_notes_of_two_agents_contradict_one_another_where_one_says_yes_and_the_other_no(
    store, write, one, other, is_so
):
    first, second = judged("a", one), judged("b", other)
    write(first, second)
    assert told(store) == ({"a": {second.id}, "b": {first.id}} if is_so else {"a": set(), "b": set()})
    assert len(notes.listing(store, KEY)) == 2


@pytest.mark.parametrize(
    "fields", [{"subject": "verdict:other"}, {"kind": NoteKind.DECISION}, {"agent": "a", "session": ""}]
)
def test_other_subjects_other_documents_and_the_agent_itself_contradict_nothing(store, write, fields):
    write(judged("a", "APPROVED"))
    write(judged(**{"agent": "b", "status": "REJECTED", **fields}))
    assert not any(told(store).values())


def test_what_is_superseded_contradicts_nothing(store, write):
    write(judged("a", "APPROVED"), judged("b", "REJECTED"))
    write(judged("b", "APPROVED"))
    assert not any(told(store).values())


def test_a_component_that_is_called_like_a_status_is_not_its_status():
    assert status_in(note("GO: NO_GO at noon", subject="verdict:GO")) == "NO_GO"
    assert status_in(note("APPROVED", kind=NoteKind.ACTION)) is None
