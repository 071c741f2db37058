"""Progress line of a long review, on terminals only."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from esper_agents.cli.terminal import one_line, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.api import Progress

# Short reviews print no progress: a flickering line is useless.
_QUIET_S = 0.7
_BETWEEN_S = 0.1
_ERASE = "\r\x1b[2K"


@contextmanager
def progress_line(clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[Progress], None] | None]:
    """Yield the progress callback of a review, or None if standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    line = _Line(clock)
    try:
        yield line.tell
    finally:
        line.erase()


class _Line:
    """Progress line with the time of its last update."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.next = clock() + _QUIET_S
        self.is_shown = False

    def tell(self, progress: Progress) -> None:
        now = self.clock()
        if now < self.next:
            return
        self.next = now + _BETWEEN_S
        self.is_shown = True
        said = f"{progress.doing} {progress.done} of {progress.total} files: {progress.path}"
        sys.stderr.write(_ERASE + one_line(redact(said))[: _columns()])
        sys.stderr.flush()

    def erase(self) -> None:
        if self.is_shown:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()


def _columns() -> int:
    from shutil import get_terminal_size

    return max(get_terminal_size().columns - 1, 20)
