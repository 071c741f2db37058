"""Counts of certificates by status, question type, agent and more, for the filters of a listing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import column, func, select, table

from esper_agents.archive.search.filter_conditions import LOGGED
from esper_agents.archive.search.posting_lists import listed
from esper_agents.archive.store import positions
from esper_agents.storage.tables import certificate, certificate_file, certificate_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Select, Table

    from esper_agents.archive.search.filter_conditions import SignatureTable
    from esper_agents.archive.search.filters import Filter
    from esper_agents.storage.store import Store

MOST_COUNTED = 1000
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
        kinds: By question type.
        agents: By concluding agent.
        rules: By rule of a finding.
        files: By file that was read.
        signers: By fingerprint of the signing key.
        untrusted: Number of matching certificates of untrusted keys; they are not counted.
    """

    certificates: int
    is_complete: bool
    statuses: tuple[ValueCount, ...]
    kinds: tuple[ValueCount, ...]
    agents: tuple[ValueCount, ...]
    rules: tuple[ValueCount, ...]
    files: tuple[ValueCount, ...]
    signers: tuple[ValueCount, ...]
    untrusted: int = 0


@dataclass(frozen=True, slots=True)
class ValueTally:
    """Numbers of the certificates at some positions of one archive, by value.

    Attributes:
        certificates: Number of counted certificates.
        statuses: By status of the verdict.
        kinds: By question type.
        agents: By concluding agent.
        rules: By rule of a finding.
        files: By file that was read.
        signers: By fingerprint of the signing key.
    """

    certificates: int
    statuses: Counter[str]
    kinds: Counter[str]
    agents: Counter[str]
    rules: Counter[str]
    files: Counter[str]
    signers: Counter[str]


def value_counts(store: Store, project_key: str, wanted: Filter) -> ValueCounts:
    """Return the counts over the newest thousand certificates of a project that match a filter.

    Raises:
        UsageError: The search words contain neither a letter nor a digit.
    """
    with store.reading() as connection:
        places = positions(connection, project_key, wanted, limit=MOST_COUNTED + 1)
        counted = tally(connection, places[:MOST_COUNTED], most=_MOST_VALUES)
    return most_frequent((counted,), is_complete=len(places) <= MOST_COUNTED)


def tally(
    connection: Connection, places: Sequence[int], signatures: SignatureTable = LOGGED, *, most: int | None = None
) -> ValueTally:
    """Return the numbers of the certificates at some positions.

    Args:
        connection: The archive.
        places: The positions.
        signatures: Table that names the key of each certificate.
        most: Only so many of the most frequent rules and files; all if None.
    """
    among = certificate.c.position.in_(listed(connection, places))
    rows = connection.execute(select(certificate.c.status, certificate.c.kind, certificate.c.agent).where(among)).all()
    signed = table(signatures.name, column(signatures.certificate), column("key_id"))
    keys = select(certificate.c.id, signed.c.key_id).distinct()
    keys = keys.join(signed, certificate.c.id == signed.c[signatures.certificate]).where(among)
    return ValueTally(
        certificates=len(places),
        statuses=Counter(str(row.status) for row in rows),
        kinds=Counter(str(row.kind) for row in rows),
        agents=Counter(str(row.agent) for row in rows),
        rules=_counted(connection, certificate_rule, "rule", places, most),
        files=_counted(connection, certificate_file, "path", places, most),
        signers=Counter(str(row.key_id) for row in connection.execute(keys)),
    )


def most_frequent(tallies: Sequence[ValueTally], *, is_complete: bool, untrusted: int = 0) -> ValueCounts:
    """Return the most frequent values of some archives together.

    Args:
        tallies: Numbers of each archive.
        is_complete: Whether all certificates that match were counted.
        untrusted: Number of matching certificates of untrusted keys, which are not counted.
    """

    def together(name: str) -> tuple[ValueCount, ...]:
        counts: Counter[str] = sum((getattr(each, name) for each in tallies), Counter())
        ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        return tuple(ValueCount(value, count) for value, count in ordered[:_MOST_VALUES])

    return ValueCounts(
        certificates=sum(each.certificates for each in tallies),
        is_complete=is_complete,
        statuses=together("statuses"),
        kinds=together("kinds"),
        agents=together("agents"),
        rules=together("rules"),
        files=together("files"),
        signers=together("signers"),
        untrusted=untrusted,
    )


def _counted(connection: Connection, index: Table, name: str, places: Sequence[int], most: int | None) -> Counter[str]:
    """Return the values of an index table at some positions, by number."""
    value, number = index.c[name], func.count()
    wanted: Select[Any] = select(value, number).where(index.c.position.in_(listed(connection, places)))
    rows = connection.execute(wanted.group_by(value).order_by(number.desc(), value).limit(most)).all()
    return Counter({str(shown): int(count) for shown, count in rows})
