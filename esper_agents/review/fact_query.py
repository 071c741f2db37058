"""Base class of fact queries: what is so in the code about one question."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from esper_agents.review.symbols import nodes_for_versions

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.finding import Category
    from esper_agents.domain.request import Wish
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import Example
    from esper_agents.review.tables import FileTables


class Assessment(StrEnum):
    """What a fact means for the question."""

    MUST_CHANGE = "must change"
    SHOULD_CHECK = "should check"
    OPEN = "open"
    FINE = "fine"
    DESCRIPTION = "description"


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact with its place.

    Attributes:
        assessment: What it means for the question.
        path: File, relative to the project.
        line: Line, from 1.
        text: The fact, in one sentence without a full stop.
        remedy: A fix; empty if none is needed.
        end_line: Last line, at least `line`.
        rule: Code of the review rule that reported it; empty for a fact of the query itself.
        name: Name of that rule, or of the query.
        definitions: Definitions that it compares, as `FILE.py:Qualified.name`; empty if it compares none.
    """

    assessment: Assessment
    path: str
    line: int
    text: str
    remedy: str = ""
    end_line: int = 0
    rule: str = ""
    name: str = ""
    definitions: tuple[str, ...] = ()


def assess(text: str, assumption: str) -> tuple[Assessment, str]:
    """Return what a fault means, and its text with the assumption that it rests on.

    Only a fault that rests on no assumption must change.
    """
    if assumption:
        return Assessment.SHOULD_CHECK, f"{text} ({assumption})"
    return Assessment.MUST_CHANGE, text


@dataclass(frozen=True, slots=True)
class InspectionSubject:
    """What an inspection is asked about.

    Attributes:
        topics: Names of topics, as in `prompts/request_words.toml`.
        wish: What the answer is for; None if it was not said.
        symbols: Named definitions as `FILE.py:Qualified.name`.
        versions: Named versions, such as `2.6`, in the order of the request.
        sizes: Named sizes, such as `emb dim=200`, in the order of the request.
        usages: Entries of `review/usages/` that are asked about, as `NAME` or `NAME:LINE`.
        statements: What the user stated, as `KIND=VALUE (WORDS)`.
        question: Words of a question that the code is to answer.
    """

    topics: tuple[str, ...] = ()
    wish: Wish | None = None
    symbols: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    usages: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    question: str = ""


class FactQuery(ABC):
    """Base class of fact queries; a subclass in `review/facts/` is registered automatically.

    The first paragraph of the subclass's docstring is its documentation. A query reports faults by `problem`, which
    alone decides that something must change; what it merely describes or advises it reports by `fact`.

    Attributes:
        name: Name of the query, in words joined by hyphens.
        topics: Topics of requests that it answers.
        wishes: Wishes that it answers; empty for all. A query without topics answers its wishes whatever the topic.
        claim: The problem as a claim that facts confirm or refute, such as `every rank reads the same samples`; empty
            for a query that only describes.
        refutes: Whether its facts are all that could confirm the claim, so that only fine ones refute it.
        category: Part of the review checklist that its findings belong to.
        rules: Codes of review rules whose diagnostics answer the question as well.
        is_ordered: Whether its facts are shown in the order in which it finds them, instead of by place.
        follows_names: Whether only its facts in what named definitions run are the answer, if there are such facts.
        unseen: What code cannot tell about the question, in a few words; empty if nothing.
        bad: Source in which it reports something to change, to check or to describe.
        good: Source in which it reports nothing to change.
        asked: Subject with which the examples are inspected; None for its first topic and wish.
    """

    name: ClassVar[str]
    topics: ClassVar[tuple[str, ...]] = ()
    wishes: ClassVar[tuple[Wish, ...]] = ()
    claim: ClassVar[str] = ""
    refutes: ClassVar[bool] = True
    category: ClassVar[Category]
    rules: ClassVar[tuple[str, ...]] = ()
    is_ordered: ClassVar[bool] = False
    follows_names: ClassVar[bool] = False
    unseen: ClassVar[str] = ""
    bad: ClassVar[Example]
    good: ClassVar[Example]
    asked: ClassVar[InspectionSubject | None] = None

    @abstractmethod
    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the facts about files.

        Args:
            files: Tables of the files in question, by path.
            index: Facts about all files of the project.
            subject: What is asked.
        """

    def answers(self, subject: InspectionSubject) -> bool:
        """Return whether the query belongs to a subject."""
        is_wished = not self.wishes or subject.wish in self.wishes
        return is_wished and (not self.topics or bool(set(self.topics) & set(subject.topics)))

    @classmethod
    def problem(cls, file: FileTables, node: ast.AST, text: str, remedy: str = "", *, assumption: str = "") -> Fact:
        """Return a fault at a node of the syntax tree: it must change if it is certain, else it should be checked.

        Args:
            file: Its file.
            node: Where it is.
            text: The fault, in one sentence without a full stop.
            remedy: A fix.
            assumption: What has to be so for the fault to happen, as a clause that follows "if"; empty if nothing has.
        """
        if not assumption and node in nodes_for_versions(file):
            assumption = "the version that this branch is for is installed"
        assessment, whole = assess(text, f"if {assumption}" if assumption else "")
        return cls.fact(file, node, assessment, whole, remedy)

    @staticmethod
    def fact(file: FileTables, node: ast.AST, assessment: Assessment, text: str, remedy: str = "") -> Fact:
        """Return a fact at a node of the syntax tree."""
        line: int = getattr(node, "lineno", 1)
        return Fact(assessment, file.path, line, text, remedy, getattr(node, "end_lineno", None) or line)
