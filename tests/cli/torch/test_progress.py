"""How long something will still take, from how long it took so far."""

from __future__ import annotations

import time

from esper_agents.cli.torch.progress import TimeLeft


def test_the_time_left_follows_from_the_time_so_far():
    left = TimeLeft()
    begun = time.monotonic()
    assert left.line("timing", 0.25, begun + 10) == "timing, 25%, about 30 s left"
    assert left.line("timing", 0.5, begun + 600) == "timing, 50%, about 10 min left"
    assert left.again(begun + 1200) == "timing, 50%, about 20 min left"


def test_at_the_beginning_nothing_is_estimated():
    left = TimeLeft()
    assert left.line("importing", 0.0, time.monotonic() + 4) == "importing, 4 s so far"


def test_what_begins_anew_is_estimated_anew():
    left = TimeLeft()
    begun = time.monotonic()
    left.line("checking", 0.9, begun + 90)
    assert left.line("timing", 0.0, begun + 100) == "timing, 0 s so far"
    assert left.line("timing", 0.5, begun + 110) == "timing, 50%, about 10 s left"


def test_what_a_worker_says_cannot_steer_the_terminal():
    shown = TimeLeft().line("red \x1b[31m\nand\u202e back", 0.0, time.monotonic())
    assert shown == "red \\x1b[31m and\\u202e back, 0 s so far"
