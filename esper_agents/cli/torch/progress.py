"""Progress line of a measurement with the remaining time, on terminals only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from esper_agents.cli.terminal import one_line

# Progress callback: current activity and completed fraction.
Tell: TypeAlias = Callable[[str, float], None]

_LEAST_FRACTION = 0.02
_MINUTE_S = 60


class TimeLeft:
    """Estimate of the remaining time from the elapsed time."""

    def __init__(self) -> None:
        """Start the clock."""
        self._what = "starting"
        self._fraction = 0.0
        self._begun = time.monotonic()

    def line(self, what: str, fraction: float, now: float) -> str:
        """Return the text of the progress line.

        Args:
            what: Current stage.
            fraction: Completed fraction of the stage.
            now: Time of the monotonic clock in seconds.
        """
        # A falling fraction belongs to the next stage.
        if fraction < self._fraction:
            self._begun = now
        self._what, self._fraction = what, fraction
        return f"{one_line(what)}{self._left(now)}"

    def again(self, now: float) -> str:
        """Return the text to show without a new progress report."""
        return f"{one_line(self._what)}{self._left(now)}"

    def _left(self, now: float) -> str:
        took = max(now - self._begun, 0.0)
        if self._fraction < _LEAST_FRACTION:
            return f", {_shown(took)} so far"
        left = took * (1 - self._fraction) / self._fraction
        return f", {self._fraction:.0%}, about {_shown(left)} left"


def _shown(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _MINUTE_S else f"{seconds / _MINUTE_S:.0f} min"


@contextmanager
def progress() -> Iterator[Tell]:
    """Yield the progress callback of a measurement; it prints to standard error on terminals."""
    if not sys.stderr.isatty():
        yield lambda _what, _fraction: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    left = TimeLeft()
    console = Console(stderr=True, markup=False, highlight=False)

    def shown() -> Text:
        return Text(left.again(time.monotonic()), no_wrap=True, overflow="ellipsis")

    # Twice a second: printing must not disturb the measurement.
    with Live(get_renderable=shown, console=console, refresh_per_second=2, transient=True) as live:

        def tell(what: str, fraction: float) -> None:
            left.line(what, fraction, time.monotonic())
            live.refresh()

        yield tell
