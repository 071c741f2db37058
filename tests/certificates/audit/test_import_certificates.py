"""Taking certificates of others into the archive: once, with what does not hold, and as nothing that counts."""

from __future__ import annotations

import json

import pytest
from freehand import FOLDER, NAME, STAMP, certificate
from sqlalchemy import select

from esper_agents.archive import store as issued
from esper_agents.archive.import_certificates import import_certificates, imported
from esper_agents.domain.identifier import is_id
from esper_agents.domain.project import Project
from esper_agents.storage.store import Store
from esper_agents.storage.tables import imported as table


@pytest.fixture
def store(database):
    opened = Store(database)
    yield opened
    opened.close()


@pytest.fixture
def take(store, archive):
    """Audit what the repository holds, take it in and return how many of them were."""
    project = Project(str(archive.root), "toy", "toy-1", is_git=True)

    def run():
        return import_certificates(store, project, archive.root, archive.audit().documents)

    return run


def test_importing_twice_adds_nothing(archive, take, store) -> None:
    archive.write(certificate())
    archive.write(certificate(), f"loop_review_other_{STAMP}.md")
    first, again = take(), take()
    assert (first.added, first.known) == (2, 0)
    assert (again.added, again.known) == (0, 2)
    assert len(imported(store, "toy-1")) == 2


def test_a_changed_file_is_taken_in_beside_what_it_was(archive, take, store) -> None:
    archive.write(certificate())
    take()
    archive.write(certificate(findings="## FINDINGS\n- none"))
    assert take().added == 1
    assert {each.path for each in imported(store, "toy-1")} == {f"{FOLDER}/{NAME}"}


def test_what_it_says_is_kept_as_words_with_what_does_not_hold(archive, take, store) -> None:
    text = certificate(decision="## DECISION/OUTCOME\n**Status**: PASSED\x1b[2J\n**Rationale**: good")
    archive.write(text)
    archive.commit()
    take()
    (entry,) = imported(store, "toy-1")
    assert is_id(entry.id)
    assert (entry.agent, entry.status, entry.component) == ("torch-specialist", "PASSED\\u001b[2J", "training loop")
    assert entry.problems == ("status-unknown", "text-hidden")
    with store.reading() as connection:
        row = connection.execute(select(table)).one()
    assert bytes(row.text) == text.encode()
    assert {load["outcome"] for load in json.loads(row.problems)} == {"fails"}


def test_what_was_taken_in_is_no_certificate_of_ours(archive, take, store) -> None:
    archive.write(certificate())
    take()
    assert issued.listing(store, "toy-1") == ()


def test_memory_documents_and_what_cannot_be_read_are_not_taken_in(archive, take) -> None:
    archive.write("# Notes\n", "working-memory.md", "docs/ai/agents/torch-specialist")
    archive.write(b"\0", f"nul_x_{STAMP}.md")
    count = take()
    assert (count.added, count.passed_over) == (0, 2)


def test_a_file_that_changes_after_its_audit_is_not_taken_in(archive, store) -> None:
    archive.write(certificate())
    audited = archive.audit().documents
    archive.write(certificate(findings="## FINDINGS\n- none"))
    project = Project(str(archive.root), "toy", "toy-1", is_git=True)
    assert import_certificates(store, project, archive.root, audited).passed_over == 1
