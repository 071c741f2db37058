"""Live output of a running session: one line per event, and the current activity."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from esper_agents.cli.terminal import is_interactive, one_line, redact
from esper_agents.cli.terminal import say as say  # noqa: PLC0414 - the commands that print events import it from here
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.program_notice import ProgramNotice
from esper_agents.domain.usage import expense_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.session import Event


def lines_of(event: Event, printed: set[str]) -> list[tuple[str, str]]:
    """Return the output lines of an event, as pairs of label and text; none for events that only mark a start.

    Args:
        event: The row.
        printed: Fingerprints of the findings printed before; those of this event are added.
    """
    if event.kind == "called":
        lines = _called(event.body, printed)
    else:
        tell = _TELL.get(event.kind)
        lines = tell(event.body) if tell else []
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
    return [("route", f"{body['agent'] or 'nobody'}, {body['explanation']}")]


def _called(body: JsonObject, printed: set[str]) -> list[tuple[str, str]]:
    evidence = body["evidence"]
    findings = [each for each in body["findings"] if each["claim"]["fingerprint"] not in printed]
    printed.update(each["claim"]["fingerprint"] for each in findings)
    took_ms = evidence["duration_ns"] / 1_000_000
    how = f"in {took_ms:.0f} ms" if evidence["outcome"] == "completed" else evidence["outcome"]
    said = [("tool", f"{evidence['tool']} {how}: {evidence['summary']}")]
    return said + [_finding(each["claim"]) for each in findings[:_MOST_FINDINGS]] + _more(findings)


_MOST_FINDINGS, _MOST_RULES = 12, 5


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
    "asked": lambda body: [("question", body["text"])],
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


class Narrator:
    """Printer of session events for the user."""

    def __init__(self, update: Callable[[str], None], printed: set[str]) -> None:
        """Print findings that are not in `printed` yet, and pass the current activity to `update`."""
        self._update = update
        self._printed = printed
        self._heard = ""

    def lines_of(self, event: Event) -> list[tuple[str, str]]:
        """Return the output lines of one event, without findings printed before; see `lines_of`."""
        return lines_of(event, self._printed)

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
        self._update(redact(current_activity(event)))


@contextmanager
def narrator(printed: set[str] | None = None) -> Iterator[Narrator]:
    """Yield a narrator, with a status line on terminals and plain lines elsewhere.

    Args:
        printed: Fingerprints of the findings printed before; those that the narrator prints are added.
    """
    printed = set() if printed is None else printed
    if not is_interactive():
        yield Narrator(lambda _: None, printed)
        return
    from rich.console import Console

    with Console(markup=False, highlight=False, soft_wrap=True).status("starting") as status:
        yield Narrator(lambda text: status.update(text or "working"), printed)
