"""The `esper` command without its start: one process has imported it, and every call is a fork of that process.

That process has also run a session and verified its certificate. What every process works out for itself, such as
definitions, words for the router and templates, is there when a call begins.

A fork has the arguments, the folder, the environment, the umask and the streams that it is given, and ends as a process
of its own. What only a true start can show needs one: what is imported when, what Python reads from its environment,
signals before `main`, closed streams, an installed wheel.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

ESPER = Path(sys.executable).with_name("esper")
# What Python and the loader read when they start, and libraries when they are imported. No module of ours reads any.
READ_AT_START = (
    *("PYTHON", "LC_", "LANG", "LD_", "COV_", "COVERAGE_", "MALLOC_"),
    *("OTEL_PYTHON", "OTEL_SPAN", "LANGCHAIN_", "LANGSMITH_", "LANGGRAPH_", "ANTHROPIC_LOG", "TYPER_"),
)
# What commands import when they come to it; `torch` alone is left to the processes that measure.
HEAVY = (
    "alembic.command",
    "anthropic",
    "docstring_parser",
    "jinja2",
    "langgraph.graph",
    "libcst",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "psycopg",
    "rfc8785",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
)


def run(arguments, *, cwd, env, stdin=subprocess.DEVNULL, timeout=120):
    """Run the command to its end in a fork, and return what `subprocess.run` would."""
    with start(arguments, cwd=cwd, env=env, stdin=stdin) as process:
        try:
            said = _read({process.stdout.fileno(), process.stderr.fileno()}, time.monotonic() + timeout)
        except TimeoutError:
            process.kill()
            raise subprocess.TimeoutExpired(process.args, timeout) from None
        out, err = (said[each.fileno()] for each in (process.stdout, process.stderr))
        return subprocess.CompletedProcess(process.args, process.wait(), out, err)


def start(arguments, *, cwd, env, stdin=subprocess.DEVNULL, start_new_session=False):
    """Start the command in a fork, and return what `subprocess.Popen` would."""
    argv = [str(ESPER), *map(os.fspath, arguments)]
    ours, theirs = socket.socketpair()
    out, out_there = os.pipe()
    err, err_there = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    given = null if stdin == subprocess.DEVNULL else stdin if isinstance(stdin, int) else stdin.fileno()
    try:
        socket.send_fds(_server(), [b"\0"], [theirs.fileno(), given, out_there, err_there])
    finally:
        theirs.close()
        for each in (null, out_there, err_there):
            os.close(each)
    umask = os.umask(0o022)
    os.umask(umask)
    wanted = {"argv": argv, "cwd": os.fspath(cwd), "env": env, "umask": umask, "start_new_session": start_new_session}
    ours.sendall(json.dumps(wanted).encode())
    ours.shutdown(socket.SHUT_WR)
    return Forked(argv, ours, out, err)


class Forked:
    """One call of the command, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, argv, line, out, err):
        """Take the line to the server and the ends of the two streams."""
        self.args, self._line, self.returncode = argv, line, None
        self.stdout, self.stderr = os.fdopen(out), os.fdopen(err)
        self.pid = self._number()

    def _number(self):
        digits = b""
        while (digit := self._line.recv(1)) not in {b"", b"\n"}:
            digits += digit
        return int(digits)

    def poll(self):
        """Return how it ended; None while it runs."""
        if self.returncode is None and select.select([self._line], [], [], 0)[0]:
            self.returncode = self._number()
        return self.returncode

    def wait(self, timeout=None):
        """Return how it ended, once it has."""
        if self.returncode is None and not select.select([self._line], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.poll()

    def communicate(self, timeout=None):
        """Return what it said that was not read yet, once it has ended."""
        with ThreadPoolExecutor(2) as readers, self:
            said = [readers.submit(each.read) for each in (self.stdout, self.stderr)]
            if len(wait(said, timeout).done) < len(said):
                self.kill()
                raise subprocess.TimeoutExpired(self.args, timeout)
            return tuple(each.result() for each in said)

    def send_signal(self, number):
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wait()
        for each in (self.stdout, self.stderr, self._line):
            each.close()


def _read(pipes, deadline):
    said = dict.fromkeys(pipes, b"")
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready and time.monotonic() >= deadline:
                raise TimeoutError
            for key, _ in ready:
                if data := os.read(key.fd, 1 << 16):
                    said[key.fd] += data
                else:
                    selector.unregister(key.fd)
    return said


@cache
def _server():
    """Return the line to the one server of this process; it ends when that is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    plain = {name: text for name, text in os.environ.items() if not name.startswith(("ESPER_", "GIT_", *READ_AT_START))}
    process = subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={**plain, "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _serve(line):
    """Fork for everything that comes over a line, and tell how each fork ends, until the line is closed."""
    _prepare()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running = {}
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is line:
                    message, files, _, _ = socket.recv_fds(line, 1, 4)
                    if not message:
                        return
                    pid = os.fork()
                    if not pid:
                        _be_esper(files)
                    answers = socket.socket(fileno=files[0])
                    for file in files[1:]:
                        os.close(file)
                    _tell(answers, pid)
                    ended = os.pidfd_open(pid)
                    running[ended] = pid, answers
                    selector.register(ended, selectors.EVENT_READ)
                else:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    pid, answers = running.pop(key.fd)
                    _tell(answers, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    answers.close()


def _tell(answers, number):
    with suppress(OSError):
        answers.sendall(b"%d\n" % number)


def _prepare():
    """Import everything but torch, and make sure that what is forked is one thread with no database open."""
    import judged
    import once

    import esper_agents

    sys.path[0] = str(ESPER.parent)
    for package in pkgutil.walk_packages(esper_agents.__path__, "esper_agents."):
        if not package.name.startswith("esper_agents.torchlab.worker."):
            importlib.import_module(package.name)
    for name in HEAVY:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    once.keep()
    judged.judge_and_forget()
    assert "torch" not in sys.modules
    assert threading.active_count() == 1
    held = [open_file.path for open_file in psutil.Process().open_files() if open_file.fd > 2]
    assert not held, held
    gc.collect()
    gc.freeze()


def _be_esper(files):
    """Become one call of the command, and never return."""
    line, *streams = files
    with socket.socket(fileno=line) as asked, asked.makefile() as text:
        wanted = json.load(text)
    for number, each in enumerate(streams):
        os.dup2(each, number)
    os.closerange(3, 4096)
    if wanted["start_new_session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(wanted["env"])
    time.tzset()
    tempfile.tempdir = None
    os.umask(wanted["umask"])
    os.chdir(wanted["cwd"])
    sys.argv = wanted["argv"]
    from esper_agents.cli.main import main

    code = 1
    try:
        main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - the end of a process
        sys.excepthook(*sys.exc_info())
    finally:
        # What Python does before it ends, less taking everything apart.
        with suppress(BaseException):
            threading._shutdown()
            atexit._run_exitfuncs()
        for each in (sys.stdout, sys.stderr):
            try:
                each.flush()
            except (OSError, ValueError):
                code = code or 120
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
