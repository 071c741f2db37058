"""Checks of hand-written certificates: the interface and the discovery of check modules.

A file says in `MEANING` which problems it finds and what each means, in `KINDS` which documents it reads, and its
`find` yields the problems of one document. One that says `COMPARES = True` runs when all documents are read.
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
    """One family of checks.

    Attributes:
        MEANING: What each problem that it finds means.
        KINDS: The documents that it reads.
    """

    MEANING: Mapping[str, str]
    KINDS: frozenset[DocumentKind]

    def find(self, subject: Subject, around: AuditContext) -> Iterator[AuditProblem]:
        """Yield what does not hold in one document, or cannot be decided."""
        ...


def does_compare(check: AuditCheck) -> bool:
    """Return whether a check wants to know what all other documents say."""
    return bool(getattr(check, "COMPARES", False))


@cache
def load_checks() -> tuple[AuditCheck, ...]:
    """Return every check, by the name of its file."""
    names = sorted(each.name for each in pkgutil.iter_modules(__path__))
    return tuple(cast("AuditCheck", importlib.import_module(f"{__name__}.{name}")) for name in names)


def meanings() -> dict[str, str]:
    """Return what each problem that an audit may find means, by its code."""
    return {code: text for check in load_checks() for code, text in sorted(check.MEANING.items())}
