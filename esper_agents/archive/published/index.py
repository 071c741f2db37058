"""Index of published certificates in the data directory: a cache that can be deleted at any time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlalchemy import (
    URL,
    Boolean,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    delete,
    insert,
    literal_column,
    select,
    text,
    update,
)

from esper_agents.archive import search_index
from esper_agents.archive.published.combined import INDEX_FILE
from esper_agents.archive.store import insert_certificate
from esper_agents.domain.project import Project
from esper_agents.domain.stored_kinds import OriginKind
from esper_agents.errors import StorageError
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.projects import note_project
from esper_agents.storage.store import Store
from esper_agents.storage.tables import certificate as table
from esper_agents.storage.tables import certificate_relation, session

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from sqlalchemy import Connection

    from esper_agents.domain.certificate import Certificate
    from esper_agents.storage.store import Transaction

_AT_ONCE = 500
_MOST_VIEWS = 50_000
TESTS = "run-tests"
_metadata = MetaData()
_file = Table(
    "published_file",
    _metadata,
    Column("path", Text, primary_key=True),
    Column("stamp", Text, nullable=False),
    Column("standing", String(16), nullable=False),
    Column("certificate_id", String(40), nullable=False, index=True),
    Column("key_id", String(64), nullable=False),
    Column("why", Text, nullable=False),
)
_examined = Table(
    "published_examined",
    _metadata,
    Column("position", Integer, primary_key=True),
    Column("path", Text, primary_key=True, index=True),
    Column("sha256", String(64), primary_key=True),
    Column("ran_tests", Boolean, nullable=False),
    Column("is_about_change", Boolean, nullable=False),
)
_view = Table("published_view", _metadata, Column("digest", String(64), primary_key=True))
_setting = Table("published_setting", _metadata, Column("name", String(32), primary_key=True), Column("value", Text))

_BY_DIGEST = text("CREATE INDEX IF NOT EXISTS ix_certificate_sha256 ON certificate (sha256)")


class FileStanding(StrEnum):
    """Standing of a published envelope."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"
    REFUSED = "refused"
    # Issued for another repository; this may change when commits are fetched.
    FOREIGN = "foreign"


# Certificates without a file. Certificates are in the index as those of three projects, of which two are listed.
GONE = "gone"
_PARTS = (FileStanding.TRUSTED, FileStanding.UNTRUSTED, GONE)


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """Published envelope as it was indexed.

    Attributes:
        path: Path relative to the project.
        stamp: Size, times and inode of the file at that time.
        standing: Standing of its certificate.
        certificate_id: ID of the certificate; empty if it is not read as one.
        key_id: Fingerprint of the key that the envelope names; empty if it is not an envelope.
        why: Reason if it is not read as a certificate of the project.
    """

    path: str
    stamp: str
    standing: FileStanding
    certificate_id: str = ""
    key_id: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """File that a published certificate examined.

    Attributes:
        path: Path of the file, relative to the project.
        sha256: Digest of the content that was read.
        ran_tests: Whether the certificate has evidence of a test run.
        is_about_change: Whether the certificate is about a change.
        agent: Agent that concluded.
        envelope: Path of the published envelope.
        key_id: Fingerprint of the key that the envelope names.
        is_trusted: Whether a trusted key signed it.
    """

    path: str
    sha256: str
    ran_tests: bool
    is_about_change: bool
    agent: str
    envelope: str
    key_id: str
    is_trusted: bool


def open_index(home: Path) -> Store:
    """Return the index of a project, created if it is missing or damaged.

    Args:
        home: Folder of the project in the data directory.
    """
    file = home / INDEX_FILE
    with suppress(StorageError):
        return _opened(file)
    # A damaged cache is made again; if it cannot be used at all, the second attempt raises.
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    return _opened(file)


def _opened(file: Path) -> Store:
    store = Store(URL.create("sqlite", database=str(file)))
    try:
        with store.writing() as transaction:
            _metadata.create_all(transaction.connection)
            transaction.connection.execute(_BY_DIGEST)
            for part in _PARTS:
                note_project(transaction, Project("", part, part, is_git=False))
    except BaseException:
        store.close()
        raise
    return store


def setting(connection: Connection, name: str) -> str:
    """Return a stored text of the index; empty if there is none."""
    return str(connection.scalar(select(_setting.c.value).where(_setting.c.name == name)) or "")


def keep_setting(connection: Connection, name: str, value: str) -> None:
    """Store a text of the index."""
    connection.execute(delete(_setting).where(_setting.c.name == name))
    connection.execute(insert(_setting).values(name=name, value=value))


def indexed_files(connection: Connection) -> dict[str, IndexedFile]:
    """Return the indexed files by path."""
    rows = connection.execute(select(_file)).all()
    return {row.path: IndexedFile(row.path, row.stamp, FileStanding(row.standing), *row[3:]) for row in rows}


def file_of(connection: Connection, certificate_id: str) -> IndexedFile | None:
    """Return the file of an indexed certificate: one with a trusted signature first, then the first by path."""
    for path, stamp, standing, *rest in _FILE_OF.rows(connection, {"certificate_id": certificate_id}):
        return IndexedFile(path, stamp, FileStanding(standing), *rest)
    return None


def examinations(connection: Connection, paths: Iterable[str]) -> list[Examination]:
    """Return the examinations of some files by listed certificates, newest first, each certificate with one envelope.

    Args:
        connection: The index.
        paths: Paths relative to the project.
    """
    shown = _file.c.standing.in_((FileStanding.TRUSTED, FileStanding.UNTRUSTED))
    columns = (
        *(_examined.c.path, _examined.c.sha256, _examined.c.ran_tests, _examined.c.is_about_change),
        *(table.c.agent, _file.c.path.label("envelope"), _file.c.key_id, _file.c.standing, table.c.id),
    )
    wanted = select(*columns).join(table, table.c.position == _examined.c.position)
    wanted = wanted.join(_file, _file.c.certificate_id == table.c.id).where(shown)
    # A certificate that has two envelopes is read from the trusted one.
    wanted = wanted.order_by(table.c.issued_at.desc(), table.c.id, _file.c.standing, _file.c.path)
    named, found, seen = list(paths), list[Examination](), set[tuple[str, str, str]]()
    for start in range(0, len(named), _AT_ONCE):
        for row in connection.execute(wanted.where(_examined.c.path.in_(named[start : start + _AT_ONCE]))):
            key = (row.id, row.path, row.sha256)
            if key not in seen:
                seen.add(key)
                found.append(Examination(*row[:7], is_trusted=row.standing == FileStanding.TRUSTED))
    return found


def envelopes_naming(connection: Connection, certificate_id: str) -> tuple[str, ...]:
    """Return the paths of the envelopes whose certificates supersede, revoke or else name a certificate.

    Those that a trusted key signed are first.
    """
    wanted = select(_file.c.path).join(table, table.c.id == _file.c.certificate_id)
    wanted = wanted.join(certificate_relation, certificate_relation.c.position == table.c.position)
    # Trusted ones first: others must not displace them, however many there are.
    order = (_file.c.standing != FileStanding.TRUSTED, _file.c.path)
    return tuple(connection.scalars(wanted.where(certificate_relation.c.other == certificate_id).order_by(*order)))


def verified_views(connection: Connection) -> frozenset[str]:
    """Return the digests of views that were found to match their statements; see `verify.RepositoryState`."""
    return frozenset(connection.scalars(select(_view.c.digest)))


def keep_views(connection: Connection, digests: Iterable[str]) -> None:
    """Store digests of views that match their statements, instead of all earlier ones if these are many."""
    known = verified_views(connection)
    if len(known) > _MOST_VIEWS:
        connection.execute(delete(_view))
        known = frozenset()
    if fresh := [{"digest": digest} for digest in digests if digest not in known]:
        connection.execute(insert(_view), fresh)


def keep_files(connection: Connection, files: Iterable[IndexedFile]) -> None:
    """Store files, each instead of the earlier one with its path."""
    for file in files:
        _DROP_FILE.rows(connection, {"named": file.path})
        _ADD_FILE.rows(connection, {name: str(getattr(file, name)) for name in IndexedFile.__slots__})


def drop_files(connection: Connection, paths: Iterable[str]) -> None:
    """Remove files that no longer exist."""
    dropped = list(paths)
    for start in range(0, len(dropped), _AT_ONCE):
        connection.execute(delete(_file).where(_file.c.path.in_(dropped[start : start + _AT_ONCE])))


def certificate_with(connection: Connection, sha256: str) -> str:
    """Return the ID of the indexed certificate with a digest; empty if there is none."""
    return str(_ID_WITH.scalar(connection, {"sha256": sha256}) or "")


def digest_of_certificate(connection: Connection, certificate_id: str) -> str:
    """Return the digest of an indexed certificate; empty if there is none."""
    return str(_DIGEST_OF.scalar(connection, {"id": certificate_id}) or "")


def add_certificate(transaction: Transaction, certificate: Certificate, data: bytes) -> None:
    """Index a certificate; `place_certificates` lists it."""
    connection = transaction.connection
    # The session is that of another machine; the foreign key needs its row.
    if _SESSION.scalar(connection, {"id": certificate.session}) is None:
        _ADD_SESSION.rows(connection, _session_row(certificate, transaction.at))
    insert_certificate(transaction, GONE, certificate, data, (f"{certificate.id}.md",))
    position = _POSITION_OF.scalar(connection, {"id": certificate.id})
    about = {
        "position": position,
        "ran_tests": int(any(evidence.tool == TESTS for evidence in certificate.evidence)),
        "is_about_change": int(certificate.task.change is not None),
    }
    read = {(file.path, file.sha256) for file in certificate.examined}
    if read:
        _ADD_EXAMINED.many(connection, [{**about, "path": path, "sha256": sha256} for path, sha256 in sorted(read)])


def remove_certificate(connection: Connection, certificate_id: str) -> None:
    """Remove a certificate, so that another one with its ID can be indexed."""
    row = connection.execute(select(table).where(table.c.id == certificate_id)).one()
    search_index.remove(connection, row.position, search_index.issued_in(row))
    connection.execute(delete(_examined).where(_examined.c.position == row.position))
    connection.execute(delete(table).where(table.c.position == row.position))


def place_certificates(connection: Connection, certificate_ids: Iterable[str]) -> None:
    """List certificates as the standing of their files says: trusted, untrusted, or not at all."""
    for certificate_id in certificate_ids:
        file = file_of(connection, certificate_id)
        part = GONE if file is None else file.standing
        _PLACE.rows(connection, {"named": certificate_id, "part": str(part)})


def digests_of_local(connection: Connection, certificate_ids: Iterable[str]) -> Mapping[str, str]:
    """Return the digests of those certificates that a local archive contains, by ID."""
    wanted, found = list(certificate_ids), dict[str, str]()
    for start in range(0, len(wanted), _AT_ONCE):
        some = select(table.c.id, table.c.sha256).where(table.c.id.in_(wanted[start : start + _AT_ONCE]))
        found |= {str(each.id): str(each.sha256) for each in connection.execute(some)}
    return found


def _session_row(certificate: Certificate, at: str) -> dict[str, object]:
    return {
        "id": certificate.session,
        "project_key": GONE,
        "request": "",
        "created_at": at,
        "state": "done",
        "agent": certificate.agent,
        "certificate_id": certificate.id,
        "changed_at": at,
        "owner": "",
        "fence": 0,
        "expires_ms": 0,
        "attempts": 0,
        "cancel_requested": 0,
        "queued": 0,
        "origin_id": "",
        "origin_kind": str(OriginKind.SUBMITTED),
    }


def _adding(rows_of: Table) -> Prepared:
    return Prepared(lambda: insert(rows_of).values({each.name: bindparam(each.name) for each in rows_of.c}))


# Bringing the index up to date executes these for each of many thousand files.
_FILE_OF = Prepared(
    lambda: (
        select(_file)
        .where(
            _file.c.certificate_id == bindparam("certificate_id"),
            _file.c.standing.in_(
                [literal_column(f"'{each}'") for each in (FileStanding.TRUSTED, FileStanding.UNTRUSTED)]
            ),
        )
        .order_by(_file.c.standing, _file.c.path)
        .limit(literal_column("1"))
    )
)
_DROP_FILE = Prepared(lambda: delete(_file).where(_file.c.path == bindparam("named")))
_ADD_FILE = _adding(_file)
_ID_WITH = Prepared(lambda: select(table.c.id).where(table.c.sha256 == bindparam("sha256")))
_DIGEST_OF = Prepared(lambda: select(table.c.sha256).where(table.c.id == bindparam("id")))
_POSITION_OF = Prepared(lambda: select(table.c.position).where(table.c.id == bindparam("id")))
_SESSION = Prepared(lambda: select(session.c.id).where(session.c.id == bindparam("id")))
_ADD_SESSION = _adding(session)
_ADD_EXAMINED = _adding(_examined)
_PLACE = Prepared(lambda: update(table).where(table.c.id == bindparam("named")).values(project_key=bindparam("part")))
