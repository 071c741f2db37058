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
    from esper_agents.review.model.ir import SourcePosition
    from esper_agents.review.model.query import ModelMatch
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
    """Observation at run time that confirms a rule's match on a line."""

    NOT = "nothing"
    RAISES = "it raises"
    REPEATS = "it runs many times in a call"
    BREAKS = "the compiler leaves the graph"


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """One match of a rule's pattern in a file.

    Attributes:
        line: Line, from 1.
        column: Column, from 1.
        end_line: Last line; for a compound statement, the last line of its header.
        message: The problem, in one sentence.
        remedy: The suggested change.
        confidence: Confidence in the match.
        basis: Reason for the confidence: `seen in one function`, `followed through calls`, `inferred`, or more detail.
        severity: Severity, if it differs from the rule's own.
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
    """Rewrite of a call; parts not named here are kept, comments and line breaks included.

    Attributes:
        callee: Full path of the new function, such as `torch.amp.autocast`; empty keeps the old one.
        names: Keyword names for the positional arguments, in order.
        first: Source of an argument to insert before all others.
        without: Arguments to remove, by keyword or position.
        arguments: Source of arguments by keyword, added or replacing existing ones.
        is_removed: Whether to remove the statement, which consists of this call only.
    """

    callee: str = ""
    names: tuple[str, ...] = ()
    first: str = ""
    without: tuple[str | int, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    is_removed: bool = False


class Rule(ABC):
    """Base class of lint rules; a subclass in `review/rules/` or in an installed package is registered automatically.

    The subclass's docstring is its documentation: a first sentence, then the sections `## Why it costs`,
    `## When it is right` and `## Sources`.

    Attributes:
        code: `ESP` and three digits; never reused.
        name: Name of the pattern, in words joined by hyphens.
        severity: Severity of matches that do not set their own.
        category: Category of the review checklist.
        bad: Source that contains the pattern; the rule must report it.
        good: Corrected source; the rule must not report it.
        shown: Run-time observation of the line by which the lab can confirm or refute the finding.
        advice: Suggested fix, for a rule whose bad example does not show one.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    category: ClassVar[Category]
    bad: ClassVar[Example]
    good: ClassVar[Example]
    shown: ClassVar[RuntimeExpectation] = RuntimeExpectation.NOT
    advice: ClassVar[str] = ""

    @abstractmethod
    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the matches of the pattern in a file.

        Args:
            file: The tables of the file.
            index: Facts about all files of the review.
        """

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:  # noqa: ARG002 - the default for rules without a query
        """Yield the matches that the semantic model of all files shows; the engine reports each cause once.

        Args:
            index: Facts about all files of the review.
        """
        yield from ()

    def fix(self, call: Call, claim: Diagnostic) -> Rewrite | None:  # noqa: ARG002 - the default for rules without a fix
        """Return the rewrite of a reported call if it is safe, or None if a user must decide.

        Safe means that the program's behaviour stays the same except for the reported problem.

        Args:
            call: A call that starts at the reported position; it need not be the reported one.
            claim: The reported diagnostic.
        """
        return None

    @property
    def is_fixable(self) -> bool:
        """Whether the rule can fix some of its diagnostics."""
        return type(self).fix is not Rule.fix

    @property
    def asks_model(self) -> bool:
        """Whether the rule has a query of the semantic model."""
        return type(self).ask is not Rule.ask

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
        """Return a match at a node of the syntax tree."""
        line: int = getattr(node, "lineno", 1)
        last: int = line if isinstance(node, _COMPOUND) else getattr(node, "end_lineno", None) or line
        column: int = getattr(node, "col_offset", 0) + 1
        return RuleMatch(line, column, last, message, remedy, confidence, basis, severity)

    def model_match(
        self,
        place: tuple[str, SourcePosition],
        message: str,
        *,
        remedy: str,
        confidence: Confidence = Confidence.HIGH,
        regions: tuple[tuple[str, int, int], ...] = (),
        severity: Severity | None = None,
    ) -> ModelMatch:
        """Return a match that the semantic model shows.

        Args:
            place: File and position.
            message: The problem, in one sentence.
            remedy: The suggested change.
            confidence: Confidence in the match.
            severity: Severity, if it differs from the rule's own.
            regions: Files and lines in which another match of this rule reports the same cause; the line always counts.
        """
        from esper_agents.review.model.query import ModelMatch

        path, at = place
        match = RuleMatch(at.line, at.column, at.end_line, message, remedy, confidence, FOLLOWED, severity)
        return ModelMatch(path, match, ((path, at.line, at.end_line), *regions))


class FileRule(Rule):
    """Base class of lint rules that need one file at a time."""

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:  # noqa: ARG002 - the single-file form ignores the index
        """Yield the matches of the pattern in a file."""
        return self.look(file)

    @abstractmethod
    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the matches of the pattern in a file.

        Args:
            file: The tables of the file.
        """


class ModelRule(Rule):
    """Base class of lint rules that only ask the semantic model."""

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:  # noqa: ARG002 - the query says it all
        """Yield nothing: `ask` yields the matches."""
        yield from ()

    @abstractmethod
    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield the matches that the semantic model of all files shows.

        Args:
            index: Facts about all files of the review.
        """


def example_files(example: Example) -> Mapping[str, str]:
    """Return an example as sources by path; a single source is named `train.py`."""
    return {"train.py": example} if isinstance(example, str) else example
