"""Measure the time of each user line while batches are loaded in this process."""

from __future__ import annotations

import linecache
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ..target.own_files import own_file
from .result import DatasetLine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType


@dataclass
class LineCost:
    """Cost of one line.

    Attributes:
        function: Function of the line.
        times: Number of runs.
        own_ns: Time without calls of other user functions.
        total_ns: Time with them.
    """

    function: str
    times: int = 0
    own_ns: int = 0
    total_ns: int = 0


@dataclass
class _ActiveFrame:
    frame: FrameType
    line: int
    entered_ns: int
    since_ns: int
    inner_ns: int = 0


class LineClock:
    """Clock of the user's lines; a line's time lasts until the next line of the same frame.

    Attributes:
        costs: Cost by file and line.
    """

    def __init__(self, root: str) -> None:
        """Prepare to time the files below a folder."""
        self.costs: dict[tuple[str, int], LineCost] = {}
        self._root = root
        self._files: dict[CodeType, str | None] = {}
        self._active: list[_ActiveFrame] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time the lines that run in the block, in this thread."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)
            self._active.clear()

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        if code not in self._files:
            self._files[code] = own_file(self._root, code.co_filename)
        if self._files[code] is None:
            return None
        now = perf_counter_ns()
        self._active.append(_ActiveFrame(frame, frame.f_lineno, now, now))
        return self._line

    def _line(self, frame: FrameType, event: str, _argument: object) -> Any:
        # A closed generator returns without having been entered.
        if event == "exception" or not self._active or self._active[-1].frame is not frame:
            return self._line
        now, top = perf_counter_ns(), self._active[-1]
        file = self._files[frame.f_code]
        cost = self.costs.setdefault((str(file), top.line), LineCost(frame.f_code.co_name))
        cost.total_ns += now - top.since_ns
        cost.own_ns += now - top.since_ns - top.inner_ns
        if event == "return":
            self._active.pop()
            if self._active:
                self._active[-1].inner_ns += now - top.entered_ns
            return self._line
        top.line, top.inner_ns, top.since_ns = frame.f_lineno, 0, perf_counter_ns()
        self.costs.setdefault((str(file), top.line), LineCost(frame.f_code.co_name)).times += 1
        return self._line


def line_rows(root: str, clock: LineClock, batches: int, most: int) -> tuple[DatasetLine, ...]:
    """Return the costs per batch, most expensive line first.

    Args:
        root: Folder of the files.
        clock: A clock that has run.
        batches: Number of batches loaded meanwhile.
        most: Maximum number of lines.
    """
    ordered = sorted(clock.costs.items(), key=lambda each: (-each[1].own_ns, each[0]))
    return tuple(
        DatasetLine(
            file,
            line,
            cost.function,
            linecache.getline(f"{root}/{file}", line).strip()[:200],
            cost.times,
            cost.own_ns // batches,
            cost.total_ns // batches,
        )
        for (file, line), cost in ordered[:most]
        if cost.own_ns // batches or cost.times
    )
