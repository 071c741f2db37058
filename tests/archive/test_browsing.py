"""What pages read of an archive: counts by value, sources as certified, histories of findings, pages of the log."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from archive_samples import PROJECT, found, identifier, made
from certificate_samples import evidence

from esper_agents.archive.certified_source import certified_sources
from esper_agents.archive.finding_history import finding_histories
from esper_agents.archive.log_listing import log_page
from esper_agents.archive.search.filters import Filter
from esper_agents.archive.store import listing
from esper_agents.archive.value_counts import ValueCount, value_counts
from esper_agents.domain.evidence import source_file
from esper_agents.domain.project import GitRevision
from esper_agents.domain.status import QuestionType, Status

CODE = b"import torch\n\nx = 1\n"


def counted(counts):
    return {each.value: each.certificates for each in counts}


def test_counts_are_over_the_certificates_that_match(archived):
    archived.fill(
        made(1, paths=("a.py", "b.py"), findings=(found(1, "ESP101", "a.py", 1),)),
        made(2, paths=("b.py",), agent="other-agent"),
    )
    counts = value_counts(archived.store, archived.key, Filter())
    assert (counts.certificates, counts.is_complete) == (2, True)
    assert counted(counts.files) == {"a.py": 1, "b.py": 2}
    assert counts.files[0] == ValueCount("b.py", 2)
    assert counted(counts.rules) == {"ESP101": 1}
    assert sum(counted(counts.statuses).values()) == 2
    only = value_counts(archived.store, archived.key, Filter(agent="other-agent"))
    assert (only.certificates, counted(only.files)) == (1, {"b.py": 1})
    assert value_counts(archived.store, "another-project", Filter()).certificates == 0


@pytest.mark.parametrize("dates", [{}, {"since": "2026-01-01T00:00:00.000Z"}])
def test_certificates_are_listed_and_counted_by_question_type(archived, dates):
    def issued(number, kind, status):
        base = made(number)
        ceiling = replace(base.verdict.ceiling, status=status)
        verdict = replace(base.verdict, kind=kind, status=status, ceiling=ceiling)
        return replace(base, verdict=verdict, task=replace(base.task, kind=kind))

    cases = [
        (QuestionType.APPROVAL, Status.APPROVED),
        (QuestionType.GO, Status.NO_GO),
        (QuestionType.APPROVAL, Status.NEEDS_FURTHER_REVIEW),
        (QuestionType.GO, Status.NEEDS_FURTHER_REVIEW),
        (QuestionType.ADVICE, Status.ADVISORY_ONLY),
    ]
    ids = archived.fill(*(issued(number, *case) for number, case in enumerate(cases)))[::-1]
    assert archived.listed(wanted=Filter(kind=QuestionType.GO, **dates)) == [ids[3], ids[1]]
    assert archived.listed(wanted=Filter(kind=QuestionType.APPROVAL, **dates)) == [ids[2], ids[0]]
    assert archived.listed(wanted=Filter(kind=QuestionType.RECOMMENDATION, **dates)) == []
    undecided = Filter(kind=QuestionType.GO, statuses=(Status.NEEDS_FURTHER_REVIEW,), **dates)
    assert archived.listed(wanted=undecided) == [ids[3]]
    assert archived.listed(wanted=Filter(kind=QuestionType.GO, statuses=(Status.APPROVED,), **dates)) == []
    assert archived.listed(wanted=Filter(kind=QuestionType.GO, agent=made(1).agent, **dates)) == [ids[3], ids[1]]
    assert counted(value_counts(archived.store, archived.key, Filter()).kinds) == {"approval": 2, "go": 2, "advice": 1}


def test_counts_over_more_than_a_thousand_say_that_they_are_not_all(archived, monkeypatch):
    monkeypatch.setattr("esper_agents.archive.value_counts.MOST_COUNTED", 2)
    archived.fill(*(made(number) for number in range(1, 4)))
    counts = value_counts(archived.store, archived.key, Filter())
    assert (counts.certificates, counts.is_complete) == (2, False)


@pytest.mark.parametrize("few", [0, 2000])
def test_certificates_are_found_by_the_key_that_signed_them(archived, monkeypatch, few):
    monkeypatch.setattr("esper_agents.archive.search.filter_conditions._FEW", few)
    archived.fill(*(made(number) for number in range(1, 4)), logged=True)
    archived.add(made(4))
    ((key_id, number),) = counted(value_counts(archived.store, archived.key, Filter()).signers).items()
    assert number == 3
    signed = listing(archived.store, archived.key, wanted=Filter(signer=key_id))
    assert [each.id for each in signed] == [identifier(number) for number in (3, 2, 1)]
    rest = listing(archived.store, archived.key, wanted=Filter(signer=key_id), before=signed[0].id, limit=1)
    assert [each.id for each in rest] == [identifier(2)]
    assert listing(archived.store, archived.key, wanted=Filter(signer="SHA256:other")) == ()
    both = Filter(signer=key_id, path="train.py")
    assert len(listing(archived.store, archived.key, wanted=both)) == 3


def test_the_log_is_read_in_pages_of_the_project(archived):
    newest = archived.fill(*(made(number) for number in range(1, 6)), logged=True)
    first = log_page(archived.store, PROJECT, limit=2)
    assert [each.record_id for each in first.entries] == newest[:2]
    assert (first.size, first.checkpoint.size, first.faults) == (5, 5, ())
    rest = log_page(archived.store, PROJECT, before=first.entries[-1].idx, limit=10)
    assert [each.record_id for each in rest.entries] == newest[2:]
    assert log_page(archived.store, replace(PROJECT, key="none")).origin == ""


def revision_of(root, git, *dirty):
    return GitRevision(git(root, "rev-parse", "HEAD"), "", "main", "", is_git=True, dirty=dirty)


def test_source_comes_from_git_with_the_certified_digest_whatever_the_working_file_is(make_project, git):
    root = make_project({"train.py": CODE})
    issued = replace(made(1), examined=(source_file("train.py", CODE),), revision=revision_of(root, git))
    (root / "train.py").write_text("other\n")
    shown = certified_sources(root, issued, {"train.py", "unlisted.py"})
    assert shown["train.py"].lines == ("import torch", "", "x = 1")
    assert shown["train.py"].origin == f"at commit {issued.revision.commit[:12]}"
    assert "unlisted.py" not in shown


def test_a_changed_file_that_git_does_not_have_is_said_to_be_unavailable(make_project, git):
    root = make_project({"train.py": CODE})
    edited = b"edited = True\n"
    issued = replace(made(1), examined=(source_file("train.py", edited),), revision=revision_of(root, git, "train.py"))
    (root / "train.py").write_bytes(edited)
    assert "working file" in certified_sources(root, issued, {"train.py"})["train.py"].origin
    (root / "train.py").write_bytes(b"again\n")
    gone = certified_sources(root, issued, {"train.py"})["train.py"]
    assert (gone.lines, gone.origin) == (None, "not available: not in git, and the working file changed since")
    (root / "train.py").unlink()
    assert "is missing" in certified_sources(root, issued, {"train.py"})["train.py"].origin


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", "link.py", "fifo.py", "a\0b"])
def test_no_file_outside_the_project_is_read_for_a_certificate(make_project, tmp_path, name):
    import os

    root = make_project({"train.py": CODE}, under_git=False)
    (tmp_path / "secret.txt").write_text("secret")
    (root / "link.py").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(root / "fifo.py")
    listed = replace(source_file(name, b"secret"), sha256=sha256(b"secret").hexdigest())
    issued = replace(made(1), examined=(listed,), revision=GitRevision("", "", "", "", is_git=False, dirty=()))
    assert certified_sources(root, issued, {name})[name].lines is None


@pytest.mark.parametrize("blob", ["HEAD", "--help", "a" * 39, "a" * 40, "main:train.py", ""])
def test_a_name_that_is_no_object_of_the_file_shows_nothing(make_project, git, blob):
    root = make_project({"train.py": CODE})
    listed = replace(source_file("train.py", b"other"), git_blob=blob)
    issued = replace(made(1), examined=(listed,), revision=revision_of(root, git))
    assert certified_sources(root, issued, {"train.py"})["train.py"].lines is None


def reviewed(number, *, findings=(), paths=("train.py",)):
    """Return a certificate that reviewed some of the files that it read."""
    file = source_file("train.py", CODE)
    review = replace(evidence(), tool="static-review", arguments={"paths": list(paths)}, examined=(file,))
    return replace(made(number, findings=findings), evidence=(review,), examined=(file,))


def test_a_finding_is_gone_only_in_certificates_that_reviewed_the_whole_file(archived):
    finding = found(1, "ESP101", "train.py", 3)
    certificates = [reviewed(3, paths=("other.py",)), reviewed(2), reviewed(1, findings=(finding,))]
    archived.fill(*certificates[::-1])
    summaries = listing(archived.store, archived.key)
    (history,) = finding_histories("train.py", list(zip(summaries, certificates, strict=True)))
    assert [each.id for each in history.present] == [identifier(1)]
    # The third only read the file next to another one.
    assert [each.id for each in history.absent] == [identifier(2)]
    assert finding_histories("other.py", list(zip(summaries, certificates, strict=True))) == ()
