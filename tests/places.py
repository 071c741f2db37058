"""The installed `esper` in processes of its own, on small real projects, each with a home of its own."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import fork_server
from fork_server import ESPER

PATIENCE_S = 120

# Gradients that nothing clears, and a loss that is kept with its graph.
FAULTY = """def train(model, loader, optimizer):
    total = 0.0
    for batch in loader:
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        total += loss
    return total
"""
SOUND = """def train(model, loader, optimizer):
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
"""
# Notes that it runs, then waits until it is let go.
SLOW_TEST = """import os
import time
from pathlib import Path


def test_slow():
    place = Path(os.environ["SLOW_AT"])
    with (place / "ran").open("a") as file:
        file.write("ran\\n")
    for _ in range(1200):
        if (place / "go").exists():
            return
        time.sleep(0.05)
"""


def environment(home, **more):
    """Return the environment of a child: nothing that steers Python, git or `esper` but what is given."""
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("ESPER_", "GIT_", "PYTHON", "COV_", "LC_")) and name not in {"COLUMNS", "LINES"}
    }
    ours = {
        "PATH": f"{ESPER.parent}{os.pathsep}{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "ESPER_HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    return {**kept, **ours, **{name: str(text) for name, text in more.items()}}


def _is_read_at_start(name):
    return name.startswith(fork_server.READ_AT_START)


def command(*arguments, cwd):
    """Run the command in a folder with the environment that this test has, and return what `subprocess.run` would."""
    ran = fork_server.run(arguments, cwd=cwd, env=dict(os.environ), timeout=PATIENCE_S)
    return subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())


@dataclass(frozen=True)
class Done:
    """How a run of the command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self):
        """What it printed, which must be one JSON value and nothing else."""
        return json.loads(self.stdout)

    def problem(self, code):
        """Return problem and remedy, after making sure that they are all it said to standard error."""
        lines = self.stderr.splitlines()
        assert self.code == code, (self.code, self.stdout, self.stderr)
        if self.stderr.startswith('{"error"'):
            # Of a command with `--json`.
            (line,) = lines
            error = json.loads(line)["error"]
            assert error["exit"] == code
            return error["problem"], error["fix"]
        assert len(lines) == 2, self.stderr
        assert lines[0].startswith("esper: ")
        assert lines[1].startswith("  fix: ")
        assert "internal error" not in self.stderr
        assert "Traceback" not in self.stdout + self.stderr
        return lines[0].removeprefix("esper: "), lines[1].removeprefix("  fix: ")


@dataclass(frozen=True)
class Place:
    """A project, and a home for what the program writes about it."""

    root: Path
    home: Path

    def child(self, *arguments, cwd=None, env=None, before=()):
        """Return what to start a process of the command with; `before` is put before it."""
        command = [*before, ESPER, *arguments]
        return {"args": command, "cwd": cwd or self.root, "env": environment(self.home, **(env or {}))}

    def esper(self, *arguments, code=None, cwd=None, env=None, before=(), is_cold=False, **options):
        """Run the command to its end; `code` is what it must exit with.

        It is a fork of one process that has imported it. `is_cold` asks for a start of its own, and so does what only
        such a start can have: something before the command, other options of a process, variables that Python reads.
        """
        child = {**self.child(*arguments, cwd=cwd, env=env, before=before), "stdin": subprocess.DEVNULL, **options}
        is_forked = not (is_cold or before or options.keys() - {"stdin"} or any(map(_is_read_at_start, env or ())))
        if is_forked:
            child["arguments"] = child.pop("args")[1:]
            ran = fork_server.run(**child, timeout=PATIENCE_S)
        else:
            ran = subprocess.run(**child, capture_output=True, timeout=PATIENCE_S, check=False)
        done = Done(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
        if code is not None:
            assert done.code == code, (done.code, done.stdout, done.stderr)
        return done

    def start(self, *arguments, env=None, is_cold=False):
        """Start the command in a process group of its own, as a shell does; see `esper` for `is_cold`."""
        child = {**self.child(*arguments, env=env), "stdin": subprocess.DEVNULL, "start_new_session": True}
        if is_cold or any(map(_is_read_at_start, env or ())):
            return subprocess.Popen(**child, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        child["arguments"] = child.pop("args")[1:]
        return fork_server.start(**child)

    def with_home(self, home):
        """Return the same project with a copy of the home."""
        shutil.copytree(self.home, home)
        return Place(self.root, home)

    @property
    def database(self):
        """The one database file of the home."""
        (found,) = self.home.glob("projects/*/esper.db")
        return found

    def rows(self, query):
        """Return what a query says of the database."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            return connection.execute(query).fetchall()

    def kept(self):
        """Return every ledger row and every certificate there is."""
        ledger = self.rows("SELECT session_id, seq, kind, body FROM ledger ORDER BY session_id, seq")
        return set(ledger), set(self.rows("SELECT id, sha256 FROM certificate"))

    def calls(self):
        """Return the rows of finished tool calls, in order."""
        return self.rows("SELECT frame, step, call, body FROM ledger WHERE kind = 'called' ORDER BY seq")


def git(folder, *arguments):
    """Run git as somebody in particular, and return what it prints."""
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    command = ["git", *who, "-C", str(folder), *arguments]
    done = subprocess.run(command, env=environment("/"), capture_output=True, check=True, timeout=PATIENCE_S)
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def write(root, files):
    """Write files by path; bytes or text."""
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())


@dataclass
class Slow:
    """A session that may run the slow test of its project, and where that test leaves its traces."""

    place: Place
    folder: Path

    def start(self, *arguments):
        """Start the command and return its process once the slow test runs."""
        process = self.place.start(*arguments, env={"SLOW_AT": self.folder})
        self.until(lambda: self.ran or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        return process

    @property
    def ran(self):
        """How often the slow test has run."""
        file = self.folder / "ran"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def go(self):
        """Let the slow test end."""
        (self.folder / "go").touch()

    def until(self, holds):
        """Wait until something holds."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.02)
