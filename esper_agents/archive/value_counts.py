"""Counts of certificates by status, agent, rule, file and signer, for the filters of a listing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from esper_agents.archive.search.posting_lists import listed
from esper_agents.archive.store import positions
from esper_agents.storage.tables import certificate, certificate_file, certificate_rule, log_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Select, Table

    from esper_agents.archive.search.filters import Filter
    from esper_agents.storage.store import Store

_MOST_COUNTED = 1000
_MOST_VALUES = 12


@dataclass(frozen=True, slots=True)
class ValueCount:
    """Number of certificates with one value.

    Attributes:
        value: The value, such as a status or a path.
        certificates: Number of counted certificates that have it.
    """

    value: str
    certificates: int


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """Counts over the newest certificates that match a filter; the most frequent values come first.

    Attributes:
        certificates: Number of counted certificates.
        is_complete: Whether these are all that match.
        statuses: By status of the verdict.
        agents: By concluding agent.
        rules: By rule of a finding.
        files: By file that was read.
        signers: By fingerprint of the signing key.
    """

    certificates: int
    is_complete: bool
    statuses: tuple[ValueCount, ...]
    agents: tuple[ValueCount, ...]
    rules: tuple[ValueCount, ...]
    files: tuple[ValueCount, ...]
    signers: tuple[ValueCount, ...]


def value_counts(store: Store, project_key: str, wanted: Filter) -> ValueCounts:
    """Return the counts over the newest thousand certificates of a project that match a filter.

    Raises:
        UsageError: The search words contain neither a letter nor a digit.
    """
    with store.reading() as connection:
        places = positions(connection, project_key, wanted, limit=_MOST_COUNTED + 1)
        counted = places[:_MOST_COUNTED]
        among = certificate.c.position.in_(listed(connection, counted))
        rows = connection.execute(select(certificate.c.status, certificate.c.agent).where(among)).all()
        signed = select(log_entry.c.key_id).join(certificate, certificate.c.id == log_entry.c.record_id).where(among)
        return ValueCounts(
            certificates=len(counted),
            is_complete=len(places) == len(counted),
            statuses=_most_frequent(Counter(str(row.status) for row in rows)),
            agents=_most_frequent(Counter(str(row.agent) for row in rows)),
            rules=_counted(connection, certificate_rule, "rule", counted),
            files=_counted(connection, certificate_file, "path", counted),
            signers=_most_frequent(Counter(map(str, connection.scalars(signed)))),
        )


def _counted(connection: Connection, table: Table, column: str, places: Sequence[int]) -> tuple[ValueCount, ...]:
    """Return the most frequent values of an index table at some positions."""
    value, number = table.c[column], func.count()
    wanted: Select[Any] = select(value, number).where(table.c.position.in_(listed(connection, places)))
    rows = connection.execute(wanted.group_by(value).order_by(number.desc(), value).limit(_MOST_VALUES)).all()
    return tuple(ValueCount(str(name), int(count)) for name, count in rows)


def _most_frequent(counts: Counter[str]) -> tuple[ValueCount, ...]:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return tuple(ValueCount(name, count) for name, count in ordered[:_MOST_VALUES])
