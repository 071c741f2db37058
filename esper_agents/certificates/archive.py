"""The archive in SQL: certificates are appended, found and listed, never changed."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import insert, select

from esper_agents.errors import IntegrityError, NotFoundError
from esper_agents.storage.tables import certificate as table

if TYPE_CHECKING:
    from sqlalchemy import Row

    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.status import Kind, Status
    from esper_agents.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Entry:
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
        view_name: The name of its Markdown view.
        sha256: Digest of its bytes.
    """

    position: int
    id: str
    session: str
    issued_at: str
    agent: str
    kind: Kind
    status: Status
    ceiling: Status
    descriptor: str
    component: str
    request: str
    commit: str
    view_name: str
    sha256: str


def add(transaction: Transaction, project_key: str, certificate: Certificate, data: bytes, view_name: str) -> str:
    """Append a certificate and return the digest of its bytes."""
    digest = sha256(data).hexdigest()
    transaction.connection.execute(
        insert(table).values(
            id=certificate.id,
            session_id=certificate.session,
            project_key=project_key,
            issued_at=certificate.issued_at,
            agent=certificate.agent,
            kind=certificate.verdict.kind,
            status=certificate.verdict.status,
            ceiling=certificate.verdict.ceiling.status,
            descriptor=certificate.descriptor,
            component=certificate.component,
            request=certificate.task.request,
            revision=certificate.revision.commit,
            view_name=view_name,
            sha256=digest,
            statement=data,
        )
    )
    return digest


def names(transaction: Transaction, project_key: str, agent: str) -> frozenset[str]:
    """Return the names that an agent's views have already."""
    wanted = select(table.c.view_name).where(table.c.project_key == project_key, table.c.agent == agent)
    return frozenset(transaction.connection.scalars(wanted))


def listing(store: Store, project_key: str, *, agent: str = "", limit: int = 50) -> tuple[Entry, ...]:
    """Return a project's certificates, newest first, of one agent where it is named."""
    wanted = select(*_COLUMNS).where(table.c.project_key == project_key)
    if agent:
        wanted = wanted.where(table.c.agent == agent)
    with store.reading() as connection:
        return tuple(_entry(each) for each in connection.execute(wanted.order_by(table.c.position.desc()).limit(limit)))


def find(store: Store, project_key: str, wanted: str) -> Entry:
    """Return one certificate of a project: by identifier, by the unmistakable end of it, or `latest`.

    Raises:
        NotFoundError: There is none of that name, or there are several.
    """
    with store.reading() as connection:
        known = connection.scalars(
            select(table.c.id).where(table.c.project_key == project_key).order_by(table.c.position.desc())
        ).all()
        bare = wanted.removeprefix("crt_")
        matches = [each for each in known if each == wanted or (len(bare) >= _SHORTEST and each.endswith(bare))]
        chosen = known[:1] if wanted == "latest" else matches
        if len(chosen) != 1:
            raise NotFoundError("certificate", wanted, known, listing="esper certificates list")
        return _entry(connection.execute(select(*_COLUMNS).where(table.c.id == chosen[0])).one())


def read(store: Store, certificate_id: str) -> bytes:
    """Return the bytes of a certificate.

    Raises:
        IntegrityError: They are not the bytes that were issued.
    """
    with store.reading() as connection:
        found = connection.execute(select(table.c.statement, table.c.sha256).where(table.c.id == certificate_id)).one()
    if sha256(found.statement).hexdigest() != found.sha256:
        raise IntegrityError(
            f"certificate {certificate_id} in the archive is not what was issued", remedy="restore a backup"
        )
    return bytes(found.statement)


_SHORTEST = 6
_COLUMNS = [column for column in table.c if column.name not in {"statement", "project_key"}]


def _entry(each: Row[tuple[object, ...]]) -> Entry:
    return Entry(
        position=each.position,
        id=each.id,
        session=each.session_id,
        issued_at=each.issued_at,
        agent=each.agent,
        kind=each.kind,
        status=each.status,
        ceiling=each.ceiling,
        descriptor=each.descriptor,
        component=each.component,
        request=each.request,
        commit=each.revision,
        view_name=each.view_name,
        sha256=each.sha256,
    )
