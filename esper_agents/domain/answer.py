"""Answers: the first screen of a certificate, derived from its record."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.pluralize import number_of
from esper_agents.domain.status import QuestionType, Status

_MOST_PLACES = 3


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One statement of an answer with its place.

    Attributes:
        text: The statement, in one sentence.
        place: File and line as `train.py:12`; empty if it has none.
        rule: Code of the rule or check; empty if it is not a finding.
        severity: Severity of the finding; empty if it is not one.
        remedy: A fix; empty if none is known.
        more_places: Further places of which the same is true, in order.
        standing: `located` or `unverified` for a model's finding that no rule, run or test confirmed; else empty.
        remarks: What a model says about a finding that it did not make, such as that it disputes it.
    """

    text: str
    place: str = ""
    rule: str = ""
    severity: str = ""
    remedy: str = ""
    more_places: tuple[str, ...] = ()
    standing: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def place_text(self) -> str:
        """The place with the next ones: `train.py:12, data.py:4 and 3 more places`; empty if there is none."""
        shown = (self.place, *self.more_places[:_MOST_PLACES])
        hidden = len(self.more_places) - _MOST_PLACES
        more = f" and {number_of(hidden, 'more place')}" if hidden > 0 else ""
        return ", ".join(filter(None, shown)) + more


@dataclass(frozen=True, slots=True)
class AnswerFact:
    """One statement of an inspection.

    Attributes:
        assessment: What it means for the question: `fine`, `open` or `description`; `documented` for words of the
            project's documents.
        place: File and line as `train.py:12`.
        text: The statement, in one sentence.
    """

    assessment: str
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a session in the order in which it is read; empty parts are not shown.

    Attributes:
        certificate: `crt_` identifier.
        kind: Question type.
        status: Status of the verdict.
        subject: What the verdict is about: the files, or the change.
        text: The answer, in at most three sentences, in the program's words.
        model: Language model that took part; empty if the program decided alone.
        because: Statements that decided the status, the deciding one first; for advice, the weighty findings.
        also: Further findings, worst first.
        facts: Statements of inspections that are no findings: what is fine, what is open, what is described.
        changed: Edits of the change in question that no finding names, then what is only form.
        ran: Tests that ran, with their results.
        measured: Results of measurements.
        before: What became of findings of earlier certificates about the same files.
        unknown: Missing information that limits the answer.
        next_command: The command that would settle the rest, relative to the project; empty if nothing is open.
        draft: Definitions of a drafted test that ran, as source text; empty if none was drafted.
        model_text: The model's own words; empty if there are none, or if they contradict the verdict.
        conditions: Conditions that the model states.
        caveats: What the model says to verify, without remarks on findings that stand beside these.
        follow_ups: What the model says to do next.
    """

    certificate: str
    kind: QuestionType
    status: Status
    subject: str
    text: str
    model: str = ""
    because: tuple[AnswerLine, ...] = ()
    also: tuple[AnswerLine, ...] = ()
    facts: tuple[AnswerFact, ...] = ()
    changed: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    next_command: str = ""
    model_text: str = ""
    draft: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    follow_ups: tuple[str, ...] = ()
