"""Live output of a running session: one line per event, and the current activity."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from esper_agents.cli.terminal import is_interactive, one_line, redact
from esper_agents.cli.terminal import say as say  # noqa: PLC0414 - the commands that print events import it from here
from esper_agents.domain.program_notice import ProgramNotice

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from esper_agents.domain.session import Event


def lines_of(event: Event, printed: set[str]) -> list[tuple[str, str]]:
    """Return the output lines of an event for the terminal; see `api.event_lines`."""
    from esper_agents.api import event_lines

    return [(label, one_line(text)) for label, text in event_lines(event, printed)]


# Number of characters shown of an unfinished line of model output.
_SEEN = 70
# Shorter activities are not worth a line of their own.
_LONG_S = 5


class Narrator:
    """Printer of session events for the user."""

    def __init__(
        self, update: Callable[[str], None], printed: Collection[str] = (), *, has_findings: bool = True
    ) -> None:
        """Pass the current activity to `update`; print each finding once, or none without `has_findings`.

        Args:
            update: Shows the current activity.
            printed: Lines that were printed already.
            has_findings: Whether findings are printed.
        """
        self._update = update
        self._has_findings = has_findings
        self._printed = set(printed)
        self._activity = Activity()
        self._heard = ""

    def lines_of(self, event: Event) -> list[tuple[str, str]]:
        """Return the output lines of one event, without findings printed before; see `lines_of`."""
        lines = lines_of(event, self._printed)
        return lines if self._has_findings or event.kind != "called" else lines[:1]

    def report_activity(self) -> None:
        """Print the current activity and its duration, for output that is not a terminal."""
        if self._activity.text and self._activity.seconds >= _LONG_S:
            say("running", str(self._activity))
            sys.stdout.flush()

    def hear(self, words: str) -> None:
        """Print streamed model output: complete lines, and the unfinished line on the status line."""
        if isinstance(words, ProgramNotice):
            self._finish()
            say("waits", words)
            return
        *lines, self._heard = f"{self._heard}{words}".split("\n")
        for line in filter(str.strip, lines):
            say("says", line)
        self._update(one_line(redact(self._heard))[-_SEEN:])

    def _finish(self) -> None:
        """Print the unfinished line of model output."""
        if self._heard.strip():
            say("says", self._heard)
        self._heard = ""

    def tell(self, event: Event) -> None:
        """Print one event."""
        self._finish()
        for label, text in self.lines_of(event):
            say(label, text)
        # Flush for pipes as well, so that a log file shows the progress.
        sys.stdout.flush()
        from esper_agents.api import current_activity

        self._activity = Activity(redact(current_activity(event)))
        self._update(self._activity.text)


class Activity:
    """Current activity of a session, with its duration."""

    def __init__(self, text: str = "") -> None:
        """Start the clock of an activity."""
        self.text = text
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Duration so far."""
        return time.monotonic() - self._started

    def __str__(self) -> str:
        return f"{self.text}, {self.seconds:.0f} s"

    def __rich__(self) -> str:
        """Return the text for the status line, which calls this at each refresh."""
        return str(self)


@contextmanager
def narrator(printed: Collection[str] = (), *, has_findings: bool = True) -> Iterator[Narrator]:
    """Yield a narrator, with a status line on terminals and plain lines elsewhere.

    Args:
        printed: Lines that were printed already.
        has_findings: Whether findings are printed while the session runs, not only at its end.
    """
    if not is_interactive():
        yield Narrator(lambda _: None, printed, has_findings=has_findings)
        return
    from rich.console import Console

    with Console(markup=False, highlight=False, soft_wrap=True).status("starting") as status:
        yield Narrator(lambda text: status.update(Activity(text or "working")), printed, has_findings=has_findings)
