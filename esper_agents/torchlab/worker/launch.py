"""Confines this process, then becomes another program: what a snippet or a command line runs in."""

from __future__ import annotations

import json
import os
import resource
from typing import Any

from . import confine, kernel

# Inside namespaces of its own the limit counts only what runs there; the kernel asks nobody who is root.
_MOST_PROCESSES = 4_096
# What it exits with, and how its only line begins, where it could not be confined or there is no such program.
REFUSED, NOT_CONFINED = 125, "it was not run"


def main(asked: str) -> None:
    """Confine this process and run a program in its place; never returns.

    Args:
        asked: As JSON: `argv`, `folder` to work in, `grants`, `confined`, `own_network`, `memory_bytes`, `file_bytes`.
    """
    try:
        _launch(asked)
    except OSError as error:
        print(f"{NOT_CONFINED}: {error}", flush=True)  # noqa: T201 - whoever started it reads this
        os._exit(REFUSED)


def _launch(asked: str) -> None:
    kernel.die_with_parent()
    message: dict[str, Any] = json.loads(asked)
    grants = {name: tuple(places) for name, places in message["grants"].items()}
    if message["own_network"]:
        resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))
    confine.confine(
        confine.Grants(**grants),
        confine.Limits(message["memory_bytes"], message["file_bytes"], has_cuda=bool(grants["devices"])),
        use_landlock=message["confined"],
        use_seccomp=message["confined"],
        has_own_network=message["own_network"],
    )
    os.chdir(message["folder"])
    argv = message["argv"]
    os.execvp(argv[0], argv)  # noqa: S606 - the program that was asked for, confined
