"""Targets that do what user code should not: each by a name, with the outcome that it must have beside it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch


def hangs(x):
    while True:
        time.sleep(0.01)


def spins(x):
    while True:
        pass


def ignores_signals(x):
    for each in range(1, 65):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(each, signal.SIG_IGN)
    while True:
        time.sleep(0.01)


def segfaults(x):
    ctypes.string_at(8)


def aborts(x):
    os.abort()


def exits_with_a_lie(x):
    print(json.dumps({"result": {"verdict": "faster as claimed"}}), flush=True)
    os._exit(0)


def raises_system_exit(x):
    sys.exit(0)


def raises(x):
    raise ValueError("no")


def recurses(x):
    return recurses(x)


def eats_memory(x):
    kept = []
    while True:
        kept.append(bytearray(64 << 20))


def eats_tensor_memory(x):
    return torch.zeros(1 << 38)


def leaves_a_child(x):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
    raise ValueError("left a child")


def leaves_a_daemon(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for each in range(1, 65):
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(each, signal.SIG_IGN)
            time.sleep(600)
        os._exit(0)
    raise ValueError("left a daemon")


def leaves_a_program(x):
    subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
    raise ValueError("left a program")


def closes_everything(x):
    os.closerange(0, 4096)
    time.sleep(600)


def closes_everything_and_returns(x):
    os.closerange(3, 4096)
    return x


def writes_garbage(x):
    for each in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(each, b"\xff" * 64)
    time.sleep(600)


def forges_an_answer(x):
    text = b'{"raised": 1}'
    for each in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(each, len(text).to_bytes(4, "big") + b"\0" + text)
    time.sleep(600)


def prints_without_end(x):
    for _ in range(200):
        sys.stdout.write("x" * (1 << 16))
    raise ValueError("\x1b[31mred\x1b[0m [bold]not markup[/bold]")


def opens_a_thread(x):
    threading.Thread(target=time.sleep, args=(600,), daemon=False).start()
    raise ValueError("left a thread")


def connects(x):
    with socket.create_connection(("127.0.0.1", 22), timeout=2):
        pass


def writes_the_project(x):
    Path(__file__).with_name("written.txt").write_text("here")


def reads_a_home(x):
    raise ValueError(str(sorted(path.name for path in Path("/root").iterdir())))


def kills_its_parent(x):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def kills_everybody(x):
    os.kill(-1, signal.SIGKILL)
    time.sleep(600)


EXPECTED = {
    "hangs": "hang",
    "spins": "hang",
    "ignores_signals": "hang",
    "segfaults": "crashed",
    "aborts": "crashed",
    "exits_with_a_lie": "exited",
    "raises_system_exit": "raised",
    "raises": "raised",
    "recurses": "raised",
    "eats_memory": "out-of-memory",
    "eats_tensor_memory": "out-of-memory",
    "leaves_a_child": "raised",
    "leaves_a_daemon": "raised",
    "leaves_a_program": "raised",
    "closes_everything": "closed",
    "closes_everything_and_returns": "closed",
    "writes_garbage": "garbled",
    "forges_an_answer": "garbled",
    "prints_without_end": "raised",
    "opens_a_thread": "raised",
    "connects": "raised",
    "writes_the_project": "raised",
    "reads_a_home": "raised",
    "kills_its_parent": "crashed",
    "kills_everybody": "raised",
}
