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
    from esper_agents.certificates.audit.history import DocumentCommit, GitHistory
    from esper_agents.domain.status import Status

# Clocks differ, and writing takes a moment.
AFTER = timedelta(minutes=10)
BEFORE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Subject:
    """One document.

    Attributes:
        path: As it is shown.
        file: Where it is, absolute.
        document: What it says.
        where: Its path in its repository; empty where it lies in none.
        history: What its repository knows; None where it lies in none.
        added: The commit that added it; None where it is not committed.
        changed: The newest commit that touched it, likewise.
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
    """What a certificate concludes, as others are compared with it.

    Attributes:
        path: As it is shown.
        name: The name of its file.
        root: Its repository; empty where it lies in none.
        component: What it is on, as a slug; empty where it does not say.
        status: What it concludes; None where that is none of the eleven.
        identifier: What it calls itself.
        at: When it says it was written.
        commit: The commit that added it, or empty.
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
    """All certificates of an audit.

    Attributes:
        by_name: By the name of the file.
        by_component: By repository and component.
        identifiers: What they call themselves.
    """

    by_name: dict[str, list[StatedConclusion]] = field(default_factory=dict)
    by_component: dict[tuple[str, str], list[StatedConclusion]] = field(default_factory=dict)
    identifiers: set[str] = field(default_factory=set)
    _stances: dict[str, set[bool]] = field(default_factory=dict)

    def add(self, standing: StatedConclusion) -> None:
        """Take one more."""
        self.by_name.setdefault(standing.name, []).append(standing)
        self.identifiers.add(standing.identifier)
        if standing.component:
            stances = self._stances.setdefault(standing.component, set())
            stances |= {side in FOR for side in (standing.status,) if side in FOR | AGAINST}
            self.by_component.setdefault((standing.root, standing.component), []).append(standing)

    def has_opposites(self, component: str) -> bool:
        """Return whether certificates on a component conclude opposite things.

        Args:
            component: As it is written.
        """
        return bool(component) and len(self._stances.get(slugify(component), ())) > 1


@dataclass(frozen=True, slots=True)
class AuditContext:
    """What all checks of an audit share.

    Attributes:
        agents: The names of the agents that are known in a repository; empty where none is known.
        now: The time.
        before: How long before its commit a document may say it was written.
        after: How long after it.
        standings: All certificates of the audit.
    """

    agents: Callable[[Path | None], frozenset[str]]
    now: datetime
    before: timedelta = BEFORE
    after: timedelta = AFTER
    standings: Standings = field(default_factory=Standings)
