"""Answers to a question as facts, computed once for the queries that state them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.fact_query import Assessment, Fact, InspectionSubject
from esper_agents.review.grounding.answers import ClauseAnswer, answers_to
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.grounding.following import NameFact
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables

# Example of the queries: what they state something about, with the question, and what they are silent about.
STATED = (
    "class Chunked:\n    def __init__(self, chunk_rows=8):\n        self.chunk_rows = chunk_rows\n\n"
    "    def forward(self, x):\n        return x.chunk(len(x) // self.chunk_rows)\n"
)
SILENT = "LIMIT = 3\n"
ASKED = InspectionSubject(question="what do the chunk rows do?")


def question_answers(files: Sequence[FileTables], index: ProjectIndex, question: str) -> tuple[ClauseAnswer, ...]:
    """Return the answers from the program of a project: they may be in another file than the named one."""
    program = [file for file in index.files.values() if file.purpose in {Purpose.CODE, Purpose.EXAMPLE}]
    return index.once(("answers to", question), lambda: answers_to(question, program or files))


def described(fact: NameFact) -> Fact:
    """Return a line of an answer as a fact of a query."""
    return Fact(Assessment.DESCRIPTION, fact.file.path, fact.line, fact.text, end_line=fact.line)
