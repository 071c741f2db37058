"""`esper certificates override`, run as people run it: at a terminal, from a script, and by nobody."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from contextlib import suppress

import pytest
from places import FAULTY, Place, git, write

OVERRIDE = (
    "certificates",
    "override",
    "latest",
    "--status",
    "approved",
    "--reason",
    "not *shipped*\x1b[31m\n**Status**: GO",
)


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory):
    """Return a project with one certificate, and a copy of it and its home."""
    folder = tmp_path_factory.mktemp("override")
    write(folder / "toy", {"train.py": FAULTY})
    git(folder / "toy", "init", "-q", "-b", "main", "--template=")
    made = Place(folder / "toy", folder / "home")
    made.esper("submit", "review this training code", "train.py", "--agent", "pytorch-code-reviewer")
    return made, shutil.copytree(folder, tmp_path_factory.mktemp("kept") / "override")


@pytest.fixture
def judged(reviewed):
    """Return the project as it was after its review, at the path that names it."""
    made, kept = reviewed
    shutil.rmtree(made.root.parent)
    shutil.copytree(kept, made.root.parent)
    return made


def typed(place, answer):
    """Override at a terminal at which a person types; return the exit code and what was shown."""
    ours, theirs = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = subprocess.Popen(
        **place.child(*OVERRIDE, env={"COLUMNS": "200", "NO_COLOR": "1"}), **streams, start_new_session=True
    )
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 4096)
    os.write(ours, answer.encode())
    with suppress(OSError):  # what Linux answers once the other end is closed
        while more := os.read(ours, 4096):
            shown += more
    os.close(ours)
    return process.wait(), shown.decode()


def test_without_a_person_or_their_yes_nothing_is_overridden(judged):
    for more in ((), ("--json",)):
        problem, remedy = judged.esper(*OVERRIDE, *more).problem(2)
        assert "needs a confirmation" in problem
        assert "--yes" in remedy
    assert judged.esper("certificates", "verify", "--json", code=0).json["overridden"] is None


@pytest.mark.slow
def test_at_a_terminal_the_person_sees_what_they_override_and_decides(judged):
    code, shown = typed(judged, "n\n")
    assert code == 10
    assert "REQUIRES_REMEDIATION for train" in shown
    assert "APPROVED in its place, on record, because: not *shipped*" in shown
    assert judged.esper("certificates", "list", "--json", code=0).json[0]["overridden"] is None
    code, shown = typed(judged, "y\n")
    assert code == 0
    assert "overridden: crt_" in shown
    assert judged.esper("certificates", "list", "--json", code=0).json[0]["overridden"]["status"] == "APPROVED"


def test_it_is_told_wherever_the_status_is_and_its_reason_is_one_line_of_plain_text(judged):
    made = judged.esper(*OVERRIDE, "--yes", "--json", code=0).json
    assert (made["kind"], made["status"]) == ("overridden", "APPROVED")
    line = f"overridden by {made['by']} to APPROVED: not *shipped*\\u001b[31m **Status**: GO"
    for command in (("list",), ("show",), ("verify",), ("verify", "--all"), ("search", "review")):
        said = judged.esper("certificates", *command, code=0, env={"COLUMNS": "200"}).stdout
        assert [each.strip() for each in said.splitlines()].count(line) == 1, command
    data = judged.esper("certificates", "verify", "--json", code=0).json
    assert (data["status"], data["overridden"]["status"]) == ("REQUIRES_REMEDIATION", "APPROVED")
    assert data["overridden"]["notice"] == made["id"]


def test_what_cannot_be_is_refused_with_what_can(judged):
    refused = [
        (("--status", "GO"), "GO cannot replace REQUIRES_REMEDIATION"),
        (("--status", "FINE"), "no status named 'FINE'"),
        (("--reason", " "), "needs a reason"),
        (("--status", "requires-remediation"), "already has status REQUIRES_REMEDIATION"),
    ]
    for more, what in refused:
        problem, _ = judged.esper(*OVERRIDE, *more, "--yes").problem(2)
        assert what in problem
    judged.esper("certificates", "revoke", "latest", "--reason", "wrong data", code=0)
    assert "is revoked by" in judged.esper(*OVERRIDE, "--yes").problem(8)[0]


def test_lists_name_the_revocation(judged):
    judged.esper("certificates", "revoke", "latest", "--reason", "wrong data", code=0)
    for command in (("list",), ("search", "review")):
        said = judged.esper("certificates", *command, code=0).stdout
        assert [each.strip() for each in said.splitlines()].count("revoked: wrong data") == 1, command
        (row,) = judged.esper("certificates", *command, "--json", code=0).json
        assert (row["ended"]["ending"], row["ended"]["reason"]) == ("revoked", "wrong data")


def test_an_export_takes_the_override_along(judged, tmp_path):
    judged.esper(*OVERRIDE, "--yes", code=0)
    judged.esper("certificates", "export", "--output", str(tmp_path / "out"), code=0)
    (notice,) = (tmp_path / "out" / "certificates").glob("*.notice.json")
    record = next((tmp_path / "out" / "certificates").glob("*.dsse.json"))
    assert notice.name.startswith(record.name.partition(".")[0])
    said = judged.esper("certificates", "verify", str(record), code=0).stdout
    assert "to APPROVED: not *shipped*" in said
