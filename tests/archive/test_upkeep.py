"""What is entered after a certificate, and what is made again from the log: revoking and repairing a real archive."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing

import pytest
from command_line import build
from judged import FAULTY, judge
from rows import is_shared, rows_of
from typer.testing import CliRunner

from esper_agents.api import open_project, verify_archive, verify_certificate
from esper_agents.archive.verification.verify import FreshnessState
from esper_agents.certificates.signing.dsse import read_envelope
from esper_agents.domain.notice import NoticeKind
from esper_agents.errors import ExitCode, IntegrityError, NotFoundError, UsageError

pytestmark = pytest.mark.both_databases


@pytest.fixture
def judged(judged_project, monkeypatch):
    monkeypatch.chdir(judged_project.root)
    return judged_project


def on_project(root, work):
    async def run():
        async with open_project(root) as project:
            return await work(project)

    return asyncio.run(run())


def repaired(judged, **options):
    return on_project(judged.root, lambda project: project.certificates.repair(**options))


def revoked(judged, reason="the data set was mislabelled"):
    return on_project(judged.root, lambda project: project.certificates.revoke(judged.id, reason))


def verified(target):
    return asyncio.run(verify_certificate(str(target), None))


def whole(judged):
    return asyncio.run(verify_archive(judged.root))


def changed(home, *statements):
    with rows_of(home) as connection:
        for statement in statements:
            connection.execute(statement)


def files(judged):
    return {path: path.read_bytes() for path in sorted(judged.view.parent.iterdir())}


def test_a_revoked_certificate_is_so_by_identifier_by_file_and_in_a_clone(judged, monkeypatch, tmp_path, home):
    notice = revoked(judged)
    assert (notice.kind, notice.certificate) == (NoticeKind.CERTIFICATE_REVOKED, judged.id)
    for target in (judged.id, judged.view, judged.record):
        found = verified(target)
        assert found.currency is FreshnessState.REVOKED
        assert [each.reason for each in found.later] == ["the data set was mislabelled"]
        assert found.exit_code is ExitCode.NOT_CURRENT
    shutil.copytree(home / "keys", tmp_path / "other" / "keys")
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "other"))
    monkeypatch.delenv("ESPER_DATABASE_URL", raising=False)
    found = verified(judged.view)
    assert "archive" not in {each.name for each in found.genuine}
    assert found.currency is FreshnessState.REVOKED


def test_a_revocation_that_nobody_trusted_signed_revokes_nothing(judged, monkeypatch, tmp_path, home):
    shutil.copytree(home / "keys", tmp_path / "issuer" / "keys")
    with rows_of(home) as connection:
        entry = connection.execute("SELECT count(*) FROM log_entry").fetchone()
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "stranger"))
    theirs = judge_elsewhere(judged, tmp_path)
    shutil.copy(theirs, judged.view.with_suffix(".7.notice.json"))
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "issuer"))
    assert entry == (1,)
    assert verified(judged.view).currency is FreshnessState.VALID


def judge_elsewhere(judged, tmp_path):
    """Return a notice, signed by whoever owns the home of now, that revokes the certificate."""
    from esper_agents.certificates.notices import notice_statement
    from esper_agents.certificates.signing.dsse import envelope_bytes, seal
    from esper_agents.certificates.signing.signing_key import signing_key
    from esper_agents.domain.notice import LogNoticeStatement
    from esper_agents.paths import home

    notice = LogNoticeStatement(
        "ntc_" + "0" * 32,
        NoticeKind.CERTIFICATE_REVOKED,
        "2026-01-31T09:30:00.000Z",
        "x",
        "so",
        "",
        judged.id,
        "0" * 64,
    )
    file = tmp_path / "theirs.json"
    file.write_bytes(envelope_bytes(seal(signing_key(home()), notice_statement(notice))))
    return file


def test_revoking_wants_a_reason_and_a_certificate_that_there_is(judged):
    with pytest.raises(UsageError, match="needs a reason"):
        revoked(judged, "  ")
    with pytest.raises(NotFoundError):
        on_project(judged.root, lambda project: project.certificates.revoke("crt_" + "0" * 32, "why"))


def test_a_repair_of_what_is_whole_changes_nothing(judged):
    before = files(judged)
    done = repaired(judged)
    assert (done.entered, done.nodes, done.is_signed) == (0, 0, False)
    assert (done.corrected, done.reindexed, done.written, done.accepted, done.left) == ((), (), (), (), ())
    assert done.is_nothing
    assert files(judged) == before


def test_files_that_were_deleted_or_changed_are_made_again_as_they_were(judged):
    revoked(judged)
    before = files(judged)
    for number, path in enumerate(before):
        path.unlink() if number % 2 else path.write_bytes(b"forged\0" * 100)
    assert set(repaired(judged).written) == set(before)
    after = files(judged)
    # The log has grown since the proof was published: the new one leads to the newest checkpoint.
    assert {path: data for path, data in after.items() if path != judged.proof} == {
        path: data for path, data in before.items() if path != judged.proof
    }
    assert verified(judged.record).soundness is ExitCode.DONE
    assert repaired(judged).written == ()


def test_columns_that_were_changed_are_corrected_from_the_record(judged, home):
    changed(home, "UPDATE certificate SET status = 'APPROVED', agent = 'somebody'")
    found = whole(judged)
    assert any("archive index has another status" in each.detail for each in found.certificates[0].verified.genuine)
    assert repaired(judged).corrected == (judged.id,)
    assert repaired(judged).corrected == ()
    assert whole(judged).certificates[0].verified.soundness is ExitCode.DONE


@pytest.mark.sample(1)
@pytest.mark.parametrize("table", ["certificate_file", "certificate_rule", "certificate_text"])
def test_a_repair_names_the_certificates_whose_index_rows_it_wrote_again(judged, home, table):
    if table == "certificate_text" and not is_shared():
        changed(home, "INSERT INTO certificate_text (certificate_text) VALUES ('delete-all')")
    else:
        changed(home, f"DELETE FROM {table}")  # noqa: S608 - fixed names
    said = CliRunner().invoke(build(), ["certificates", "repair"]).stdout
    assert f"index rows written again: 1 certificate\n  {judged.id}\n" in said
    assert whole(judged).faults == ()
    done = CliRunner().invoke(build(), ["certificates", "repair"])
    assert (done.exit_code, done.stdout) == (0, "nothing to repair\n")


def test_a_relation_that_was_taken_out_of_the_index_is_noticed_and_put_back(judged, home):
    async def ask_again(project):
        return await (await project.tasks.submit(await project.tasks.repeat(judged.id))).run()

    later = on_project(judged.root, ask_again).certificate.id
    assert verified(judged.id).currency is FreshnessState.SUPERSEDED
    changed(home, "DELETE FROM certificate_relation")
    assert "archive index has another relation" in " ".join(each.detail for each in verified(later).genuine)
    repaired(judged)
    assert verified(judged.id).currency is FreshnessState.SUPERSEDED


@pytest.mark.parametrize("column", ["certificate.statement", "log_entry.signature", "log_entry.leaf_hash"])
def test_text_in_a_column_of_bytes_is_found_out(judged, home, column):
    table, name = column.split(".")
    changed(home, f"UPDATE {table} SET {name} = 'text'")  # noqa: S608 - fixed names
    assert verified(judged.id).exit_code is ExitCode.TAMPERED


def test_a_statement_that_was_changed_behind_its_leaf_is_named(judged, home):
    changed(home, "UPDATE log_entry SET signature = CAST('no signature' AS BLOB)")
    assert whole(judged).faults


def test_a_checkpoint_and_nodes_that_are_gone_are_made_again_from_the_entries(judged, home):
    changed(home, "DELETE FROM log_node", "DELETE FROM log_checkpoint")
    done = repaired(judged)
    assert done.nodes == 1
    assert done.is_signed
    assert whole(judged).faults == ()


def test_an_archive_from_before_there_was_a_log_is_signed_once(judged, home):
    changed(
        home,
        *(f"DELETE FROM {each}" for each in ("log_entry", "log_node", "log_checkpoint", "log")),  # noqa: S608 - fixed
        "UPDATE project SET log_id = 0",
    )
    shutil.rmtree(home / "pins")
    shutil.rmtree(judged.view.parent)
    assert verified(judged.id).exit_code is ExitCode.UNDECIDED
    assert repaired(judged).entered == 1
    assert repaired(judged).entered == 0
    assert verified(judged.id).exit_code is ExitCode.DONE


@pytest.mark.parametrize(
    ("name", "statements"),
    [
        ("emptied", ["DELETE FROM log_entry", "DELETE FROM log_node", "DELETE FROM log_checkpoint"]),
        ("newest-deleted", ["DELETE FROM log_entry WHERE idx = 1", "DELETE FROM log_node WHERE idx >= 1 OR level > 0"]),
    ],
)
def test_a_log_that_lost_entries_is_refused_until_a_person_accepts_it_on_record(judged, home, name, statements):
    revoked(judged)
    changed(home, *statements)
    found = verified(judged.id)
    assert name in " ".join(fault.kind for fault in whole(judged).faults)
    assert found.exit_code is ExitCode.TAMPERED
    with pytest.raises(IntegrityError, match=name):
        repaired(judged)
    with pytest.raises(IntegrityError, match=name):
        on_project(judged.root, lambda project: project.certificates.revoke(judged.id, "again"))
    done = repaired(judged, accept_rollback=True)
    assert [each.split(":")[0] for each in done.accepted] == [name]
    assert {fault.kind for fault in whole(judged).faults} <= {"certificate-not-logged", "forked"}
    with rows_of(home) as connection:
        statement = connection.execute("SELECT statement FROM log_entry WHERE kind = 'notice'").fetchone()[0]
    assert b"rollback-accepted" in statement
    assert b'"before":"urn:uuid:' in statement


def test_what_stands_in_the_archive_without_an_entry_is_not_signed_by_a_repair(judged, home):
    changed(home, "DELETE FROM log_entry", "DELETE FROM log_node", "DELETE FROM log_checkpoint")
    done = repaired(judged, accept_rollback=True)
    assert done.entered == 0
    assert [each.split(":")[0] for each in done.left] == [judged.id]
    assert verified(judged.id).exit_code is ExitCode.TAMPERED


def test_a_database_that_was_deleted_is_gone_on_without_when_a_person_accepts_it(judged, home):
    if is_shared():
        pytest.skip("a server's files are not ours to copy or to delete")
    (database,) = home.glob("projects/*/esper.db")
    for path in database.parent.glob("esper.db*"):
        path.unlink()
    with pytest.raises(IntegrityError, match="database-deleted"):
        repaired(judged)
    done = repaired(judged, accept_rollback=True)
    assert [each.split(":")[0] for each in done.accepted] == ["database-deleted"]
    assert repaired(judged).accepted == ()
    assert whole(judged).faults == ()


def test_an_older_copy_of_the_database_is_found_out_and_again_when_it_was_used(judged, home, tmp_path):
    if is_shared():
        pytest.skip("a server's files are not ours to copy or to delete")
    (database,) = home.glob("projects/*/esper.db")
    older = tmp_path / "older.db"
    with closing(sqlite3.connect(database)) as connection, closing(sqlite3.connect(older)) as copy:
        connection.backup(copy)
    revoked(judged)
    for path in database.parent.glob("esper.db*"):
        path.unlink()
    shutil.copy(older, database)
    assert "rolled-back" in {fault.kind for fault in whole(judged).faults}
    pin = next((home / "pins").glob("*.checkpoint"))
    kept = pin.read_bytes()
    pin.unlink()
    revoked(judged, "something else")
    revoked(judged, "and more")
    pin.write_bytes(kept)
    assert "forked" in {fault.kind for fault in whole(judged).faults}
    assert verified(judged.id).exit_code is ExitCode.TAMPERED


def test_a_database_that_was_deleted_is_noticed_before_anything_is_issued(judged, home):
    if is_shared():
        pytest.skip("a server's files are not ours to copy or to delete")
    for path in home.glob("projects/*/esper.db*"):
        path.unlink()
    with pytest.raises(IntegrityError, match="database-deleted"):
        judge(judged.root)
    assert repaired(judged, accept_rollback=True).accepted
    assert judge(judged.root).id != judged.id


def test_published_proofs_show_a_loss_that_the_pin_forgot(judged, home):
    revoked(judged)
    revoked(judged, "twice")
    judged.proof.unlink()
    repaired(judged)
    changed(
        home,
        "DELETE FROM log_entry WHERE idx = 2",
        "DELETE FROM log_node WHERE idx = 2 OR level > 1",
        "DELETE FROM log_checkpoint",
    )
    shutil.rmtree(home / "pins")
    assert "newest-deleted" in {fault.kind for fault in whole(judged).faults}


def test_the_envelope_that_is_published_is_the_one_in_the_log(judged, home):
    with rows_of(home) as connection:
        statement, signature = connection.execute(
            "SELECT certificate.statement, log_entry.signature FROM certificate JOIN log_entry ON record_id = id"
        ).fetchone()
    sealed = read_envelope(judged.record.read_bytes())
    assert (sealed.payload, sealed.signature) == (statement, signature)


INDEX_CHANGES = {
    "certificate_file": "UPDATE certificate_file SET path = 'other.py'",
    "certificate_rule": "DELETE FROM certificate_rule",
    "certificate_metric": "UPDATE certificate_metric SET amount = amount + 1",
    "certificate_relation": (
        "INSERT INTO certificate_relation (other, position, kind)"
        " SELECT 'crt_00000000000000000000000000000000', position, 'supersedes' FROM certificate"
    ),
}
WORDS = {
    "sqlite": ("INSERT INTO certificate_text (rowid, words) SELECT position + 9, 'flawless' FROM certificate",),
    "postgresql": ("UPDATE certificate_text SET words = to_tsvector('simple', 'flawless')",),
}


def test_index_rows_that_the_statements_do_not_give_are_found_and_made_again(judged, home, rows_in):
    assert whole(judged).faults == ()
    for table, statement in INDEX_CHANGES.items():
        changed(home, statement)
        details = [fault.detail for fault in whole(judged).faults]
        assert any(f"its rows in {table} differ from" in detail for detail in details), table
    changed(home, *WORDS[rows_in])
    assert any("certificate_text" in fault.detail for fault in whole(judged).faults)
    repaired(judged)
    assert whole(judged).faults == ()


EVENT_CHANGES = {
    "changed": "UPDATE ledger SET body = replace(body, 'zero_grad', 'zero_grab') WHERE frame > 0",
    "moved in time": "UPDATE ledger SET at = '2020-01-01T00:00:00.000Z' WHERE kind = 'submitted'",
    "removed": "DELETE FROM ledger WHERE seq = (SELECT max(seq) FROM ledger WHERE kind = 'called')",
    "of another kind": "UPDATE ledger SET kind = 'moved-refused' WHERE kind = 'concluded'",
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", EVENT_CHANGES)
def test_an_event_of_a_certified_session_that_was_changed_is_found(judged, home, how):
    assert (whole(judged).faults, whole(judged).uncovered) == ((), 0)
    changed(home, EVENT_CHANGES[how])
    assert {fault.kind for fault in whole(judged).faults} == {"events-changed"}


def test_an_event_after_the_certificate_is_found(judged, home):
    changed(
        home,
        "INSERT INTO ledger (session_id, frame, step, call, kind, fence, at, body)"
        " SELECT session_id, 0, 0, 0, 'cancelled', fence, at, '{}' FROM ledger WHERE kind = 'certified'",
    )
    assert {fault.kind for fault in whole(judged).faults} == {"events-changed"}


NOTE_CHANGES = {
    "changed": "UPDATE note SET text = 'all is well' WHERE kind = 'decisions-log'",
    "removed": "DELETE FROM note WHERE kind = 'next-actions'",
    "given to another agent": "UPDATE note SET agent = 'pytorch-expert' WHERE kind = 'decisions-log'",
    "inserted": (
        "INSERT INTO note (id, project_key, agent, kind, state, subject, text, command, session_id, certificate_id,"
        " revision, sources, written_at, author) SELECT 'mem_00000000000000000000000000000000', project_key, agent,"
        " kind, state, 'more', 'ship it', command, session_id, '', revision, sources, written_at, '' FROM note LIMIT 1"
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", NOTE_CHANGES)
def test_a_note_of_a_certificate_that_was_changed_is_found(judged, home, how):
    changed(home, "DELETE FROM note_file", NOTE_CHANGES[how])
    assert {fault.kind for fault in whole(judged).faults} == {"notes-changed"}
    done = repaired(judged)
    if how == "inserted":
        assert {each.split(":")[1].strip() for each in done.left} == {"notes-changed"}
    else:
        assert done.notes
        assert (done.left, whole(judged).faults) == ((), ())


def test_a_note_that_a_person_forgot_or_redacted_is_no_fault(judged):
    async def erase(project):
        await project.memory.redact("zero_grad")
        (note, *_) = await project.memory.list()
        await project.memory.forget(note.id)

    on_project(judged.root, erase)
    assert whole(judged).faults == ()


def test_a_pruned_session_is_no_fault_and_its_remaining_events_are_covered(judged, home):
    async def prune(project):
        return await project.certificates.prune(await project.certificates.prunable(days=0), days=0)

    assert on_project(judged.root, prune).sessions
    assert whole(judged).faults == ()
    changed(home, EVENT_CHANGES["moved in time"])
    assert {fault.kind for fault in whole(judged).faults} == {"events-changed"}


def test_a_certificate_that_signs_no_digests_is_told_as_not_covered(make_project, monkeypatch):
    monkeypatch.setattr("esper_agents.orchestration.session_projection.SessionProjection.events_sha256", "")
    monkeypatch.setattr("esper_agents.orchestration.build_certificate.notes_digest", lambda _: "")
    root = make_project({"train.py": FAULTY})
    monkeypatch.chdir(root)
    judged = judge(root)
    assert b"events_sha256" not in read_envelope(judged.record.read_bytes()).payload
    assert (whole(judged).faults, whole(judged).uncovered) == ((), 1)


def test_a_repair_corrects_the_session_and_the_project_of_a_certificate(judged, home, rows_in):
    changed(
        home,
        "INSERT INTO project (key, root, name, opened_at) SELECT 'other', root, name, opened_at FROM project",
        "UPDATE certificate SET project_key = 'other'",
    )
    assert whole_of_everything(home) == {("other",)}
    done = repaired(judged)
    assert done.corrected == (judged.id,)
    assert verified(judged.id).exit_code is ExitCode.DONE


def whole_of_everything(home):
    with rows_of(home) as connection:
        return {tuple(row) for row in connection.execute("SELECT project_key FROM certificate").fetchall()}


def test_a_repair_that_leaves_something_wrong_says_so(judged, home):
    changed(home, "UPDATE certificate SET request = 'x', statement = CAST('{}' AS BLOB)")
    done = repaired(judged)
    assert not done.is_authentic
    assert any(each.startswith(f"{judged.id}: ") for each in done.left)
