"""What reaches the terminal: whole paths and commands however narrow it is, nothing that steers it, no noise."""

from __future__ import annotations

import os
import re
import subprocess
import unicodedata
from pathlib import Path

import pytest
from places import FAULTY, PATIENCE_S

NARROW = {"COLUMNS": "40"}
HOSTILE_NAMES = [
    b"new\nline.py",
    b"ansi\x1b[31m\x1b]0;owned\x07.py",
    "bidi\u202egnp.py".encode(),
    b"-rf.py",
    b"\xff\xfe.py",
]
# What a reviewed line may hold, and what a finding quotes of it.
HOSTILE_LINE = "        total += loss  # \x1b[2J\x1b[31m \u202e drowssap \u2066 \x9b0m \x07\n"
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def steering(text):
    """Return the characters of a text that could steer a terminal."""
    return {each for each in text if each != "\n" and unicodedata.category(each) in HIDDEN}


@pytest.fixture(scope="module")
def hostile(place):
    """Return a project whose file names and lines are written against the reader."""
    source = FAULTY.replace("        total += loss\n", HOSTILE_LINE)
    made = place({"quiet.py": source})
    (made.root / "odd").mkdir()
    for name in HOSTILE_NAMES:
        (made.root / "odd" / os.fsdecode(name)).write_text(source)
    return made, made.esper("submit", "review this \x1b[31m\u202etraining code", ".")


def test_hostile_names_and_lines_are_reviewed_and_shown_harmless(hostile):
    _, done = hostile
    assert done.code == 3, done.stderr
    assert not steering(done.stdout)
    assert not done.stderr
    told = " ".join(done.stdout.split())
    for shown in (r"ansi\x1b[31m\x1b]0;owned\x07.py:5", r"bidi\u202egnp.py:5", "odd/-rf.py:5", "odd/new line.py:5"):
        assert shown in told
    assert "1 file could not be read" in told


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "command",
    [
        ("sessions", "list"),
        ("sessions", "show"),
        ("certificates", "list"),
        ("certificates", "show"),
        ("why",),
        ("memory", "show"),
        ("review", "."),
        ("review", "odd/bidi\u202egnp.py"),
        ("submit", "--dry-run", "review this \x1b[2Jcode", "odd"),
    ],
)
def test_no_command_lets_them_steer_the_terminal(hostile, command):
    done = hostile[0].esper(*command)
    assert done.code in {0, 3}, done.stderr
    assert done.stdout.strip()
    assert not steering(done.stdout + done.stderr)


def test_bytes_that_are_no_utf_8_are_taken_as_they_are_in_a_request_and_refused_in_a_path(hostile):
    made, _ = hostile
    done = made.esper("submit", "--dry-run", "review \udce9t\udce9", "quiet.py", code=0)
    assert not steering(done.stdout)
    problem, remedy = made.esper("submit", "review this", "odd/\udcff\udcfe.py").problem(2)
    assert "not UTF-8" in problem
    assert remedy == "rename it, or the folder that is not"


@pytest.mark.slow
def test_names_of_the_project_and_its_branch_may_be_hostile(place, tmp_path):
    made = place({"train.py": "x = 1\n"})
    root = made.root.rename(made.root.with_name("to\x1b[31my\n\u202e"))
    subprocess.run(["git", "-C", root, "checkout", "-q", "-b", "bra\u202ench"], check=True, timeout=PATIENCE_S)
    moved = type(made)(root, tmp_path / "home")
    done = moved.esper("submit", "review this training code", "train.py", code=0)
    assert not steering(done.stdout)
    assert not done.stderr


def _names(text):
    """Return what a person would copy: identifiers, absolute paths and commands, as they stand in a wide terminal."""
    found = re.findall(r"\b(?:ses|crt|qst|ev)_[0-9a-f]{12,}|(?<= )/\S+|\besper [a-z]+ \S+$|`[^`]+`", text, re.MULTILINE)
    assert found
    return set(found)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "command",
    [
        ("sessions", "list"),
        ("sessions", "show"),
        ("submit", "--dry-run", "write me a poem about the sea"),
        ("submit", "--dry-run", "review this training code", "train.py"),
        ("agents", "show", "nan-debugger"),
    ],
)
def test_forty_columns_break_no_name_path_or_command(known, command):
    wide, narrow = (known.esper(*command, env={"COLUMNS": columns}) for columns in ("200", "40"))
    assert narrow.code == wide.code
    assert not narrow.stderr
    assert {name for name in _names(wide.stdout) if name not in narrow.stdout} == set()


@pytest.mark.slow
def test_a_whole_submission_fits_forty_columns(known):
    done = known.esper("submit", "review this training code", "train.py", env=NARROW, code=3)
    lines = done.stdout.splitlines()
    assert all(len(line) <= 40 or re.search(r"ses_|crt_|view: |next: ", line) for line in lines), done.stdout
    ((session, certificate),) = known.rows("SELECT id, certificate_id FROM session ORDER BY id DESC LIMIT 1")
    assert f"session: {session}" in lines
    assert f"next: esper submit --rerun {certificate} # after fixing the findings" in lines
    assert any(line.startswith("view: ") and Path(line.removeprefix("view: ")).is_file() for line in lines)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("agents", "list"),
        ("sessions", "show"),
        ("sessions", "show", "--json"),
        ("submit", "review this training code", "train.py"),
    ],
)
def test_a_reader_that_goes_away_is_no_failure_worth_a_word(known, command):
    reading, writing = os.pipe()
    os.close(reading)
    child = subprocess.Popen(**known.child(*command), stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    _, complaint = child.communicate(timeout=PATIENCE_S)
    assert complaint == ""
    assert child.returncode in {0, 1}


def test_head_gets_its_line(known):
    shell = {**known.child(), "args": ["sh", "-c", "esper sessions show | head -1"]}
    done = subprocess.run(**shell, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.startswith("session")
    assert done.stderr == ""


def test_output_that_cannot_be_written_is_said_in_two_lines(known):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full: an output without room was NOT tested")
    with full.open("w") as output:
        streams = {"stdout": output, "stderr": subprocess.PIPE, "text": True}
        done = subprocess.run(**known.child("sessions", "show"), **streams, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith("esper: the output cannot be written")
    assert len(done.stderr.splitlines()) == 2


def test_closed_streams_are_no_failure(known):
    shell = {**known.child(), "args": ["sh", "-c", "esper sessions list >&- 2>&- <&-"]}
    before = known.kept()
    assert subprocess.run(**shell, timeout=PATIENCE_S, check=False).returncode == 0
    assert known.kept() == before
