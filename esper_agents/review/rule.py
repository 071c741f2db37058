"""Base classes for lint rules: `Rule`, `FileRule`, `RuleMatch`."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from esper_agents.domain.finding import Category, Confidence, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables

# One source, or several by path where the pattern spans files.
Example: TypeAlias = str | Mapping[str, str]

SEEN = "seen in one function"
FOLLOWED = "followed through calls"
INFERRED = "inferred"

_COMPOUND = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.If,
    ast.With,
    ast.AsyncWith,
)


class RuntimeExpectation(StrEnum):
    """What a run shows of a line where a rule's pattern stands, if the rule is right there."""

    NOT = "nothing"
    RAISES = "it raises"
    REPEATS = "it runs many times in a call"
    BREAKS = "the compiler leaves the graph"


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """One place where a rule's pattern stands.

    Attributes:
        line: From 1.
        column: From 1.
        end_line: The last line; of a compound statement only its first counts.
        message: What is wrong here, in one sentence.
        remedy: What to do about it.
        confidence: How sure that is.
        basis: Why it is that sure: `seen in one function`, `followed through calls` or `inferred`, or more exactly.
        severity: Where it differs from the rule's own.
    """

    line: int
    column: int
    end_line: int
    message: str
    remedy: str
    confidence: Confidence
    basis: str
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How a call is written right; what it does not name stays as it stands, comments and line breaks included.

    Attributes:
        callee: What is called instead, by its full path, such as `torch.amp.autocast`; empty leaves it.
        names: The names that positional arguments are given, in order.
        first: Source of an argument to put before all others.
        without: The arguments to leave out, by keyword or place.
        arguments: Source of arguments by keyword, to be added or to take the place of what is there.
        is_removed: Whether the statement, which is nothing but this call, goes.
    """

    callee: str = ""
    names: tuple[str, ...] = ()
    first: str = ""
    without: tuple[str | int, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    is_removed: bool = False


class Rule(ABC):
    """A pattern that the review looks for; a subclass in `review/rules/` or in an installed package is all it takes.

    The subclass's docstring is its page: a first sentence, then the sections `## Why it costs`,
    `## When it is right` and `## Sources`.

    Attributes:
        code: `ESP` and three digits; never used for anything else afterwards.
        name: The pattern, in words joined by hyphens.
        severity: How much it matters where the hit does not say otherwise.
        category: Which part of the checklist it belongs to.
        bad: Source that has the pattern; the rule must find it here.
        good: The same done right; the rule must be silent.
        shown: What a run shows of the line, so that the lab can bear the claim out or refute it.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    category: ClassVar[Category]
    bad: ClassVar[Example]
    good: ClassVar[Example]
    shown: ClassVar[RuntimeExpectation] = RuntimeExpectation.NOT

    @abstractmethod
    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield where the pattern stands in a file.

        Args:
            file: The tables of the file.
            index: What is known across all files of the review.
        """

    def fix(self, call: Call, claim: Diagnostic) -> Rewrite | None:  # noqa: ARG002 - what a rule does that mends nothing
        """Return how to write a call that it found, where that is safe; None leaves it to a person.

        Safe means that the program does the same as before, but for what the rule is about.

        Args:
            call: A call that starts where the rule found something; it need not be the one that it meant.
            claim: What it found.
        """
        return None

    @property
    def is_fixable(self) -> bool:
        """Whether it can mend some of what it finds."""
        return type(self).fix is not Rule.fix

    def hit(
        self,
        node: ast.AST,
        message: str,
        *,
        remedy: str,
        confidence: Confidence = Confidence.HIGH,
        basis: str = SEEN,
        severity: Severity | None = None,
    ) -> RuleMatch:
        """Return a hit at a node of the syntax tree."""
        line: int = getattr(node, "lineno", 1)
        last: int = line if isinstance(node, _COMPOUND) else getattr(node, "end_lineno", None) or line
        column: int = getattr(node, "col_offset", 0) + 1
        return RuleMatch(line, column, last, message, remedy, confidence, basis, severity)


class FileRule(Rule):
    """A rule that needs one file at a time and asks nothing of the others."""

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:  # noqa: ARG002 - what it does without
        """Yield where the pattern stands in a file."""
        return self.look(file)

    @abstractmethod
    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield where the pattern stands in a file.

        Args:
            file: The tables of the file.
        """


def example_files(example: Example) -> Mapping[str, str]:
    """Return an example as sources by path; a single one is called `train.py`."""
    return {"train.py": example} if isinstance(example, str) else example
