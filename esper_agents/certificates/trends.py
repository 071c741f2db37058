"""Values of one metric over time, from the index of recorded numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from esper_agents.certificates.archive import listing
from esper_agents.certificates.metrics import fitting
from esper_agents.certificates.places import listed
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.storage.tables import certificate as table
from esper_agents.storage.tables import certificate_metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from esper_agents.certificates.archive import CertificateSummary
    from esper_agents.certificates.filters import Filter
    from esper_agents.storage.store import Store

_MOST_NAMED = 8
_MOST_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True)
class Point:
    """One amount.

    Attributes:
        entry: The certificate that it stands in.
        evidence: The evidence that it stands in; empty for a count.
        name: The metric.
        amount: How much.
    """

    entry: CertificateSummary
    evidence: str
    name: str
    amount: float


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """What certificates have on record of one metric.

    Attributes:
        name: The metric.
        certificates: How many of them have it.
        lowest: The lowest amount.
        highest: The highest.
        newest: The newest of them that has it.
    """

    name: str
    certificates: int
    lowest: float
    highest: float
    newest: CertificateSummary


def recorded(store: Store, project_key: str, wanted: Filter) -> tuple[MetricSummary, ...]:
    """Return which metrics the newest thousand of some certificates have on record, those of most certificates first.

    Args:
        store: The database.
        project_key: The project.
        wanted: Which certificates.
    """
    entries = {each.position: each for each in listing(store, project_key, wanted=wanted, limit=_MOST_LOOKED_AT)}
    column = certificate_metric.c
    with store.reading() as connection:
        rows = connection.execute(
            select(
                column.name,
                func.count(column.position.distinct()),
                func.min(column.amount),
                func.max(column.amount),
                func.max(column.position),
            )
            .where(column.position.in_(listed(connection, [*entries])))
            .group_by(column.name)
        ).all()
    found = (MetricSummary(name, count, low, high, entries[newest]) for name, count, low, high, newest in rows)
    return tuple(sorted(found, key=lambda each: (-each.certificates, each.name)))


def names(store: Store, project_key: str) -> tuple[str, ...]:
    """Return the names of all numbers that a project's certificates have on record, in order."""
    with store.reading() as connection:
        return tuple(sorted(each for each in _all_names(connection) if _has(connection, project_key, each)))


def resolve(store: Store, project_key: str, wanted: str) -> str:
    """Return the one name that a person means: the whole of it, the end of it, or a part between dots.

    Raises:
        NotFoundError: None fits.
        UsageError: Several fit.
    """
    known = names(store, project_key)
    found = fitting(wanted, known)
    if not found:
        raise NotFoundError("metric", wanted, known, listing="esper certificates trend")
    if len(found) > 1:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise UsageError(
            f"{wanted!r} may mean several metrics", remedy=f"name one: {', '.join(found[:_MOST_NAMED])}{more}"
        )
    return found[0]


def trend(store: Store, project_key: str, metric: str, wanted: Filter, *, limit: int = 50) -> tuple[Point, ...]:
    """Return the newest amounts of a metric, oldest first.

    Args:
        store: The database.
        project_key: The project.
        metric: Its name, or an unmistakable part of it; see `resolve`.
        wanted: Which certificates.
        limit: Of at most so many certificates that have it.

    Raises:
        NotFoundError: No certificate of the project has that metric.
        UsageError: The name may mean several.
    """
    name = resolve(store, project_key, metric)
    entries = listing(store, project_key, wanted=replace(wanted, metric=name), limit=limit)
    with store.reading() as connection:
        return tuple(_points(connection, name, entries[::-1]))


def _points(connection: Connection, name: str, entries: tuple[CertificateSummary, ...]) -> Iterator[Point]:
    """Yield what some certificates have of a metric, in their order and then that of their evidence."""
    wanted = select(certificate_metric).where(
        certificate_metric.c.name == name,
        certificate_metric.c.position.in_(listed(connection, [each.position for each in entries])),
    )
    amounts: dict[int, list[tuple[str, float]]] = {}
    for each in connection.execute(wanted):
        amounts.setdefault(each.position, []).append((each.evidence_id, each.amount))
    for entry in entries:
        for evidence, amount in sorted(amounts.get(entry.position, ())):
            yield Point(entry, evidence, name, amount)


def _all_names(connection: Connection) -> Iterator[str]:
    """Yield the names of all metrics; each is one look into an index, however many certificates have it."""
    column = certificate_metric.c.name
    found = connection.scalar(select(func.min(column)))
    while found is not None:
        yield found
        found = connection.scalar(select(func.min(column)).where(column > found))


def _has(connection: Connection, project_key: str, name: str) -> bool:
    """Return whether a project has a metric: the newest that has it is asked first."""
    own = (
        select(certificate_metric.c.position)
        .join(table, table.c.position == certificate_metric.c.position)
        .where(certificate_metric.c.name == name, table.c.project_key == project_key)
        .order_by(certificate_metric.c.position.desc())
        .limit(1)
    )
    return connection.scalar(own) is not None
