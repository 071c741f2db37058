"""What became of the findings of earlier certificates."""

from __future__ import annotations

from dataclasses import replace

import pytest
from certificate_samples import evidence as evidence_of
from memory_samples import note, source

from esper_agents.domain.evidence import CallOutcome, SourceFile
from esper_agents.domain.finding import (
    Category,
    Confidence,
    Diagnostic,
    EarlierState,
    Finding,
    Location,
    Severity,
    fingerprint,
)
from esper_agents.domain.memory import NoteKind
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.memory.earlier import earlier_findings

_MARK = fingerprint("ESP101", "train.py", "x", 0)
_TASK = Task("is it right?", ("train.py",), QuestionType.APPROVAL, "")


def _note(**fields):
    text = "critical ESP101 gradients-never-cleared at train.py:4: gradients add up. Remedy: call zero_grad"
    made = {"kind": NoteKind.ACTION, "subject": _MARK, "session": "ses_1", "sources": (source("train.py"),)}
    return note(text, **{**made, **fields})


def _review(data=b"x = 1\n", rules=("ESP101",), **arguments):
    examined = (SourceFile("train.py", source("train.py", data).sha256, "", 1, len(data)),)
    return evidence_of(
        tool="static-review",
        arguments={"paths": ["train.py"], **arguments},
        output={"rules": list(rules)},
        outcome=CallOutcome.COMPLETED,
        examined=examined,
    )


def _finding(mark=_MARK):
    place = Location("train.py", 4)
    said = (Severity.CRITICAL, Category.CORRECTNESS, place, "gradients add up", "call zero_grad", Confidence.HIGH)
    return Finding(
        "fnd_1", Diagnostic("ESP101", "gradients-never-cleared", *said, "seen", "", mark), "reviewer", ("ev_1",)
    )


def _state(notes, *, findings=(), evidence=()):
    (found,) = earlier_findings(notes, _TASK, findings, evidence)
    return found.state


def test_a_finding_that_stands_is_found_again_with_its_certificate():
    (found,) = earlier_findings([_note()], _TASK, [_finding()], [_review()])

    assert found.state is EarlierState.FOUND_AGAIN
    assert found.text == "critical ESP101 gradients-never-cleared at train.py:4"
    assert found.certificate == _note().certificate


def test_a_finding_is_fixed_if_its_rule_ran_on_the_changed_file():
    assert _state([_note()], evidence=[_review(b"y = 2\n")]) is EarlierState.FIXED
    assert _state([_note()], evidence=[_review()]) is EarlierState.NO_LONGER_REPORTED


@pytest.mark.parametrize(
    "evidence",
    [
        [],
        [_review(b"y = 2\n", rules=("ESP305",))],
        [_review(b"y = 2\n", since="main")],
        [replace(_review(b"y = 2\n"), outcome=CallOutcome.FAILED)],
    ],
    ids=["nothing ran", "other rules ran", "only a change was reviewed", "the review failed"],
)
def test_a_finding_whose_rule_did_not_run_on_the_whole_file_is_not_called_fixed(evidence):
    assert _state([_note()], evidence=evidence) is EarlierState.NOT_CHECKED


def test_notes_about_other_files_of_imported_text_and_of_other_kinds_are_left_out():
    others = [
        _note(sources=(source("other.py"),)),
        _note(session=""),
        _note(kind=NoteKind.WORKING),
        note("find out: the batch size", kind=NoteKind.ACTION, session="ses_1", sources=(source("train.py"),)),
    ]

    assert earlier_findings(others, _TASK, [], [_review()]) == ()


def test_the_newest_note_of_a_finding_is_the_one_that_counts():
    older = _note(certificate=f"crt_{1:032x}", written_at="2026-01-01T00:00:00.000Z")

    (found,) = earlier_findings([older, _note()], _TASK, [_finding()], [_review()])
    assert found.certificate == _note().certificate
