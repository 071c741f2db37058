"""Run a snippet or a command line confined, and kill everything it started when it ends."""

from __future__ import annotations

import json
import os
import resource
import signal
from typing import Any

from . import confine
from . import syscalls as kernel
from .process_tree import kill_tree

# Exit code and start of the only output line if it could not be confined or there is no such program.
REFUSED, NOT_CONFINED = 125, "it was not run"
_UNCHANGEABLE = (signal.SIGKILL, signal.SIGSTOP)


def main(asked: str) -> None:
    """Run a program in a confined process, and exit with its status; never returns.

    Args:
        asked: As JSON: `argv`, working `folder`, `grants`, `confined`, `own_network`, `memory_bytes`, `file_bytes`
            and `tasks`.
    """
    kernel.die_with_parent()
    # Its descendants stay below this process, even if they detach.
    kernel.become_subreaper()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            kernel.die_with_parent()
            if os.getppid() == parent:
                _launch(asked)
        except OSError as error:
            print(f"{NOT_CONFINED}: {error}", flush=True)  # noqa: T201 - the parent process reads this
        finally:
            os._exit(REFUSED)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    status = kill_tree(pid)
    if status is not None and status < 0:
        # Python ignores some signals that should end it.
        if -status not in _UNCHANGEABLE:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(REFUSED if status is None else status)


def _launch(asked: str) -> None:
    message: dict[str, Any] = json.loads(asked)
    grants = {name: tuple(places) for name, places in message["grants"].items()}
    confine.confine(
        confine.Grants(**grants),
        confine.Limits(
            message["memory_bytes"], message["file_bytes"], has_cuda=bool(grants["devices"]), tasks=message["tasks"]
        ),
        use_landlock=message["confined"],
        use_seccomp=message["confined"],
        has_own_network=message["own_network"],
    )
    os.chdir(message["folder"])
    argv = message["argv"]
    os.execvp(argv[0], argv)  # noqa: S606 - the requested program, confined
