"""`esper certificates reproduce`: what a person sees, what a program reads, and what is refused."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from command_line import build
from judged import FAULTY, judge
from typer.testing import CliRunner

from esper_agents.errors import EvidenceError, ExitCode, IntegrityError, NotFoundError


@pytest.fixture
def judged(judged_project, monkeypatch):
    monkeypatch.chdir(judged_project.root)
    return judged_project


def esper(*words):
    return CliRunner().invoke(build(), ["certificates", *words], env={"COLUMNS": "100"})


def archive(home):
    (database,) = home.glob("projects/*/esper.db")
    return closing(sqlite3.connect(database, isolation_level=None))


def test_a_reviewed_project_is_reproduced_live_and_the_certificate_verifies(judged):
    done = esper("reproduce", judged.id)
    assert done.exit_code == ExitCode.DONE, done.output
    assert "static-review (ev_" in done.stdout
    assert f"verdict    CONDITIONALLY_APPROVED for evidence_of_{judged.id[-12:]}" in done.stdout
    verified = esper("verify", "latest")
    assert verified.exit_code == ExitCode.DONE, verified.output
    assert "current: valid" in verified.stdout


@pytest.mark.slow
def test_it_is_reproduced_from_the_commit_after_the_files_have_changed(judged, git):
    judged.train.write_text("print()\n")
    git(judged.root, "commit", "-qam", "second")
    judged.train.unlink()
    done = esper("reproduce", judged.id, "--json")
    assert done.exit_code == ExitCode.DONE, done.output
    said = json.loads(done.stdout)
    assert (said["certificate"]["status"], said["findings"]) == ("CONDITIONALLY_APPROVED", [])
    assert esper("verify", said["certificate"]["id"]).exit_code == ExitCode.NOT_CURRENT


@pytest.mark.slow
def test_a_file_that_was_dirty_and_is_gone_leaves_it_undecided(make_project, monkeypatch):
    root = make_project({"train.py": "import torch\n"})
    (root / "train.py").write_text(FAULTY)
    monkeypatch.chdir(root)
    first = judge(root)
    assert esper("reproduce", first.id).exit_code == ExitCode.DONE
    (root / "train.py").write_text("import torch\n")
    done = esper("reproduce", first.id)
    assert done.exit_code == ExitCode.UNDECIDED, done.output
    assert "not run: 'train.py' is no longer available in its certified version" in " ".join(done.stdout.split())


def test_what_does_not_come_out_again_exits_with_3(judged, monkeypatch):
    # As where rules of the same version were changed by hand.
    monkeypatch.setattr("esper_agents.tools.static_review._known", lambda _: ["security"])
    done = esper("reproduce", judged.id)
    assert done.exit_code == ExitCode.AGAINST, done.output
    assert "DIFFERS" in done.stdout
    assert f"esper certificates revoke {judged.id}" in esper("show", "latest").stdout.replace("\n", " ")


def test_a_reproduction_lets_no_code_through_a_gate(judged):
    assert esper("reproduce", judged.id).exit_code == ExitCode.DONE
    done = CliRunner().invoke(build(), ["gate", "train.py", "--require", "APPROVED"], env={"COLUMNS": "100"})
    assert done.exit_code == ExitCode.AGAINST, done.output


def test_no_such_certificate_is_refused(judged):
    done = esper("reproduce", "crt_000000000000")
    assert isinstance(done.exception, NotFoundError)
    assert judged.id in done.exception.remedy or "esper certificates list" in done.exception.remedy


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE certificate SET statement = CAST(replace(CAST(statement AS TEXT), 'train', 'brain') AS BLOB)",
        "UPDATE certificate SET status = 'APPROVED'",
        "UPDATE log_entry SET signature = zeroblob(64)",
        "DELETE FROM log_entry",
    ],
)
def test_a_certificate_that_is_not_what_was_issued_is_refused(judged, home, change):
    with archive(home) as connection:
        connection.execute(change)
        before = connection.execute("SELECT count(*) FROM session").fetchone()
    done = esper("reproduce", judged.id)
    assert isinstance(done.exception, IntegrityError), done.output
    assert done.exception.exit_code is ExitCode.TAMPERED
    with archive(home) as connection:
        assert connection.execute("SELECT count(*) FROM session").fetchone() == before


def test_a_certificate_that_nobody_signed_is_not_built_on(judged, home):
    with archive(home) as connection:
        for table in ("log_entry", "log_node", "log_checkpoint", "log"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
    done = esper("reproduce", judged.id)
    assert isinstance(done.exception, EvidenceError), done.output
    assert "before the log existed" in done.exception.problem


def test_a_certificate_whose_key_nobody_trusts_is_not_built_on(judged, home):
    (home / "keys" / "signing-key.pem").unlink()
    done = esper("reproduce", judged.id)
    assert isinstance(done.exception, (EvidenceError, IntegrityError)), done.output
