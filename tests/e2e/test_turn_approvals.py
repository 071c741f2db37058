"""The calls of one turn of a model, as a user approves them at a terminal and on the command line."""

from __future__ import annotations

import os
import pty
import subprocess
from contextlib import contextmanager, suppress

import pytest
from modelling import conclude
from places import SOUND

from esper_agents.orchestration import consent
from esper_agents.testing.messages import MessagesServer
from esper_agents.testing.script import ToolUseBlock

SUBMIT = ("submit", "tidy this training code", "train.py", "--agent", "project:fixer", "--reasoner", "claude")
AGENT = """---
name: fixer
description: Tidies training code. Use for tidying.
tools: [read-file, edit-file, write-file, shell]
---
You tidy.
"""
TURN = [
    ToolUseBlock("edit-file", {"path": "notes.md", "old_string": "one", "new_string": "two"}),
    ToolUseBlock("write-file", {"path": "more.md", "content": "made\n"}),
    ToolUseBlock("edit-file", {"path": "more.md", "old_string": "made", "new_string": "changed"}),
]
DIFF = "-one\n+two"


@pytest.fixture(scope="module")
def _toy(place):
    made = place({"train.py": SOUND, "notes.md": "one\n", ".claude/agents/fixer.md": AGENT})
    made.esper("sessions", "list", code=0)
    return made


@pytest.fixture
def toy(_toy, tmp_path):
    made = _toy.with_home(tmp_path / "home")
    (made.root / "notes.md").write_text("one\n")
    (made.root / "more.md").unlink(missing_ok=True)
    return made


@contextmanager
def serving(toy, *turns):
    """Serve a model that takes turns and concludes, to which the source of the project may be sent."""
    with MessagesServer([*turns, conclude()]) as server:
        (home,) = (toy.home / "projects").iterdir()
        consent.agree(home, server.url.removeprefix("http://"), "Ada")
        yield server


def typed(toy, server, *keys):
    """Run the task at a terminal at which a user types; return the exit code and what was shown."""
    ours, theirs = pty.openpty()
    env = {**server.environment, "COLUMNS": "160", "NO_COLOR": "1"}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = subprocess.Popen(**toy.child(*SUBMIT, env=env), **streams, start_new_session=True)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # what Linux answers once the other end is closed
        for key in keys:
            while shown.rpartition(b"\n")[2] != b"> ":
                shown += os.read(ours, 4096)
            os.write(ours, f"{key}\n".encode())
            shown += b"\n"
        while more := os.read(ours, 4096):
            shown += more
    os.close(ours)
    return process.wait(), shown.decode().replace("\r", "")


def contents(toy):
    """Return the files that the model's turn changes."""
    more = toy.root / "more.md"
    return (toy.root / "notes.md").read_text(), more.read_text() if more.exists() else None


def test_the_calls_of_a_turn_are_shown_as_diffs_and_approved_together_at_a_terminal(toy):
    with serving(toy, TURN) as server:
        code, shown = typed(toy, server, "yes", "approve")
    assert code == 0
    assert (
        shown.index("1. may edit-file run?") < shown.index("2. may write-file run?") < shown.index("3. may edit-file")
    )
    assert f"{' ' * 11}-one\n{' ' * 11}+two\n" in shown
    # An edit of a file that the turn writes is shown on top of it.
    assert f"{' ' * 11}-made\n{' ' * 11}+changed\n" in shown
    assert "fix: answer approve, deny, session or each" in shown
    assert contents(toy) == ("two\n", "changed\n")


@pytest.mark.slow
def test_the_calls_of_a_turn_are_answered_one_by_one_at_a_terminal(toy):
    with serving(toy, TURN) as server:
        code, shown = typed(toy, server, "each", "approve", "deny", "deny")
    assert code == 0
    assert "a person denied this call" in shown
    assert contents(toy) == ("two\n", None)


@pytest.mark.slow
def test_an_approval_for_the_session_answers_the_other_calls_of_the_tool(toy):
    with serving(toy, TURN) as server:
        code, shown = typed(toy, server, "each", "session", "approve")
    assert code == 0
    assert shown.count("approve, deny, session: approve edit-file for this session") == 1
    assert contents(toy) == ("two\n", "changed\n")


def test_the_calls_of_a_turn_are_approved_together_on_the_command_line(toy):
    with serving(toy, TURN) as server:
        waiting = toy.esper(*SUBMIT, code=9, env=server.environment).stdout
        together = f"esper approve {waiting.split('session    ')[1][:4]}"
        (line,) = [each for each in waiting.splitlines() if each.startswith(f"or         {together}")]
        assert line.endswith("--all # all 3, in this order")
        listed = toy.esper("approvals", "list", code=0).stdout
        command = line.split()[1:-6]
        assert " ".join(command) in listed
        assert contents(toy) == ("one\n", None)
        toy.esper(*command[1:], code=0, env=server.environment)
    assert contents(toy) == ("two\n", "changed\n")


SHELL = ToolUseBlock("shell", {"command": "ls notes.md"})


@pytest.mark.slow
def test_a_command_prefix_is_approved_and_a_pipe_or_another_command_still_asks(toy):
    turns = (
        [SHELL],
        [ToolUseBlock("shell", {"command": "ls train.py"})],
        [
            ToolUseBlock("shell", {"command": "ls | wc"}),
            ToolUseBlock("shell", {"command": "wc notes.md"}),
        ],
    )
    with serving(toy, *turns) as server:
        waiting = toy.esper(*SUBMIT, code=9, env=server.environment).stdout
        assert f"{' ' * 11}$ ls notes.md\n" in waiting
        for words in ("wc", "l", "ls notes.md more"):
            problem, remedy = toy.esper("approve", "--prefix", words, env=server.environment).problem(2)
            assert problem == f"the command does not begin with the words {words!r}"
            assert remedy.endswith("--prefix ls")
        problem, _ = toy.esper("approve", "--prefix", "ls", "--session").problem(2)
        assert problem == "--session and --prefix exclude each other"
        waiting = toy.esper("approve", "--prefix", "ls", code=9, env=server.environment).stdout
    assert "$ ls | wc" in waiting
    assert "$ wc notes.md" in waiting
    assert "ls train.py" not in waiting.partition("waiting ")[2]
