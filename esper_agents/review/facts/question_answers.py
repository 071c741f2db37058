"""Answers to a question in words: the lines that decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.evidence import QUESTION_ANSWERS
from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import FactQuery, InspectionSubject
from esper_agents.review.grounding.question_facts import ASKED, SILENT, STATED, described, question_answers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables


class QuestionAnswers(FactQuery):
    """Lines that decide what a question asks, one or two for each part of it, or what no line of the project does."""

    name = QUESTION_ANSWERS
    is_ordered = True
    category = Category.CORRECTNESS
    bad = STATED
    good = SILENT
    asked = ASKED

    def answers(self, subject: InspectionSubject) -> bool:
        """Return whether the subject has a question."""
        return bool(subject.question)

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the decisive lines, in the order of the question."""
        for answer in question_answers(files, index, subject.question):
            yield from map(described, answer.leads)
