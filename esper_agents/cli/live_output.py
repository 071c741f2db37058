"""Live output of a running session: one line per event, and the current activity."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from esper_agents.cli.terminal import is_interactive, one_line, redact
from esper_agents.cli.terminal import say as say  # noqa: PLC0414 - the commands that print events import it from here
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.program_notice import ProgramNotice
from esper_agents.domain.usage import expense_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.session import Event


def lines_of(event: Event, printed: set[str]) -> list[tuple[str, str]]:
    """Return the output lines of an event, as pairs of label and text; none for events that only mark a start.

    Args:
        event: The row.
        printed: Fingerprints of the findings and lines printed before; the findings of this event are added.
    """
    if event.kind == "called":
        lines = _called(event.body, printed)
    else:
        tell = _TELL.get(event.kind)
        lines = [line for line in (tell(event.body) if tell else []) if " ".join(line) not in printed]
    return [(label, one_line(text)) for label, text in lines]


def current_activity(event: Event) -> str:
    """Return the current activity after an event, for the status line; empty if there is none."""
    match event.kind:
        case "calling":
            return f"{event.body['tool']} is running"
        case "deciding":
            return "deciding"
        case _:
            return ""


def _routed(body: JsonObject) -> list[tuple[str, str]]:
    return [routed(body["agent"] or "no agent", body["explanation"])]


def routed(agent: str, explanation: str) -> tuple[str, str]:
    """Return the line of a route, as label and text; why not others is what `--dry-run` and `agents route` print."""
    reason = explanation.partition("; ")[0] if explanation.startswith("because") else explanation
    return "route", f"{agent}, {reason}"


def _called(body: JsonObject, printed: set[str]) -> list[tuple[str, str]]:
    evidence = body["evidence"]
    findings = [each for each in body["findings"] if each["claim"]["fingerprint"] not in printed]
    printed.update(finding["claim"]["fingerprint"] for finding in findings)
    took_ms = evidence["duration_ns"] / 1_000_000
    how = f"in {took_ms:.0f} ms" if evidence["outcome"] == "completed" else evidence["outcome"]
    said = [("tool", f"{evidence['tool']} {how}: {evidence['summary']}")]
    return said + [_finding(finding["claim"]) for finding in findings[:_MOST_FINDINGS]] + _more(findings)


_MOST_FINDINGS, _MOST_RULES, _MOST_PREVIEW = 12, 5, 20


def _finding(claim: dict[str, Any]) -> tuple[str, str]:
    place = claim["location"]
    return claim["severity"], f"{claim['rule']} {place['path']}:{place['line']} {claim['message']}"


def _more(findings: list[Any]) -> list[tuple[str, str]]:
    rest = len(findings) - _MOST_FINDINGS
    return [("", f"and {rest} more")] if rest > 0 else []


def _opened(body: JsonObject) -> list[tuple[str, str]]:
    from esper_agents.domain.certificate import FLOOR_QUESTION

    remembered = len(body["notes"])
    memory = f", remembers {number_of(remembered, 'thing')} of this project" if remembered else ""
    by = body["definition"]["reasoner"]
    how = "has no playbook and no model" if by == "unattended" else f"by {by}"
    first = ", before its model is asked" if body["question"] == FLOOR_QUESTION else ""
    return [("agent", f"{body['agent']['name']} {how}{first}{memory}")]


def _moved(body: JsonObject) -> list[tuple[str, str]]:
    used = expense_of(body["record"])
    return [("model", f"{body['record'].get('model', '')}: {used}")] if used.turns else []


def _handed_off(body: JsonObject) -> list[tuple[str, str]]:
    packet = body["handoff"]
    sentence = (
        f"This looks like a {packet['domain']} problem that {packet['receiver']} would handle better. "
        f"Here's what I've found so far: {packet['context']}"
    )
    return [("handoff", sentence)]


def _concluded(body: JsonObject) -> list[tuple[str, str]]:
    return [("verdict", body["verdict"]["status"])] if body["verdict"] else []


def preview_lines(body: JsonObject) -> list[tuple[str, str]]:
    """Return the diff or command line of a question, if it has one, shortened."""
    lines = body.get("preview", "").splitlines()
    more = [f"and {number_of(len(lines) - _MOST_PREVIEW, 'more line')}"] if len(lines) > _MOST_PREVIEW else []
    return [("", line) for line in (*lines[:_MOST_PREVIEW], *more)]


def _submitted(body: JsonObject) -> list[tuple[str, str]]:
    rules = [f"{each['action']} {each['tool']}, by {each['source']}" for each in body.get("rules", ())]
    more = f"; and {len(rules) - _MOST_RULES} more: esper doctor" if len(rules) > _MOST_RULES else ""
    return [("rules", "; ".join(rules[:_MOST_RULES]) + more)] if rules else []


_TELL: dict[str, Callable[[JsonObject], list[tuple[str, str]]]] = {
    "submitted": _submitted,
    "routed": _routed,
    "refused": _routed,
    "opened": _opened,
    "moved": _moved,
    "handed-off": _handed_off,
    "asked": lambda body: [("question", body["text"]), *preview_lines(body)],
    "answered": lambda body: [("answer", f"{body['text']} by {body['by']}")],
    "move-refused": lambda body: [("refused", reason) for reason in body["reasons"]],
    "concluded": _concluded,
    "certified": lambda body: [("certified", body["certificate"])],
    "drift-accepted": lambda body: [
        ("accepted", f"{body['by']} goes on by changed {each['kind']} {each['name']}") for each in body["changes"]
    ],
    "cancelled": lambda body: [("cancelled", f"by {body['by']}")],
    "pruned": lambda body: [("pruned", f"{number_of(body['rows'], 'row')} of what agents did removed by {body['by']}")],
}


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
