"""Audit of hand-written certificates and memory documents; needs no database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.agents.registry import load_registry
from esper_agents.certificates.audit.auditing import MEANING, audit
from esper_agents.certificates.audit.checks import meanings
from esper_agents.certificates.audit.subject import AuditContext

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from esper_agents.certificates.audit.auditing import DocumentAudit


def audit_documents(paths: Sequence[str | Path], *, agents: Iterable[str] = (), days: int = 7) -> DocumentAudit:
    """Check hand-written certificates and memory documents against the files and git; execute nothing.

    Args:
        paths: Documents, or folders of them.
        agents: Known agents in addition to the installed ones and those of the repository.
        days: Maximum days between a date and its commit.

    Raises:
        InputFileError: A path does not exist.
    """
    names = frozenset(agents)

    @cache
    def known(root: Path | None) -> frozenset[str]:
        return frozenset(load_registry(root).agents) | names

    return audit(
        [Path(path) for path in paths], AuditContext(known, datetime.now(UTC), before=timedelta(days=days)), Path.cwd()
    )


def audit_problem_meanings() -> dict[str, str]:
    """Return the meaning of each problem code of an audit."""
    return meanings() | MEANING
