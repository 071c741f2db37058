from __future__ import annotations

from memory_samples import note, source
from storage_samples import PROJECT

from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.memory import notes
from esper_agents.memory.recall import RECALLED, recall

KEY = PROJECT.key


def said(found):
    return [each.text for each in found]


def test_what_speaks_of_the_file_at_hand_comes_first_however_old(store, write):
    write(note("of the file", sources=(source("train.py"),)))
    write(*(note(f"new {number}") for number in range(500)))
    found = recall(store, KEY, "reviewer", ["train.py"])
    assert found[0].text == "of the file"
    assert len(found) == RECALLED


def test_what_says_a_rare_word_of_the_task_comes_before_what_says_a_common_one(store, write):
    write(note("gradient checkpointing does not fit"))
    write(*(note(f"review number {number}") for number in range(600)))
    found = recall(store, KEY, "reviewer", ["."], request="review the gradient checkpointing of this model")
    assert found[0].text == "gradient checkpointing does not fit"


def test_a_folder_at_hand_finds_what_speaks_of_its_files(store, write):
    write(note("inside", sources=(source("src/deep/a.py"),)))
    write(*(note(f"new {number}") for number in range(500)))
    assert recall(store, KEY, "reviewer", ["src"])[0].text == "inside"


def test_an_agent_recalls_nothing_of_others_and_nothing_that_is_not_current(store, write):
    write(note("first", subject="s"), note("second", subject="s"), note("of another", agent="other"))
    write(note("done", kind=NoteKind.ACTION))
    notes.settle_action(store, KEY, notes.listing(store, KEY, kind=NoteKind.ACTION)[0].id, NoteState.DONE)
    assert said(recall(store, KEY, "reviewer", ["."], request="first second done another")) == ["second"]
    assert recall(store, "another-project", "reviewer", ["."]) == ()


def test_what_files_have_changed_since_is_marked_and_stands_behind_what_holds(store, write, tmp_path):
    (tmp_path / "same.py").write_bytes(b"x = 1\n")
    (tmp_path / "other.py").write_bytes(b"x = 2\n")
    write(note("holds", sources=(source("same.py"),)))
    write(note("changed", sources=(source("other.py"), source("same.py"))), note("gone", sources=(source("gone.py"),)))
    found = recall(store, KEY, "reviewer", ["other.py", "gone.py"], root=tmp_path)
    assert found[0].text == "holds"
    assert {each.text: each.changed for each in found} == {
        "holds": (),
        "changed": ("other.py",),
        "gone": ("gone.py",),
    }


def test_with_more_than_is_recalled_what_holds_is_not_crowded_out_by_what_is_stale(store, write, tmp_path):
    write(*(note(f"stale {number}", sources=(source("gone.py"),)) for number in range(60)))
    write(*(note(f"holds {number}") for number in range(10)))
    found = recall(store, KEY, "reviewer", ["gone.py"], root=tmp_path)
    assert len(found) == RECALLED
    assert not any(each.is_stale for each in found[:10])
    assert all(each.is_stale for each in found[10:])


def test_contradicted_notes_are_given_with_who_says_the_opposite(store, write):
    other = note("train: REJECTED at noon.", agent="other", subject="verdict:train")
    write(note("train: APPROVED at noon.", subject="verdict:train"), other)
    (found,) = recall(store, KEY, "reviewer", ["."])
    assert found.contradicted_by == (other.id,)


def test_a_hostile_request_recalls_as_a_plain_one(store, write):
    write(note("a fact"))
    for request in ('"', "' OR 1=1 --", "\0\ud800", "a" * 100_000, "* " * 5000, "x & | ! ()", "é" * 300):
        assert said(recall(store, KEY, "reviewer", [".", "../..", "", "\0", "x" * 5000], request=request)) == ["a fact"]
