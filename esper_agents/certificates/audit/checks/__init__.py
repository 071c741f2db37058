"""Checks of hand-written certificates: the interface and the discovery of check modules.

Every module in this folder is loaded as a check. It defines `MEANING` (its problem codes with their meaning),
`KINDS` (the document kinds it reads) and `find`, which yields the problems of one document. A module with
`COMPARES = True` runs after all documents have been read.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.certificates.audit.document import DocumentKind
    from esper_agents.certificates.audit.problem import AuditProblem
    from esper_agents.certificates.audit.subject import AuditContext, Subject


class AuditCheck(Protocol):
    """Family of checks.

    Attributes:
        MEANING: Meaning of each problem code that it reports.
        KINDS: Document kinds that it reads.
    """

    MEANING: Mapping[str, str]
    KINDS: frozenset[DocumentKind]

    def find(self, subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:
        """Yield the failed and undecided checks of one document."""
        ...


def does_compare(check: AuditCheck) -> bool:
    """Return whether a check compares a document with all other documents."""
    return bool(getattr(check, "COMPARES", False))


@cache
def load_checks() -> tuple[AuditCheck, ...]:
    """Return all checks, sorted by module name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(cast("AuditCheck", importlib.import_module(f"{__name__}.{name}")) for name in names)


def meanings() -> dict[str, str]:
    """Return the meaning of every problem code of the audit."""
    return {code: text for check in load_checks() for code, text in sorted(check.MEANING.items())}
