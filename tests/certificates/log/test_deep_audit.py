from __future__ import annotations

import pytest
from certificate_samples import full
from log_samples import PROJECT

from esper_agents.certificates.log.deep_audit import deep_audit
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.domain.notice import EntryKind


@pytest.fixture
def grown(archive):
    archive.grow(3)
    archive.certify(1)
    archive.certify(2, request=full().task.request)
    return archive


def named(archive):
    return {(each.kind, each.where) for each in archive.deep().listed}


CERTIFIED = f"crt_{1:032x}"


def test_what_was_entered_by_the_program_has_no_faults(grown):
    assert named(grown) == set()


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "change",
    [
        "agent = 'somebody-else'",
        "status = 'REJECTED'",
        "status = 'BEYOND_DOUBT'",
        "ceiling = 'GO'",
        "kind = 'go'",
        "issued_at = '2027-01-31T09:30:00.123Z'",
        "descriptor = 'other'",
        "component = 'other'",
        "request = 'other'",
        "revision = '2222222222222222222222222222222222222222'",
        "sha256 = 'ab'",
    ],
)
def test_a_column_of_the_index_that_was_changed_is_named(grown, change):
    grown.sql(f"UPDATE certificate SET {change} WHERE id = '{CERTIFIED}'")
    found = grown.deep().listed
    assert [(each.kind, each.where) for each in found] == [("index-changed", CERTIFIED)]
    column = change.partition(" ")[0]
    assert ("verdict_kind" if column == "kind" else column) in found[0].detail


def test_a_certificate_listed_under_another_project_or_about_another_is_named(grown):
    grown.sql("INSERT INTO project (key, root, name, opened_at) SELECT 'other', root, name, opened_at FROM project")
    grown.sql(f"UPDATE certificate SET project_key = 'other' WHERE id = '{CERTIFIED}'")
    assert named(grown) == {("index-changed", CERTIFIED)}
    grown.sql("UPDATE log_entry SET about = 'crt_other'")
    assert grown.deep().counts["index-changed"] == 6


def test_a_statement_that_was_changed_is_named(grown, backend):
    kind = "BYTEA" if backend == "postgresql" else "BLOB"
    grown.sql(f"UPDATE certificate SET statement = CAST('[]' AS {kind}) WHERE id = '{CERTIFIED}'")
    grown.sql(f"UPDATE log_entry SET statement = CAST('[]' AS {kind}) WHERE idx = 0")
    assert named(grown) == {("statement-changed", CERTIFIED), ("statement-changed", f"ntc_{0:032x}")}


def test_a_signature_that_was_changed_is_named(grown, backend):
    kind = "BYTEA" if backend == "postgresql" else "BLOB"
    grown.sql(f"UPDATE log_entry SET signature = CAST('no' AS {kind}) WHERE idx = 3")
    assert named(grown) == {("statement-changed", CERTIFIED)}


def test_a_key_that_nobody_knows_is_named(grown):
    found = deep_audit(grown.store, PROJECT.key, {})
    assert found.counts == {"unknown-key": 5}


def test_a_certificate_that_was_removed_is_named(grown):
    grown.remove(CERTIFIED)
    assert named(grown) == {("certificate-removed", CERTIFIED)}


def test_a_record_that_is_entered_under_another_name_is_named(grown):
    grown.enter(Record(f"ntc_{9:032x}", EntryKind.NOTICE, "", b'{"predicate":{"id":"ntc_other","certificate":""}}'))
    grown.enter(Record(f"ntc_{8:032x}", EntryKind.NOTICE, "", b"nothing"))
    assert named(grown) == {("index-changed", f"ntc_{9:032x}"), ("index-changed", f"ntc_{8:032x}")}
