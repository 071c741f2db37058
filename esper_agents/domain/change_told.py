"""Change of a task in words: its edits, what is only form, and what runs of both versions showed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import VERSIONS, CallOutcome
from esper_agents.domain.pluralize import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import Evidence

# Members of the review of a change: its edits of meaning, and the kinds of its other edits.
EDITS, FORM = "edits", "form"
_REVIEW = "static-review"
SAME_WHEN_RUN = "the same when run: "
_SAME = frozenset(("same", "same up to rounding"))
_NAMED, _MOST_KINDS, _LONGEST_KINDS = 3, 3, 160
_PLACE = re.compile(r"(?P<path>.+):(?P<line>\d+)")


@dataclass(frozen=True, slots=True)
class ToldEdit:
    """One edit of meaning.

    Attributes:
        place: File and line, such as `loss.py:12`.
        text: What changed and what follows from it.
        is_same: Whether its definition did the same before and after the change on all inputs of a run.
    """

    place: str
    text: str
    is_same: bool

    def __str__(self) -> str:
        """Return place and text."""
        return f"{self.place}  {SAME_WHEN_RUN if self.is_same else ''}{self.text}"


@dataclass(frozen=True, slots=True)
class ToldVersions:
    """Runs of both versions of what a change edits.

    Attributes:
        same: Names of definitions that did the same.
        inputs: Smallest number of kinds of input of these.
        is_close: Whether results of some were the same up to rounding only.
        missing: Number of edited definitions that were not compared.
        is_synthetic: Whether the program chose the inputs of all that did the same.
    """

    same: tuple[str, ...]
    inputs: int
    is_close: bool
    missing: int
    is_synthetic: bool

    def __str__(self) -> str:
        """Return what did the same, and how much was not compared."""
        parts = []
        if self.same:
            names = ", ".join(f"`{name}`" for name in self.same[:_NAMED])
            more = f" and {len(self.same) - _NAMED} more" if len(self.same) > _NAMED else ""
            verb = "does" if len(self.same) == 1 else "do"
            rounding = " up to rounding" if self.is_close else ""
            kinds = number_of(self.inputs, "kind of input", "kinds of input")
            made_up = ", made up" if self.is_synthetic else ""
            parts.append(f"{names}{more} {verb} the same{rounding} before and after the change on {kinds}{made_up}")
        if self.missing:
            parts.append(f"{number_of(self.missing, 'edited definition')} could not be compared by running")
        return "; ".join(parts)


def versions_told(evidence: Iterable[Evidence]) -> ToldVersions | None:
    """Return what runs of both versions showed; None if there was none."""
    rows = list(_comparisons(evidence))
    if not rows:
        return None
    same = [each for each in rows if each["outcome"] in _SAME]
    return ToldVersions(
        tuple(str(each["target"]).rpartition(":")[2] for each in same),
        min((int(each.get("inputs", 0)) for each in same), default=0),
        any(each["outcome"] != "same" for each in same),
        sum(each["outcome"] == "not compared" for each in rows),
        all(each.get("is_synthetic", True) is True for each in same),
    )


def change_edits(evidence: Iterable[Evidence]) -> tuple[ToldEdit, ...]:
    """Return the edits of a change that no finding names: those that a run of both versions did not settle first."""
    every = tuple(evidence)
    change = _change(every)
    rows = change.get(EDITS, ()) if change is not None else ()
    spans = [
        (str(each["target"]).rpartition(":")[0], *each["lines"])
        for each in _comparisons(every)
        if each["outcome"] in _SAME and isinstance(each.get("lines"), list | tuple) and each["lines"]
    ]
    found = []
    for row in rows if isinstance(rows, list | tuple) else ():
        match row:
            case {"place": str(place), "text": str(text)}:
                found.append(ToldEdit(place, text, _is_in(place, spans)))
            case _:
                continue
    return tuple(sorted(found, key=lambda each: each.is_same))


def change_told(evidence: Iterable[Evidence]) -> Iterator[str]:
    """Yield the edits of a change that no finding names, as the review of the change described them, then the rest.

    Example:
        "loss.py:12  the divisor lost its `+ 1e-6`: it can be zero (line 12 before: `return x / (n + 1e-6)`)".
    """
    every = tuple(evidence)
    yield from map(str, change_edits(every))
    if form := form_told(every):
        yield form


def form_told(evidence: Iterable[Evidence]) -> str:
    """Return what a change leaves as it is by syntax, and in how many lines; empty if nothing is known of it."""
    change = _change(evidence)
    forms = change.get(FORM, ()) if change is not None else ()
    kinds = ", ".join(str(each) for each in forms) if isinstance(forms, list | tuple) else ""
    if change is None or not kinds:
        return ""
    subject = "behaviour of the Python sources " if change.get("form_only") is True else ""
    counted = _lines_of_form(change)
    return f"{subject}unchanged by syntax{f' ({counted})' if counted else ''}: {kinds}"


def form_counted(evidence: Iterable[Evidence]) -> str:
    """Return how many changed lines are form, with the kinds; empty if it is not recorded or none is.

    Example:
        "31 of 41 changed lines are form (3 renames (`a` to `b`), docstrings)".
    """
    change = _change(evidence)
    counted = _lines_of_form(change) if change is not None else ""
    forms = change.get(FORM, ()) if change is not None else ()
    if not counted or not isinstance(forms, list | tuple):
        return ""
    kinds = [str(each).partition(" (")[0] for each in forms]
    shown = ", ".join(kinds[:_MOST_KINDS]) + (" and more" if len(kinds) > _MOST_KINDS else "")
    return f"{counted} are form{f' ({shown})' if shown else ''}"[:_LONGEST_KINDS]


def _lines_of_form(change: JsonObject) -> str:
    match change:
        case {"lines": int(lines), "form_lines": int(form)} if lines and form:
            return f"{'all' if form == lines else form} {'' if form == lines else 'of '}{lines} changed lines"
        case _:
            return ""


def _change(evidence: Iterable[Evidence]) -> JsonObject | None:
    reviews = (each for each in evidence if each.tool == _REVIEW and each.outcome is CallOutcome.COMPLETED)
    changes = (each.output["change"] for each in reviews if isinstance(each.output.get("change"), dict))
    return next((each for each in changes if EDITS in each), None)


def _comparisons(evidence: Iterable[Evidence]) -> Iterator[JsonObject]:
    """Yield the comparisons of both versions, as recorded."""
    for each in evidence:
        rows = each.output.get("comparisons") if each.tool == VERSIONS else None
        if each.outcome is CallOutcome.COMPLETED and isinstance(rows, list | tuple):
            yield from (row for row in rows if isinstance(row, dict) and {"target", "outcome"} <= row.keys())


def _is_in(place: str, spans: Iterable[tuple[str, int, int]]) -> bool:
    found = _PLACE.fullmatch(place)
    if found is None:
        return False
    line = int(found["line"])
    return any(path == found["path"] and first <= line <= last for path, first, last in spans)
