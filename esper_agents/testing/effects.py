"""Detect side effects of code while it runs: files written, programs started."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHANGES = frozenset(
    {
        "os.chmod",
        "os.chown",
        "os.exec",
        "os.fork",
        "os.link",
        "os.mkdir",
        "os.posix_spawn",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.symlink",
        "os.system",
        "os.truncate",
        "sqlite3.connect",
        "subprocess.Popen",
    }
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Python's bytecode cache, written by any import.
_COMPILED = "__pycache__"
_seen: ContextVar[list[str] | None] = ContextVar("seen", default=None)


@contextmanager
def effects_seen() -> Iterator[list[str]]:
    """Record the changes made by code in the context, in words; bytecode caches are ignored.

    Tasks and threads started by that code are included; other concurrent code is not.
    """
    _listen()
    found: list[str] = []
    token = _seen.set(found)
    try:
        yield found
    finally:
        _seen.reset(token)


@cache
def _listen() -> None:
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    found = _seen.get()
    if found is None or (event != "open" and event not in _CHANGES):
        return
    flags = arguments[2] if event == "open" else _WRITING
    if isinstance(flags, int) and flags & _WRITING and _COMPILED not in str(arguments[:1]):
        found.append(f"{event} {arguments[0]!r}" if arguments else event)
