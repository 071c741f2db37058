"""Append-only SQL archive of certificates: append, list and find."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select

from esper_agents.archive import search_index as index
from esper_agents.archive.search.filter_conditions import LOGGED, in_common_by_time, sources
from esper_agents.archive.search.filters import Filter
from esper_agents.archive.search.full_text import positions_beginning
from esper_agents.archive.search.posting_lists import ABOVE_ALL, in_common, listed
from esper_agents.archive.search_index import ending_word
from esper_agents.certificates.views.file_names import view_names
from esper_agents.domain.status import QuestionType, Status
from esper_agents.errors import IntegrityError, NoCertificatesError, NotFoundError
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.tables import certificate as table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Row, Select
    from sqlalchemy.dialects import postgresql, sqlite

    from esper_agents.archive.search.filter_conditions import SignatureTable
    from esper_agents.domain.certificate import Certificate
    from esper_agents.storage.store import Store, Transaction


class CertificateOrigin(StrEnum):
    """Place that a certificate of a listing was read from."""

    LOCAL = "local"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class CertificateSummary:
    """Row of a certificate listing.

    Attributes:
        position: Its position in the archive, from 1.
        id: `crt_` identifier.
        session: The session it came from.
        issued_at: Time of its conclusion.
        agent: Agent that concluded.
        kind: Question type.
        status: Status of the verdict.
        ceiling: Best status that the policy allowed.
        descriptor: Kind of work, such as a review.
        component: Component that the verdict is about.
        request: Text of the user's request.
        commit: Git commit at that time, or empty.
        view_name: Stored name of its Markdown view; `publish.view_path` validates it before use as a file name.
        sha256: SHA-256 digest of the statement bytes.
        origin: Whether it was issued here, or was read from the published files of the project.
        is_trusted: Whether a key that the user trusts signed it; an untrusted one counts for nothing.
        signer: Owner of the key if it is trusted and the certificate was published elsewhere; else empty.
        key_id: Fingerprint of the key that a published certificate names; empty for a local one.
    """

    position: int
    id: str
    session: str
    issued_at: str
    agent: str
    kind: QuestionType
    status: Status
    ceiling: Status
    descriptor: str
    component: str
    request: str
    commit: str
    view_name: str
    sha256: str
    origin: CertificateOrigin = CertificateOrigin.LOCAL
    is_trusted: bool = True
    signer: str = ""
    key_id: str = ""


def add(transaction: Transaction, project_key: str, certificate: Certificate, data: bytes) -> str:
    """Append a certificate under the first of its names that is free in the project.

    Returns:
        SHA-256 digest of the statement bytes.

    Raises:
        IntegrityError: Other certificates use all its names.
    """
    return insert_certificate(transaction, project_key, certificate, data, view_names(certificate))


def insert_certificate(
    transaction: Transaction, project_key: str, certificate: Certificate, data: bytes, names: Sequence[str]
) -> str:
    """Append a certificate under the first of some names that is free in the project; see `add`."""
    digest = sha256(data).hexdigest()
    row = {
        "id": certificate.id,
        "project_key": project_key,
        "sha256": digest,
        "statement": data,
        **{name: str(value) for name, value in index.columns(certificate).items()},
    }
    for name in names:
        position = _insert_unless_taken(transaction.connection, {**row, "view_name": name})
        if position is not None:
            index.add(transaction.connection, position, certificate)
            return digest
    raise IntegrityError(
        f"all names of certificate {certificate.id} are used by other certificates",
        remedy="run `esper certificates repair`",
    )


def _insert_unless_taken(connection: Connection, row: dict[str, Any]) -> int | None:
    """Insert a row and return its position; return None if another certificate of the project has its name."""
    position = _insertion(connection.dialect.name).scalar(connection, row)
    return None if position is None else int(position)


@cache
def _insertion(dialect: str) -> Prepared:
    values: dict[str, Any] = {each.name: bindparam(each.name) for each in table.c if each.name != "position"}
    statement = _insert(dialect).values(values)
    statement = statement.on_conflict_do_nothing(index_elements=[table.c.project_key, table.c.view_name])
    return Prepared(statement.returning(table.c.position))


def _insert(dialect: str) -> postgresql.Insert | sqlite.Insert:
    # Loading the other dialect takes as long as all of a certificate's queries.
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def id_of_view_name(store: Store, project_key: str, view_name: str) -> str:
    """Return the ID of the project's certificate with this view name, or an empty string."""
    wanted = select(table.c.id).where(table.c.project_key == project_key, table.c.view_name == view_name)
    with store.reading() as connection:
        return str(connection.scalar(wanted) or "")


def listing(
    store: Store, project_key: str, *, wanted: Filter | None = None, before: str = "", limit: int = 50
) -> tuple[CertificateSummary, ...]:
    """Return the certificates of a project, newest first: in archive order, or by time if filtered by date.

    Args:
        store: The database.
        project_key: Key of the project.
        wanted: Filter; all certificates if omitted.
        before: Cursor: return only certificates after this one in that order (ID, end of an ID, or `latest`).
        limit: Maximum number of certificates.

    Raises:
        NotFoundError: No certificate matches `before`.
        UsageError: The search words contain neither a letter nor a digit.
    """
    last = find(store, project_key, before) if before else None
    with store.reading() as connection:
        places = positions(connection, project_key, wanted or Filter(), last=last, limit=limit)
        return tuple(_entries(connection, places))


def positions(
    connection: Connection, project_key: str, wanted: Filter, *, last: CertificateSummary | None = None, limit: int
) -> list[int]:
    """Return the archive positions of `listing`.

    Args:
        connection: The archive.
        project_key: Key of the project.
        wanted: Filter.
        last: Certificate that precedes the result; None for the first page.
        limit: Maximum number of positions.

    Raises:
        UsageError: The search words contain neither a letter nor a digit.
    """
    columns, others = sources(connection, project_key, wanted)
    if wanted.since or wanted.until:
        start = (last.issued_at, last.position) if last else None
        return in_common_by_time(columns, others, wanted, before=start, limit=limit)
    return in_common((columns, *others), below=last.position if last else ABOVE_ALL, limit=limit)


def listing_by_time(
    store: Store,
    project_key: str,
    *,
    wanted: Filter,
    before: tuple[str, int] | None,
    limit: int,
    signatures: SignatureTable = LOGGED,
) -> tuple[CertificateSummary, ...]:
    """Return the certificates of a project by time of issue, newest first.

    Args:
        store: The database.
        project_key: Key of the project.
        wanted: Filter.
        before: Time of issue and position that all certificates must precede; None for the first page.
        limit: Maximum number of certificates.
        signatures: Table that names the key of each certificate.
    """
    with store.reading() as connection:
        columns, others = sources(connection, project_key, wanted, signatures)
        places = in_common_by_time(columns, others, wanted, before=before, limit=limit)
        return tuple(_entries(connection, places))


def pages(store: Store, project_key: str, wanted: Filter, *, size: int = 500) -> Iterator[CertificateSummary]:
    """Yield all certificates of a project that match a filter, in the order of `listing`, read in small batches."""
    before = ""
    while page := listing(store, project_key, wanted=wanted, before=before, limit=size):
        yield from page
        before = page[-1].id


def everything(store: Store, project_key: str) -> tuple[CertificateSummary, ...]:
    """Return all certificates of a project, newest first."""
    return tuple(pages(store, project_key, Filter()))


def find(store: Store, project_key: str, wanted: str) -> CertificateSummary:
    """Return one certificate of a project by ID, unique end of an ID, or `latest`.

    Raises:
        NotFoundError: No certificate matches, or more than one does.
    """
    own = select(*_COLUMNS).where(table.c.project_key == project_key)
    with store.reading() as connection:
        if named := _NAMED.rows(connection, {"wanted": wanted, "project": project_key}):
            return _entry(named[0])
        newest = own.order_by(table.c.position.desc())
        if wanted == "latest":
            found = connection.execute(newest.limit(1)).all()
        else:
            found = _ending(connection, own, wanted.removeprefix("crt_"))
        if len(found) != 1:
            near = found or connection.execute(newest.limit(_NEAREST_AMONG)).all()
            if wanted == "latest":
                raise NoCertificatesError
            raise NotFoundError("certificate", wanted, [each.id for each in near], listing="esper certificates list")
        return _entry(found[0])


def read(store: Store, certificate_id: str) -> bytes:
    """Return the statement bytes of a certificate.

    Raises:
        IntegrityError: The bytes differ from those that were issued.
    """
    with store.reading() as connection:
        ((statement, digest),) = _BYTES.rows(connection, {"wanted": certificate_id})
    # SQLite does not enforce column types: a column may contain text.
    if not isinstance(statement, bytes) or sha256(statement).hexdigest() != digest:
        raise IntegrityError(
            f"archived certificate {certificate_id} was changed after it was issued", remedy="restore a backup"
        )
    return statement


# Fewer than six digits match the end of too many IDs.
_END = re.compile(r"[0-9a-f]{6,32}")
_NEAREST_AMONG = 200
_AT_ONCE = 500
_COLUMNS = [column for column in table.c if column.name not in {"statement", "project_key"}]
_NAMED = Prepared(
    select(*_COLUMNS).where(table.c.id == bindparam("wanted"), table.c.project_key == bindparam("project"))
)
_BYTES = Prepared(select(table.c.statement, table.c.sha256).where(table.c.id == bindparam("wanted")))


def _ending(connection: Connection, own: Select[Any], end: str) -> Sequence[Row[Any]]:
    """Return the certificates whose IDs have this ending; more than one if it is ambiguous."""
    if not _END.fullmatch(end):
        return []
    found = positions_beginning(connection, ending_word(end))
    known = connection.execute(own.where(table.c.position.in_(listed(connection, found)))).all()
    matches = [each for each in known if each.id.endswith(end)]
    # A certificate without index rows is found too, but more slowly.
    return matches or connection.execute(own.where(table.c.id.like(f"%{end}")).limit(2)).all()


def _entries(connection: Connection, places: Sequence[int]) -> Iterator[CertificateSummary]:
    for start in range(0, len(places), _AT_ONCE):
        some = places[start : start + _AT_ONCE]
        wanted = select(*_COLUMNS).where(table.c.position.in_(listed(connection, some)))
        by_place = {each.position: each for each in connection.execute(wanted)}
        yield from (_entry(by_place[place]) for place in some)


def _entry(row: Sequence[Any]) -> CertificateSummary:
    position, identifier, session, issued_at, agent, kind, status, ceiling, *others = row
    return CertificateSummary(
        position, identifier, session, issued_at, agent, QuestionType(kind), Status(status), Status(ceiling), *others
    )
