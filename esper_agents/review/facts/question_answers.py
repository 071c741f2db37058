"""Answers to a question in words: the lines that its words refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.evidence import QUESTION_ANSWERS, QUESTION_DETAILS
from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, Fact, FactQuery, InspectionSubject
from esper_agents.review.grounding.answers import ClauseAnswer, answers_to
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.grounding.following import NameFact
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables

_BAD = (
    "class Chunked:\n    def __init__(self, chunk_rows=8):\n        self.chunk_rows = chunk_rows\n\n"
    "    def forward(self, x):\n        return x.chunk(len(x) // self.chunk_rows)\n"
)
_GOOD = "LIMIT = 3\n"
_ASKED = InspectionSubject(question="what do the chunk rows do?")


class QuestionAnswers(FactQuery):
    """Lines that decide what a question asks, one or two for each part of it, or what no line of the project does."""

    name = QUESTION_ANSWERS
    is_ordered = True
    category = Category.CORRECTNESS
    bad = _BAD
    good = _GOOD
    asked = _ASKED

    def answers(self, subject: InspectionSubject) -> bool:
        """Return whether the subject has a question."""
        return bool(subject.question)

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the decisive lines, in the order of the question."""
        for answer in _answers(files, index, subject.question):
            yield from map(_described, answer.leads)


class QuestionDetails(FactQuery):
    """Lines that belong to the answer of a question: defaults, documentation, where a name is passed on and used."""

    name = QUESTION_DETAILS
    is_ordered = True
    category = Category.CORRECTNESS
    bad = _BAD
    good = _GOOD
    asked = _ASKED

    def answers(self, subject: InspectionSubject) -> bool:
        """Return whether the subject has a question."""
        return bool(subject.question)

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the lines, in the order of the question."""
        for answer in _answers(files, index, subject.question):
            yield from map(_described, answer.details)


def _answers(files: Sequence[FileTables], index: ProjectIndex, question: str) -> tuple[ClauseAnswer, ...]:
    """Return the answers from the program of a project: they may be in another file than the named one."""
    program = [file for file in index.files.values() if file.purpose in {Purpose.CODE, Purpose.EXAMPLE}]
    return index.once(("answers to", question), lambda: answers_to(question, program or files))


def _described(fact: NameFact) -> Fact:
    return Fact(Assessment.DESCRIPTION, fact.file.path, fact.line, fact.text, end_line=fact.line)
