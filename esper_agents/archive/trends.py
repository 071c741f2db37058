"""Values of one metric over time, from the index of recorded numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from esper_agents.archive.metrics import fitting
from esper_agents.archive.search.posting_lists import listed
from esper_agents.archive.store import listing
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.storage.tables import certificate as table
from esper_agents.storage.tables import certificate_metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from esper_agents.archive.search.filters import Filter
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.storage.store import Store

_MOST_NAMED = 8
_MOST_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True)
class Point:
    """Data point of a trend.

    Attributes:
        entry: Certificate that contains it.
        evidence: Evidence that contains it; empty for a count.
        name: Name of the metric.
        amount: Value of the metric.
    """

    entry: CertificateSummary
    evidence: str
    name: str
    amount: float


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """Summary of one metric over certificates.

    Attributes:
        name: Name of the metric.
        certificates: Number of certificates that contain it.
        lowest: Lowest value.
        highest: Highest value.
        newest: Newest certificate that contains it.
    """

    name: str
    certificates: int
    lowest: float
    highest: float
    newest: CertificateSummary


def recorded(store: Store, project_key: str, wanted: Filter) -> tuple[MetricSummary, ...]:
    """Return the metrics of the newest thousand matching certificates, most frequent first.

    Args:
        store: The database.
        project_key: Key of the project.
        wanted: Filter of certificates.
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
    """Return the names of all metrics recorded in a project's certificates, sorted."""
    with store.reading() as connection:
        return tuple(sorted(name for name in _all_names(connection) if _has(connection, project_key, name)))


def resolve(store: Store, project_key: str, wanted: str) -> str:
    """Return the metric that a user's text identifies: its full name, its end, or a part between dots.

    Raises:
        NotFoundError: No metric matches.
        UsageError: More than one metric matches.
    """
    known = names(store, project_key)
    found = fitting(wanted, known)
    if not found:
        raise NotFoundError("metric", wanted, known, listing="esper certificates trend")
    if len(found) > 1:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise UsageError(
            f"{wanted!r} matches more than one metric", remedy=f"name one: {', '.join(found[:_MOST_NAMED])}{more}"
        )
    return found[0]


def trend(store: Store, project_key: str, metric: str, wanted: Filter, *, limit: int = 50) -> tuple[Point, ...]:
    """Return the newest values of a metric, oldest first.

    Args:
        store: The database.
        project_key: Key of the project.
        metric: Name of the metric, or a unique part of it; see `resolve`.
        wanted: Filter of certificates.
        limit: Maximum number of certificates that contain it.

    Raises:
        NotFoundError: No certificate of the project contains that metric.
        UsageError: The name is ambiguous.
    """
    name = resolve(store, project_key, metric)
    entries = listing(store, project_key, wanted=replace(wanted, metric=name), limit=limit)
    with store.reading() as connection:
        return tuple(_points(connection, name, entries[::-1]))


def _points(connection: Connection, name: str, entries: tuple[CertificateSummary, ...]) -> Iterator[Point]:
    """Yield the values of a metric in the order of the certificates and of their evidence."""
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
    """Yield the names of all metrics; each takes one index lookup, however many certificates have it."""
    column = certificate_metric.c.name
    found = connection.scalar(select(func.min(column)))
    while found is not None:
        yield found
        found = connection.scalar(select(func.min(column)).where(column > found))


def _has(connection: Connection, project_key: str, name: str) -> bool:
    """Return whether a project has a metric; its newest certificate is tried first."""
    own = (
        select(certificate_metric.c.position)
        .join(table, table.c.position == certificate_metric.c.position)
        .where(certificate_metric.c.name == name, table.c.project_key == project_key)
        .order_by(certificate_metric.c.position.desc())
        .limit(1)
    )
    return connection.scalar(own) is not None
