"""What a person can get wrong, and what a machine can do to them: two lines, the right exit code, nothing lost."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
from contextlib import closing

import pytest

from esper_agents.review.source import LARGEST_BYTES


@pytest.fixture
def unharmed(known):
    """Return a project with a session and a certificate; both must be there when the test is over."""
    before = known.kept()
    assert all(before)
    yield known
    now = known.kept()
    assert all(was <= is_now for was, is_now in zip(before, now, strict=True))


@pytest.fixture(scope="session")
def wrong_files(toy):
    """Write every sort of path that cannot be reviewed into the project."""
    folder = toy[0].root / "wrong"
    (folder / "nothing").mkdir(parents=True)
    (folder / "nothing/notes.txt").write_text("no Python here\n")
    (folder / "empty.py").write_bytes(b"\n  \n")
    (folder / "binary.py").write_bytes(b"x = 1\0\n")
    (folder / "undecodable.py").write_bytes(b"# \xe9t\xe9\n")
    with (folder / "huge.py").open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    os.mkfifo(folder / "pipe.py")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("none.py", "no such file or folder"),
        ("wrong/empty.py", "the file is empty"),
        ("wrong/binary.py", "binary"),
        ("wrong/undecodable.py", "cannot be decoded"),
        ("wrong/huge.py", f"larger than {LARGEST_BYTES} bytes"),
        ("wrong/pipe.py", "not a regular file"),
        ("wrong/nothing", "no Python file"),
        ("wrong/nothing/notes.txt", "not a Python source file"),
        ("\udce9t\udce9.py", "no such file"),
    ],
)
def test_a_path_that_cannot_be_reviewed_is_named_with_what_is_wrong(unharmed, wrong_files, path, problem):
    before = unharmed.kept()
    said, _ = unharmed.esper("submit", "review this code", path).problem(2)
    assert problem in said
    assert path.encode("utf-8", "backslashreplace").decode() in said
    assert unharmed.kept() == before


def test_paths_of_two_projects_are_refused_with_both_named(unharmed, place):
    other = place({"train.py": "x = 1\n"})
    said, _ = unharmed.esper("submit", "review this code", "train.py", other.root / "train.py").problem(2)
    assert str(unharmed.root) in said
    assert str(other.root) in said


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("arguments", "said", "cure"),
    [
        (
            ("submit", "review this", "train.py", "--agent", "nan-debug"),
            "no agent named 'nan-debug'",
            "nan-debugger",
        ),
        (("submit", "review this", "train.py", "--agent", "zzz"), "no agent named 'zzz'", "esper agents list"),
        (("resume", "ses_000000000000"), "no session named", "esper sessions list"),
        (("sessions", "show", "ses_000000000000"), "no session named", "esper sessions list"),
        (("sessions", "cancel", "ses_000000000000"), "no session named", "esper sessions list"),
        (("submit", "--rerun", "crt_000000000000"), "no certificate named", "esper certificates list"),
        (("certificates", "show", "crt_000000000000"), "no certificate named", "esper certificates list"),
        (("why", "crt_000000000000"), "no certificate named", "esper certificates list"),
        (("approve", "qst_000000000000"), "no question named", "esper approvals list"),
        (("submit", "  ", "train.py"), "the request is empty", "esper submit"),
        (("submit",), "the request is empty", "esper submit"),
        (("submit", "review this", "--agnet"), "no such option: --agnet", "--help"),
        (("launch",), "no such command 'launch'", "--help"),
        (("sessions", "list", "--limit", "0"), "--limit", "--help"),
        (("sessions", "list", "--project", "none"), "no such file or folder", "path"),
        (("resume", "\x1b[31m\u202e"), r"\x1b[31m\u202e", "esper sessions list"),
    ],
)
def test_wrong_usage_is_two_lines_and_exit_code_2(unharmed, arguments, said, cure):
    problem, remedy = unharmed.esper(*arguments).problem(2)
    assert said in problem
    assert cure in remedy


@pytest.mark.parametrize(
    ("arguments", "kind", "said", "cure"),
    [
        (("certificates", "list", "--agnet"), "usage", "no such option: --agnet", "--help"),
        (("launch",), "usage", "no such command 'launch'", "--help"),
        (("why", "crt_000000000000"), "not-found", "no certificate named", "esper certificates list"),
        (("review", "none.py"), "input-file", "no such file or folder", "path"),
        (("submit", "write it up", "train.py", "--agent", "technical-writer"), "usage", "language model", "--reasoner"),
        (("submit", "why did the reward of the last run collapse?", "--agent", "zzz"), "not-found", "no agent", "list"),
        (("submit", "review this", "train.py", "--staged", "--pr"), "usage", "more than one change", "use one of"),
    ],
)
def test_an_error_of_a_command_with_json_is_one_json_object(unharmed, arguments, kind, said, cure):
    done = unharmed.esper(*arguments, "--json", code=2)
    assert done.stdout == ""
    error = json.loads(done.stderr)["error"]
    assert (error["kind"], error["exit"]) == (kind, 2)
    assert said in error["problem"]
    assert cure in error["fix"]


def test_json_is_asked_for_by_the_format_as_well_and_not_behind_two_dashes(known):
    for option in (("--format", "json"), ("--format=json",)):
        assert json.loads(known.esper("review", "none.py", *option, code=2).stderr)["error"]["exit"] == 2
    known.esper("review", "none.py", "--", "--json").problem(2)
    known.esper("review", "none.py", "--format", "sarif").problem(2)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("words", "stray", "command"),
    [
        ("review this train.py", "this", "esper submit 'review this' train.py"),
        ("train.py review this", "review", "esper submit 'review this' train.py"),
        ("compare train.py with sound.py", "with", "esper submit 'compare train.py with sound.py' train.py sound.py"),
        (
            "--dry-run --deny shell why is it slow? train.py",
            "is",
            "esper submit --deny shell --dry-run 'why is it slow?' train.py",
        ),
    ],
)
def test_a_task_without_quotes_is_said_with_the_quoted_command(unharmed, words, stray, command):
    problem, remedy = unharmed.esper("submit", *words.split()).problem(2)
    assert (problem, remedy) == (f"the task is not quoted: {stray!r} is neither a file nor a folder", command)
    assert "not quoted" not in unharmed.esper(*shlex.split(remedy)[1:], "--dry-run").stderr


@pytest.mark.parametrize("words", [("review", "trian.py"), ("review this", "notthere"), ("review", "nosuch/")])
def test_a_path_with_a_slip_in_it_is_said_to_be_missing(unharmed, words):
    problem, _ = unharmed.esper("submit", *words).problem(2)
    assert "not quoted" not in problem


@pytest.mark.slow
def test_python_that_does_not_parse_is_a_critical_finding_against_it(unharmed):
    (unharmed.root / "broken.py").write_text("def f(:\n")
    done = unharmed.esper("submit", "review this code", "broken.py", code=3)
    assert "REQUIRES_REMEDIATION" in done.stdout
    assert "broken.py:1  ESP109 this file does not parse" in done.stdout
    assert not done.stderr


def test_a_request_that_is_nobodys_subject_is_declined_politely(unharmed):
    done = unharmed.esper("submit", "write me a poem about the sea", code=2)
    assert "sorry" in done.stdout
    assert "esper submit" in done.stdout
    assert not done.stderr
    assert len(unharmed.kept()[1]) == 1


def _damage(database):
    with database.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 8000)


def _replace(database):
    database.write_text("this is no database, and it is longer than the header of one would be\n" * 20)


@pytest.mark.parametrize(
    ("harm", "command"), [(_damage, ("sessions", "list")), (_replace, ("submit", "review this code", "train.py"))]
)
def test_a_corrupt_database_is_reported_and_left_as_it_is(known, harm, command):
    harm(known.database)
    before = known.database.read_bytes()
    said, remedy = known.esper(*command).problem(1)
    assert str(known.database) in said
    assert "damaged" in said
    assert "move the file away" in remedy
    assert known.database.read_bytes() == before


def test_a_database_of_a_newer_esper_is_not_touched(known):
    with closing(sqlite3.connect(known.database)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    before = known.kept()
    for command in (("submit", "review this code", "train.py"), ("resume",)):
        said, remedy = known.esper(*command).problem(1)
        assert "9999" in said
        assert remedy == "pip install --upgrade esper-agents"
    assert known.kept() == before


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("what?", 2, "not a database URL"),
        ("oracle://nobody@localhost/none", 2, "oracle"),
        ("postgresql://nobody@127.0.0.1:1/none", 1, "no server accepts connections"),
    ],
)
def test_a_database_url_that_cannot_be_used_is_said_in_our_words(known, url, code, said):
    problem, _ = known.esper("sessions", "list", env={"ESPER_DATABASE_URL": url}).problem(code)
    assert said in problem


def test_a_data_folder_that_cannot_be_made_is_named(known, tmp_path):
    (tmp_path / "file").touch()
    home = tmp_path / "file/home"
    said, remedy = known.esper("submit", "review this code", "train.py", env={"ESPER_HOME": home}).problem(1)
    assert str(home) in said
    assert "ESPER_HOME" in remedy


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", [("sessions", "list"), ("submit", "review this code", "train.py")])
def test_a_data_folder_that_cannot_be_written_is_reported_and_left_as_it_is(known, unprivileged, command):
    folder, before = known.database.parent, known.database.read_bytes()
    known.database.chmod(0o400)
    folder.chmod(0o500)
    try:
        said, remedy = known.esper(*command, before=unprivileged).problem(1)
    finally:
        folder.chmod(0o700)
    assert str(known.database) in said
    assert "read-only" in said or "cannot be opened" in said
    assert "ESPER_HOME" in remedy
    assert known.database.read_bytes() == before
