"""Whole archives move between databases and machines: complete, verified on arrival, or not at all."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
from places import environment
from sqlalchemy import func, select, text

from esper_agents.api import (
    check_coverage,
    export_archive,
    export_key,
    import_archive,
    open_project,
    trust_key,
    verify_archive,
)
from esper_agents.errors import EsperError, EvidenceError, ExitCode, IntegrityError, UsageError
from esper_agents.paths import project_home
from esper_agents.storage.database_url import database_url
from esper_agents.storage.store import Store
from esper_agents.storage.tables import metadata

DOCS = Path(__file__).parents[3] / "docs" / "operations.md"


@pytest.fixture
def exported(judged_project, tmp_path):
    """Return the archive file of a project with one certificate, and the public key of its author."""
    file = tmp_path / "archive.tar"
    counts = asyncio.run(export_archive(file, judged_project.root))
    assert (counts.certificates, counts.sessions, counts.log_entries) == (1, 1, 1)
    return file, export_key(name="ann@example.org")


@pytest.fixture
def other_machine(tmp_path, monkeypatch):
    """Make the data directory a new one, and return a function that moves on to another."""

    def move(name="other"):
        monkeypatch.setenv("ESPER_HOME", str(tmp_path / name))

    return move


def rows(root):
    """Return the number of rows of each table of the project's database, and the ledger without numbers."""
    from esper_agents.git.find_project import find_project

    store = Store(database_url(project_home(find_project([root], root).key) / "esper.db"))
    try:
        with store.reading() as connection:
            names = ("session", "ledger", "certificate", "log_entry", "log_node", "note", "certificate_file")
            counts = {
                name: connection.scalar(select(func.count()).select_from(metadata.tables[name])) for name in names
            }
            events = connection.execute(text("SELECT session_id, kind, at, body FROM ledger ORDER BY seq")).all()
            return counts, [tuple(each) for each in events]
    finally:
        store.close()


def rewritten(file, to, change):
    """Write an archive again with changed members, and digests that match them, as an attacker would."""
    with tarfile.open(file) as tar:
        members = {each.name: tar.extractfile(each).read() for each in tar}
    change(members)
    listing = json.loads(members.pop("archive.json"))
    listing["sha256"] = {name: sha256(data).hexdigest() for name, data in members.items()}
    with tarfile.open(to, "w") as tar:
        for name, data in (("archive.json", json.dumps(listing).encode()), *members.items()):
            head = tarfile.TarInfo(name)
            head.size = len(data)
            tar.addfile(head, io.BytesIO(data))
    return to


def test_an_archive_arrives_whole_in_either_database(judged_project, exported, other_machine, database, monkeypatch):
    file, key = exported
    before = rows(judged_project.root)
    other_machine()
    trust_key(key)
    monkeypatch.setenv("ESPER_DATABASE_URL", database.render_as_string(hide_password=False))
    asyncio.run(import_archive(file, judged_project.root))
    assert rows(judged_project.root) == before
    assert asyncio.run(verify_archive(judged_project.root)).exit_code is ExitCode.DONE
    # And back again: out of that database into another SQLite file.
    asyncio.run(export_archive(file.with_name("again.tar"), judged_project.root))
    monkeypatch.delenv("ESPER_DATABASE_URL")
    other_machine("third")
    trust_key(key)
    asyncio.run(import_archive(file.with_name("again.tar"), judged_project.root))
    assert rows(judged_project.root) == before


def test_what_arrived_is_searched_remembered_gated_and_extended(judged_project, exported, other_machine):
    from judged import judge

    file, key = exported
    other_machine()
    trust_key(key)
    asyncio.run(import_archive(file, judged_project.root))

    async def found():
        async with open_project(judged_project.root) as project:
            wanted = await project.certificates.list(limit=5)
            return [each.id for each in wanted], await project.memory.search("zero_grad"), await project.sessions.list()

    ids, _, sessions = asyncio.run(found())
    assert (ids, len(sessions)) == ([judged_project.id], 1)
    assert [str(each.standing) for each in asyncio.run(check_coverage(judged_project.root)).coverage] == ["against"]
    judge(judged_project.root)
    verified = asyncio.run(verify_archive(judged_project.root))
    assert (len(verified.certificates), verified.entries, verified.faults) == (2, 2, ())


def test_a_key_that_is_not_trusted_is_named_and_nothing_is_imported(judged_project, exported, other_machine):
    file, _ = exported
    other_machine()
    with pytest.raises(EvidenceError, match=r"not trusted: SHA256:"):
        asyncio.run(import_archive(file, judged_project.root))
    assert set(rows(judged_project.root)[0].values()) == {0}


def changed_event(members):
    name = "rows/ledger.jsonl"
    members[name] = members[name].replace(b"zero_grad", b"zer0_grad")


def removed_event(members):
    name = "rows/ledger.jsonl"
    members[name] = b"".join(members[name].splitlines(keepends=True)[:-3])


def changed_signature(members):
    (row,) = map(json.loads, members["rows/log_entry.jsonl"].splitlines())
    row["signature"]["base64"] = "A" * 86 + "=="
    members["rows/log_entry.jsonl"] = json.dumps(row).encode() + b"\n"


def changed_root(members):
    (row,) = map(json.loads, members["rows/log_checkpoint.jsonl"].splitlines())
    row["size"] = 7
    members["rows/log_checkpoint.jsonl"] = json.dumps(row).encode() + b"\n"


def other_member(members):
    (row,) = map(json.loads, members["rows/session.jsonl"].splitlines())
    members["rows/session.jsonl"] = json.dumps(row | {"root": "/etc"}).encode() + b"\n"


def other_kind(members):
    members["rows/session.jsonl"] = members["rows/session.jsonl"].replace(b'"state": "done"', b'"state": "hacked"')


def escaping_name(members):
    members["../escaped"] = b"x"


def escaping_artifact(members):
    members["artifacts/" + "a" * 64] = b"not the content of this digest"


@pytest.mark.parametrize(
    "change",
    [
        changed_event,
        removed_event,
        changed_signature,
        changed_root,
        other_member,
        other_kind,
        escaping_name,
        escaping_artifact,
    ],
    ids=lambda change: change.__name__,
)
def test_a_changed_archive_is_refused_and_leaves_no_row(judged_project, exported, other_machine, tmp_path, change):
    file, key = exported
    forged = rewritten(file, tmp_path / "forged.tar", change)
    other_machine()
    trust_key(key)
    with pytest.raises(IntegrityError) as refused:
        asyncio.run(import_archive(forged, judged_project.root))
    assert "\n" not in refused.value.problem
    assert set(rows(judged_project.root)[0].values()) == {0}
    assert list(tmp_path.rglob("escaped")) == list(tmp_path.rglob(".import-*")) == []


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "folder", "missing"])
def test_a_file_that_is_no_archive_is_refused_in_two_lines(judged_project, exported, other_machine, tmp_path, damage):
    file, key = exported
    bad = tmp_path / "bad.tar"
    if damage == "folder":
        bad.mkdir()
    elif damage != "missing":
        data = {"cut": file.read_bytes()[: file.stat().st_size // 2], "empty": b"", "text": b"hello\n" * 1000}[damage]
        bad.write_bytes(data)
    other_machine()
    trust_key(key)
    with pytest.raises(EsperError) as refused:
        asyncio.run(import_archive(bad, judged_project.root))
    assert "\n" not in refused.value.problem
    assert refused.value.remedy


def test_an_archive_older_than_the_log_that_was_seen_here_is_refused(judged_project, exported, home):
    from judged import judge

    file, _ = exported
    judge(judged_project.root)
    for path in home.glob("projects/*/esper.db*"):
        path.unlink()
    with pytest.raises(IntegrityError, match="contradicts the log that was seen here"):
        asyncio.run(import_archive(file, judged_project.root))


def test_a_project_with_sessions_takes_no_second_archive(judged_project, exported):
    with pytest.raises(UsageError, match="has an archive already, with 1 session"):
        asyncio.run(import_archive(exported[0], judged_project.root))


_KILLED = """
import asyncio, os, signal, sys
from esper_agents.archive.transfer import rows
index, calls = rows._index, []
def killed(transaction, key):
    index(transaction, key)
    calls.append(key)
    # The first call fills the copy that is verified; the second ends the transaction of the project's database.
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
rows._index = killed
from esper_agents.api import import_archive
asyncio.run(import_archive(sys.argv[1], sys.argv[2]))
"""


def test_an_import_killed_before_its_commit_leaves_no_row_and_is_repeated(
    judged_project, exported, other_machine, tmp_path
):
    file, key = exported
    other_machine()
    trust_key(key)
    command = [sys.executable, "-c", _KILLED, str(file), str(judged_project.root)]
    done = subprocess.run(command, env=environment(os.environ["ESPER_HOME"]), check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert set(rows(judged_project.root)[0].values()) == {0}
    assert len(list(tmp_path.rglob(".import-*"))) == 1
    asyncio.run(import_archive(file, judged_project.root))
    assert rows(judged_project.root)[0]["certificate"] == 1
    assert list(tmp_path.rglob(".import-*")) == []


def test_the_restore_drill_of_the_documentation_works_as_written(judged_project):
    section = DOCS.read_text().partition("### Restore drill")[2]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1]
    done = subprocess.run(
        ["bash", "-euc", block],
        cwd=judged_project.root,
        env=environment(os.environ["ESPER_HOME"]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{judged_project.id}: genuine holds" in done.stdout
    assert "log: 1 entry, no faults" in done.stdout
