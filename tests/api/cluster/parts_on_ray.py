"""Program that runs parts on a cluster, because a process reads its token once: ADDRESS WORK FOLDER PART..."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from esper_agents.api.cluster.connection import connect
from esper_agents.api.cluster.remote_work import run_parts
from esper_agents.errors import EsperError, UsageError


def mortal(part):
    name, folder = part
    file = Path(folder) / name
    with file.open("a") as stream:
        stream.write("ran\n")
    if name == "always" or (name == "once" and file.read_text() == "ran\n"):
        os.kill(os.getpid(), signal.SIGKILL)
    return name


def slow(part):
    name, folder = part
    (Path(folder) / f"{name}-{time.monotonic_ns()}").touch()
    time.sleep(2)
    return name


def refused(part):
    raise UsageError(f"{part[0]} is refused", remedy="name another")


def main(address, work, folder, *names):
    functions = {"mortal": mortal, "slow": slow, "refused": refused}
    try:
        with connect(address) as connected:
            found = list(run_parts(connected, functions[work], [(name, folder) for name in names]))
    except EsperError as error:
        found = [type(error).__name__, error.problem, error.remedy]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
