"""Report of a review: its diagnostics and the files it covered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.domain.evidence import SourceFile
    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.source import Unreadable


@dataclass(frozen=True, slots=True)
class SuppressedDiagnostic:
    """A claim that a comment silenced.

    Attributes:
        claim: The claim.
        reason: What the comment says.
    """

    claim: Diagnostic
    reason: str


@dataclass(frozen=True, slots=True)
class ReviewReport:
    """What a review found, and what it looked at.

    Attributes:
        claims: What was found, by path, line, column and rule.
        examined: The files that were read and parsed, by path.
        unreadable: The files that were not, by path, each with why.
        rules: The codes of the rules that ran.
        suppressed: How many claims a comment with a reason silenced.
        lines: How many lines of code were examined.
        torch_files: How many of the files import torch themselves.
        generated: The files that a program wrote, by path; what is claimed of them counts as a suggestion.
        parts: Where there was too much to hold at once, the parts that were reviewed one after the other: a call from
            one part to another was not followed.
        silenced: The claims that were silenced, by path, line, column and rule, each with why.
    """

    claims: tuple[Diagnostic, ...]
    examined: tuple[SourceFile, ...]
    unreadable: tuple[Unreadable, ...]
    rules: tuple[str, ...]
    suppressed: int
    lines: int
    torch_files: int
    generated: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    silenced: tuple[SuppressedDiagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a review is.

    Attributes:
        doing: `reading` or `judging`.
        done: How many files are behind.
        total: How many there are.
        path: The file that is next.
    """

    doing: str
    done: int
    total: int
    path: str
