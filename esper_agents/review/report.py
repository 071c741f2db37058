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
    """Diagnostic suppressed by a comment.

    Attributes:
        claim: The diagnostic.
        reason: Reason given in the comment.
    """

    claim: Diagnostic
    reason: str


@dataclass(frozen=True, slots=True)
class FileSize:
    """Size of a file that was examined.

    Attributes:
        path: The file.
        lines: Number of its lines of code.
        imports_torch: Whether it imports torch itself.
    """

    path: str
    lines: int
    imports_torch: bool


@dataclass(frozen=True, slots=True)
class ReviewReport:
    """Diagnostics of a review and the files it covered.

    Attributes:
        claims: Diagnostics, sorted by path, line, column and rule.
        examined: Files that were read and parsed, sorted by path.
        unreadable: Files that could not be read or parsed, sorted by path, with the reasons.
        rules: Codes of the rules that ran.
        suppressed: Number of diagnostics suppressed by a comment with a reason.
        lines: Number of lines of code examined.
        torch_files: Number of files that import torch themselves.
        generated: Generated files, sorted by path; their diagnostics have the severity of a suggestion.
        parts: If there was too much source for one pass, the parts reviewed one after the other: calls from
            one part to another were not followed.
        silenced: Suppressed diagnostics, sorted by path, line, column and rule, with their reasons.
        sizes: Sizes of the examined files that could be parsed, sorted by path.
        context_files: Number of files that were analysed with them and are not reported.
        context_sha256: SHA-256 of their lines `DIGEST  PATH`, sorted by path; empty without context.
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
    sizes: tuple[FileSize, ...] = ()
    context_files: int = 0
    context_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a review.

    Attributes:
        doing: `reading` or `judging`.
        done: Number of files finished.
        total: Number of files in total.
        path: The next file.
    """

    doing: str
    done: int
    total: int
    path: str
