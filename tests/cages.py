"""A warm parent as the torch lab has one, without torch: it forks confined workers that run what a test gives them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from esper_agents.tools.withheld_files import withheld_files
from esper_agents.torchlab import sandbox
from esper_agents.torchlab.worker.process import landlock, seccomp

WORKER = Path(sandbox.__file__).parent / "worker"

_PARENT = """
import ctypes, importlib.util, json, os, select, signal, socket, sys, time

package = importlib.util.spec_from_file_location(
    "esper_worker", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]]
)
sys.modules["esper_worker"] = importlib.util.module_from_spec(package)
from esper_worker.process import confine, landlock, namespaces, process_tree

options = json.loads(sys.argv[3])
if options["abi"] is not None:
    landlock.version = lambda: options["abi"]
end = socket.socket(fileno=int(sys.argv[2]))
lines = end.makefile("rw")
is_alone = options["sandbox"] == "bubblewrap"
workers = namespaces.NamespacedWorkers(cover=[options["scratch"]], is_open=options["is_open"], is_alone=is_alone)
pipes = {}


def live(request, writer):
    end.close()
    os.setsid()
    confine.settle(request["scratch"])

    def tell(what):
        os.write(writer, json.dumps(what).encode() + b"\\n")

    try:
        held = confine.confine(
            confine.Grants(**{**options["grants"], "writable": [request["scratch"]]}),
            confine.Limits(memory_bytes=request["memory_bytes"], has_cuda=request["has_cuda"]),
            use_landlock=options["sandbox"] != "none",
            use_seccomp=options["sandbox"] != "none",
            has_own_network=options["sandbox"] == "bubblewrap",
            is_walled=workers.is_walled,
        )
        names = {"tell": tell, "held": held, "libc": ctypes.CDLL(None, use_errno=True)}
        exec(request["code"], names)
        tell({"result": names.get("result")})
    except BaseException as error:
        tell({"raised": type(error).__name__, "errno": getattr(error, "errno", None), "message": str(error)})
    if request["stays"]:
        time.sleep(60)
    os._exit(0)


for line in lines:
    request = json.loads(line)
    if request["do"] == "fork":
        reader, writer = os.pipe()
        readable = (*options["grants"]["readable"], *options["grants"]["listable"])
        pid = workers.fork(readable, [request["scratch"]])
        if pid == 0:
            os.close(reader)
            live(request, writer)
        os.close(writer)
        pipes[pid] = reader
        answer = {"pid": pid}
    elif request["do"] == "hear":
        heard = b""
        while not heard.endswith(b"\\n") and select.select([pipes[request["pid"]]], [], [], request["patience_s"])[0]:
            more = os.read(pipes[request["pid"]], 1)
            if not more:
                break
            heard += more
        answer = {"heard": json.loads(heard) if heard else None}
    elif request["do"] == "kill":
        answer = {"code": workers.kill(request["pid"])}
        if request["pid"] in pipes:
            os.close(pipes.pop(request["pid"]))
    elif request["do"] == "ended":
        answer = {"ended": workers.ended()}
    else:
        answer = {
            "pid": os.getpid(),
            "walled": workers.is_walled,
            "children": process_tree.children(os.getpid()),
            "descriptors": len(os.listdir("/proc/self/fd")),
            "most_processes": int(open("/proc/sys/kernel/pid_max").read()),
        }
    lines.write(json.dumps(answer) + "\\n")
    lines.flush()
workers.kill_all()
"""


class Cage:
    """A warm parent under a sandbox; a context manager that ends it."""

    def __init__(self, choice, view, *, abi=None, is_open=False, prefix=()):
        self.choice = choice
        self.view = view
        # Every process that is forked from the parent has this in its command line.
        self.mark = uuid.uuid4().hex
        self._count = 0
        options = {
            "sandbox": choice.sandbox,
            "abi": abi,
            "is_open": is_open or choice.sandbox is sandbox.Sandbox.NONE,
            "grants": sandbox.grants(view),
            "mark": self.mark,
            "scratch": str(view.scratch),
        }
        ours, theirs = socket.socketpair()
        with theirs:
            argv = ["-I", "-c", _PARENT, str(WORKER), str(theirs.fileno()), json.dumps(options)]
            self._process = subprocess.Popen(
                [*prefix, *sandbox.command(choice, view, argv)],
                env=sandbox.environment(view.scratch),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._end = ours
        self._lines = ours.makefile("rw")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with suppress(BrokenPipeError):
            self._lines.close()
        self._end.close()
        self._process.wait(timeout=20)

    def ask(self, **request):
        self._lines.write(json.dumps(request) + "\n")
        self._lines.flush()
        answer = self._lines.readline()
        assert answer, "the warm parent is gone"
        return json.loads(answer)

    def fork(self, code, *, memory_bytes=1 << 30, has_cuda=False, stays=True):
        """Start a worker that runs code; return its process id as the parent sees it."""
        self._count += 1
        scratch = self.view.scratch / f"worker-{self._count}"
        scratch.mkdir(mode=0o777)
        scratch.chmod(0o777)
        limits = {"memory_bytes": memory_bytes, "has_cuda": has_cuda}
        return self.ask(do="fork", code=code, scratch=str(scratch), stays=stays, **limits)["pid"]

    def hear(self, pid, patience_s=20):
        """Return the next thing that a worker tells; None if it ended."""
        return self.ask(do="hear", pid=pid, patience_s=patience_s)["heard"]

    def kill(self, pid):
        return self.ask(do="kill", pid=pid)["code"]

    def run(self, code, **how):
        """Run code in a worker of its own; return what it left in `result`, or how it failed."""
        pid = self.fork(code, **how)
        try:
            heard = self.hear(pid)
        finally:
            self.kill(pid)
        return heard.get("result", heard)

    def attempts(self, *codes, before=""):
        """Try each piece of code in one worker; return those that were not refused by an error of the system."""
        lines = [before, "result = []"]
        for code in codes:
            lines += ["try:", f"    {code}", "except OSError:", "    pass", "else:", f"    result.append({code!r})"]
        return self.run("\n".join(lines))

    def processes(self):
        """Return the processes on this machine that descend from the parent, itself and bubblewrap included."""
        self.ask(do="?")
        return self.marked()

    def end_badly(self):
        """Kill what was started with SIGKILL: bubblewrap where it is used, else the warm parent."""
        self._process.kill()

    def marked(self):
        """Return `processes` though the parent may be gone."""
        found = []
        for place in Path("/proc").iterdir():
            if place.name.isdecimal():
                try:
                    if self.mark.encode() in (place / "cmdline").read_bytes():
                        found.append(int(place.name))
                except OSError:
                    continue
        return found


HELD = ("walls", "bubblewrap", "landlock-walls", "landlock")


def cage_for(how, folder, project, hidden=(), *, python=sys.executable, **options):
    """Return a cage of one kind, or skip aloud where this machine has none.

    Args:
        how: `walls` (bubblewrap, each worker in namespaces of its own), `bubblewrap` (without those),
            `landlock-walls` (Landlock, in namespaces that root can make), `landlock` (alone, as for a plain user) or
            `none`.
        folder: Where its scratch goes.
        project: The folder that workers read.
        hidden: What they must not see.
        python: The interpreter.
        options: For `Cage`.
    """
    view = view_of(folder, project, hidden=hidden, python=python)
    if how == "none":
        return Cage(sandbox.choose(view, is_waived=True), view, **options)
    if how in {"landlock", "landlock-walls"}:
        if how == "landlock-walls" and os.geteuid() != 0:
            pytest.skip("only root makes namespaces without bubblewrap: that was NOT tested")
        if not landlock.version() or not seccomp.is_supported():
            pytest.skip("this kernel has no Landlock: what holds user code without bubblewrap was NOT tested")
        choice = sandbox.SandboxChoice(sandbox.Sandbox.LANDLOCK, landlock.version())
        return Cage(choice, view, is_open=how == "landlock", **options)
    choice = sandbox.choose(view, is_waived=False)
    if choice.sandbox is not sandbox.Sandbox.BUBBLEWRAP:
        pytest.skip(f"bubblewrap was NOT tested: {choice.why_not}")
    return Cage(choice, view, is_open=how == "bubblewrap", **options)


def view_of(folder, *roots, hidden=(), python=sys.executable):
    """Return a view of project folders with a scratch folder of its own."""
    scratch = folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    known = sandbox.interpreter(python)
    environments = [place for place in known.places if Path(known.executable).is_relative_to(place)]
    withheld = [path for root in roots for path in withheld_files(root, environments=environments)]
    return sandbox.SandboxMounts(
        known, tuple(each.resolve() for each in roots), WORKER, scratch.resolve(), tuple(hidden), tuple(withheld)
    )
