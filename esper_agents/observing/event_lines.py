"""Lines that describe one ledger event, as pairs of label and unescaped text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.domain.pluralize import number_of
from esper_agents.domain.usage import expense_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.session import Event


def event_lines(event: Event, printed: set[str], *, all_calls: bool = False) -> list[tuple[str, str]]:
    """Return the lines that describe an event, as pairs of label and text; none for events that only mark a start.

    Args:
        event: The row.
        printed: Fingerprints of the findings and lines printed before; the findings of this event are added.
        all_calls: Describe searches without a hit too.
    """
    if event.kind == "called":
        lines = [] if not all_calls and _is_search_without_hit(event.body["evidence"]) else _called(event.body, printed)
    else:
        tell = _TELL.get(event.kind)
        lines = [line for line in (tell(event.body) if tell else []) if " ".join(line) not in printed]
    return lines


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
    return [route_line(body["agent"] or "no agent", body["explanation"])]


def route_line(agent: str, explanation: str) -> tuple[str, str]:
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


def _is_search_without_hit(evidence: JsonObject) -> bool:
    return evidence["tool"] == _SEARCH and evidence["outcome"] == "completed" and not evidence["output"].get("hits")


_SEARCH = "search-code"
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
