"""Ctrl-C before there is a session: one line and 130 at whatever import it comes; and `esper --version`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

from esper_agents.cli import begun

# Signals come when a module has been imported, not after a time: the same on any machine.
COMMANDS = {
    ("certificates", "list"): ("typer", "esper_agents.cli.terminal", "esper_agents.storage.store"),
    ("submit", "review this training code", "train.py"): ("typer", "esper_agents.api", "langgraph"),
    ("doctor",): ("esper_agents.errors",),
    ("review", "--help"): ("esper_agents.cli.lightweight_commands",),
}
SESSIONS = "SELECT id FROM session ORDER BY created_at"


def interrupted_at(place, command, module):
    """Start a command, interrupt it once it has imported a module, and return its code and what it said then."""
    said, is_sent = [], False
    with place.start(*command, env={"PYTHONPROFILEIMPORTTIME": "1"}) as process:
        for line in process.stderr:
            if not line.startswith("import time:"):
                said.append(line)
            elif not is_sent and line.rpartition("|")[2].strip().startswith(module):
                os.killpg(process.pid, signal.SIGINT)
                is_sent = True
        process.stdout.read()
    assert is_sent, f"{module} was not imported"
    return process.returncode, "".join(said)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("command", "module"), [(each, name) for each in COMMANDS for name in COMMANDS[each]])
def test_ctrl_c_while_the_command_loads_is_one_line_and_names_only_what_exists(known, command, module):
    before = known.rows(SESSIONS)
    code, said = interrupted_at(known, command, module)
    begun = [name for (name,) in known.rows(SESSIONS) if (name,) not in before]
    problem = "esper: interrupted; finished steps are saved"
    expected = f"{problem}\n  fix: go on with `esper resume {begun[0]}`\n" if begun else "esper: interrupted\n"
    assert (code, said) == (130, expected)


def test_a_command_that_is_started_without_ctrl_c_keeps_ignoring_it(known):
    # As `nohup` or `&` of a shell start it.
    command = ["sh", "-c", f"trap '' INT; exec {sys.executable} -X importtime -m esper_agents.cli.main --version"]
    streams = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **streams, start_new_session=True) as process:
        for line in process.stderr:
            if line.strip().endswith("| site"):
                os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 0


@pytest.fixture
def nothing_begun(monkeypatch):
    monkeypatch.setattr(begun, "sessions", [])
    return begun


class Begun:
    id = "ses_1"


def test_a_session_that_is_created_while_ctrl_c_comes_is_named(nothing_begun):
    async def create():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return Begun()

    async def interrupt():
        task = asyncio.ensure_future(nothing_begun.begin(create()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupt())
    assert nothing_begun.sessions == ["ses_1"]


@pytest.mark.parametrize(
    ("sessions", "said"),
    [
        ([], "esper: interrupted\n"),
        (
            ["ses_1"],
            "esper: interrupted; finished steps are saved\n  fix: go on with `esper resume ses_1`\n",
        ),
    ],
)
def test_only_a_session_that_exists_is_named(sessions, said):
    program = (
        "import sys\nfrom esper_agents.cli import begun, main\n"
        f"begun.sessions += {sessions!r}\n"
        "def fail():\n    raise KeyboardInterrupt\n"
        "main._run = fail\nmain.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, said)


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_is_printed_without_loading_a_library(known, option):
    done = known.esper(option, env={"PYTHONPROFILEIMPORTTIME": "1"}, code=0)
    assert done.stdout == f"esper-agents {version('esper-agents')}\n"
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert not loaded & {"typer", "rich", "pydantic", "sqlalchemy", "asyncio", "dataclasses"}
    assert "--version" in known.esper("--help", code=0).stdout
