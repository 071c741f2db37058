"""How far a long review is: one line, on a terminal only, gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from esper_agents.cli.review import progress
from esper_agents.review.report import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, times: list[float], path: str = "a.py") -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    clock = iter([0.0, *times])
    with progress.progress_line(lambda: next(clock)) as tell:
        for done, _ in enumerate(times):
            if tell is not None:
                tell(Progress("reading", done, 9, path))
    return stream.getvalue()


def test_a_short_review_tells_nothing(monkeypatch):
    assert told(monkeypatch, Terminal(), [0.1, 0.2, 0.6]) == ""


def test_a_long_review_tells_now_and_then_and_cleans_up(monkeypatch):
    written = told(monkeypatch, Terminal(), [0.1, 0.8, 0.81, 0.95])
    assert written.split("\r\x1b[2K") == ["", "reading 1 of 9 files: a.py", "reading 3 of 9 files: a.py", ""]


def test_a_file_or_a_pipe_is_told_nothing(monkeypatch):
    assert told(monkeypatch, io.StringIO(), [5.0]) == ""


def test_a_path_cannot_move_the_cursor(monkeypatch):
    written = told(monkeypatch, Terminal(), [5.0], "a\x1b[2J\n.py")
    assert "\x1b[2J" not in written
    assert "\n" not in written
