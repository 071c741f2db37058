"""Input of the audit checks: one document with its git history, and all stated conclusions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.status import AGAINST, FOR
from esper_agents.certificates.views.file_names import slugify

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from esper_agents.certificates.audit.date_spans import DateSpan
    from esper_agents.certificates.audit.document import FreehandCertificate
    from esper_agents.domain.status import Status
    from esper_agents.git.history import DocumentCommit, GitHistory

# Tolerance for clock differences and for the time between writing and committing.
AFTER = timedelta(minutes=10)
BEFORE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Subject:
    """Document under audit.

    Attributes:
        path: Path as displayed.
        file: Absolute path of the file.
        document: Parsed document.
        where: Path in its repository; empty if it is in none.
        history: Git history of its repository; None if it is in none.
        added: Commit that added it; None if it is not committed.
        changed: Newest commit that changed it; None if it is not committed.
    """

    path: str
    file: Path
    document: FreehandCertificate
    where: str = ""
    history: GitHistory | None = None
    added: DocumentCommit | None = None
    changed: DocumentCommit | None = None


@dataclass(frozen=True, slots=True)
class StatedConclusion:
    """Conclusion that a document states, for comparison with other documents.

    Attributes:
        path: Path as displayed.
        name: File name.
        root: Its repository; empty if it is in none.
        component: Component as a slug; empty if not stated.
        status: Stated status; None if it is not one of the eleven.
        identifier: Stated certificate ID.
        at: Stated date.
        commit: Commit that added it, or empty.
    """

    path: str
    name: str
    root: str
    component: str
    status: Status | None
    identifier: str
    at: DateSpan | None
    commit: str


@dataclass
class Standings:
    """Stated conclusions of all certificates of an audit.

    Attributes:
        by_name: Conclusions by file name.
        by_component: Conclusions by repository and component.
        identifiers: Stated certificate IDs.
    """

    by_name: dict[str, list[StatedConclusion]] = field(default_factory=dict)
    by_component: dict[tuple[str, str], list[StatedConclusion]] = field(default_factory=dict)
    identifiers: set[str] = field(default_factory=set)
    _stances: dict[str, set[bool]] = field(default_factory=dict)

    def add(self, standing: StatedConclusion) -> None:
        """Add a stated conclusion."""
        self.by_name.setdefault(standing.name, []).append(standing)
        self.identifiers.add(standing.identifier)
        if standing.component:
            stances = self._stances.setdefault(standing.component, set())
            stances |= {side in FOR for side in (standing.status,) if side in FOR | AGAINST}
            self.by_component.setdefault((standing.root, standing.component), []).append(standing)

    def has_opposites(self, component: str) -> bool:
        """Return whether the certificates on a component have opposite conclusions.

        Args:
            component: Component name as written.
        """
        return bool(component) and len(self._stances.get(slugify(component), ())) > 1


@dataclass(frozen=True, slots=True)
class AuditContext:
    """Context that all checks of an audit share.

    Attributes:
        agents: Names of the agents defined in a repository; empty if none are known.
        now: Current time.
        before: Tolerance for a stated date before the commit of the document.
        after: Tolerance for a stated date after that commit.
        standings: Stated conclusions of all certificates of the audit.
    """

    agents: Callable[[Path | None], frozenset[str]]
    now: datetime
    before: timedelta = BEFORE
    after: timedelta = AFTER
    standings: Standings = field(default_factory=Standings)
