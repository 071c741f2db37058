"""Append-only SQL archive of certificates: append, list and find."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select

from esper_agents.certificates import index
from esper_agents.certificates.filters import Filter
from esper_agents.certificates.fulltext import positions_beginning
from esper_agents.certificates.index import ending_word
from esper_agents.certificates.places import ABOVE_ALL, in_common, listed
from esper_agents.certificates.sources import in_common_by_time, sources
from esper_agents.certificates.views.file_names import view_names
from esper_agents.domain.status import QuestionType, Status
from esper_agents.errors import IntegrityError, NoCertificatesError, NotFoundError
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.tables import certificate as table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Row, Select

    from esper_agents.domain.certificate import Certificate
    from esper_agents.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class CertificateSummary:
    """A certificate in a listing.

    Attributes:
        position: Its place in the archive, from 1.
        id: `crt_` identifier.
        session: The session it came from.
        issued_at: When it was concluded.
        agent: Who concluded.
        kind: The kind of question.
        status: The verdict.
        ceiling: The best that policy allowed.
        descriptor: What sort of work it was.
        component: What was judged.
        request: What was asked.
        commit: The commit at that time, or empty.
        view_name: The name of its Markdown view, as stored; `publish.view_path` checks it before it names a file.
        sha256: Digest of its bytes.
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


def add(transaction: Transaction, project_key: str, certificate: Certificate, data: bytes) -> str:
    """Append a certificate under the first of its names that no other certificate of the project has.

    Returns:
        The digest of its bytes.

    Raises:
        IntegrityError: Other certificates have all its names.
    """
    digest = sha256(data).hexdigest()
    row = {
        "id": certificate.id,
        "project_key": project_key,
        "sha256": digest,
        "statement": data,
        **index.columns(certificate),
    }
    for name in view_names(certificate):
        position = _insert_unless_taken(transaction.connection, {**row, "view_name": name})
        if position is not None:
            index.add(transaction.connection, position, certificate)
            return digest
    raise IntegrityError(
        f"other certificates have every name of certificate {certificate.id}", remedy="run `esper certificates repair`"
    )


def _insert_unless_taken(connection: Connection, row: dict[str, Any]) -> int | None:
    """Insert a row and return its position; None if another certificate of the project has its name."""
    from sqlalchemy.dialects import postgresql, sqlite

    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).values(row)
    statement = statement.on_conflict_do_nothing(index_elements=[table.c.project_key, table.c.view_name])
    position = connection.scalar(statement.returning(table.c.position))
    return None if position is None else int(position)


def id_of_view_name(store: Store, project_key: str, view_name: str) -> str:
    """Return the certificate of a project that has a name, or an empty text."""
    wanted = select(table.c.id).where(table.c.project_key == project_key, table.c.view_name == view_name)
    with store.reading() as connection:
        return str(connection.scalar(wanted) or "")


def listing(
    store: Store, project_key: str, *, wanted: Filter | None = None, before: str = "", limit: int = 50
) -> tuple[CertificateSummary, ...]:
    """Return a project's certificates, newest first: in the order of the archive, with dates in the order of times.

    Args:
        store: The database.
        project_key: The project.
        wanted: Which of them; all where left out.
        before: Only those that stand after this one in that order: an identifier, the end of one, or `latest`.
        limit: At most so many.

    Raises:
        NotFoundError: There is no certificate `before`.
        UsageError: The words asked for hold no letter and no digit.
    """
    last = find(store, project_key, before) if before else None
    asked = wanted or Filter()
    with store.reading() as connection:
        columns, others = sources(connection, project_key, asked)
        if asked.since or asked.until:
            start = (last.issued_at, last.position) if last else None
            places = in_common_by_time(columns, others, asked, before=start, limit=limit)
        else:
            places = in_common((columns, *others), below=last.position if last else ABOVE_ALL, limit=limit)
        return tuple(_entries(connection, places))


def pages(store: Store, project_key: str, wanted: Filter, *, size: int = 500) -> Iterator[CertificateSummary]:
    """Yield all of a project's certificates that are wanted, in the order of `listing`; few at a time are read."""
    before = ""
    while page := listing(store, project_key, wanted=wanted, before=before, limit=size):
        yield from page
        before = page[-1].id


def everything(store: Store, project_key: str) -> tuple[CertificateSummary, ...]:
    """Return all of a project's certificates, newest first."""
    return tuple(pages(store, project_key, Filter()))


def find(store: Store, project_key: str, wanted: str) -> CertificateSummary:
    """Return one certificate of a project: by identifier, by the unmistakable end of it, or `latest`.

    Raises:
        NotFoundError: There is none of that name, or there are several.
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
    """Return the bytes of a certificate.

    Raises:
        IntegrityError: They are not the bytes that were issued.
    """
    with store.reading() as connection:
        ((statement, digest),) = _BYTES.rows(connection, {"wanted": certificate_id})
    # Columns of SQLite hold whatever somebody wrote into them, text as well.
    if not isinstance(statement, bytes) or sha256(statement).hexdigest() != digest:
        raise IntegrityError(
            f"certificate {certificate_id} in the archive is not what was issued", remedy="restore a backup"
        )
    return statement


# Fewer than six digits end too many identifiers.
_END = re.compile(r"[0-9a-f]{6,32}")
_NEAREST_AMONG = 200
_AT_ONCE = 500
_COLUMNS = [column for column in table.c if column.name not in {"statement", "project_key"}]
_NAMED = Prepared(
    select(*_COLUMNS).where(table.c.id == bindparam("wanted"), table.c.project_key == bindparam("project"))
)
_BYTES = Prepared(select(table.c.statement, table.c.sha256).where(table.c.id == bindparam("wanted")))


def _ending(connection: Connection, own: Select[Any], end: str) -> Sequence[Row[Any]]:
    """Return the certificates whose identifiers end so; more than one where it is not unmistakable."""
    if not _END.fullmatch(end):
        return []
    found = positions_beginning(connection, ending_word(end))
    known = connection.execute(own.where(table.c.position.in_(listed(connection, found)))).all()
    matches = [each for each in known if each.id.endswith(end)]
    # One that has no rows in the index is still found, only not as fast.
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
