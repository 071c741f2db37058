"""Transparency log in SQL: append and checkpoint in the caller's transaction, and read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import String, delete, func, insert, select, text, type_coerce, update

from esper_agents.certificates.log import merkle
from esper_agents.certificates.log.merkle import SubtreeIndex
from esper_agents.certificates.log.note import Checkpoint, read_checkpoint, read_note, signed_checkpoint, write_proof
from esper_agents.certificates.signing.dsse import PAYLOAD_TYPE, Envelope, envelope_bytes, seal
from esper_agents.domain.notice import EntryKind
from esper_agents.errors import IntegrityError, NotFoundError
from esper_agents.storage.tables import certificate, log, log_checkpoint, log_entry, log_node, project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, RowMapping, Select

    from esper_agents.certificates.signing.signing_key import SigningKey
    from esper_agents.storage.store import Transaction

# The log that every project of a database shared in 0.1.0. Projects that have entries in it go on in it.
SHARED = 1
REPAIR = "esper certificates repair"
RESTORE = f"restore a backup, or run `{REPAIR} --accept-rollback` to go on from what is there"


# Any number that only we use; PostgreSQL's advisory locks are named by numbers.
_BEGINNING = 0x65737066


@dataclass(frozen=True, slots=True)
class NamedLog:
    """One log of a database.

    Attributes:
        id: Its number in the database.
        origin: Its name, which checkpoints and proofs carry.
    """

    id: int
    origin: str


@dataclass(frozen=True, slots=True)
class Record:
    """What is to be signed and entered.

    Attributes:
        id: Its identifier, `crt_` or `ntc_`.
        kind: What it is.
        about: The certificate that it is about: its own identifier for a certificate; empty where it is about none.
        statement: Its bytes.
    """

    id: str
    kind: EntryKind
    about: str
    statement: bytes


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What became of a record.

    Attributes:
        idx: Its place in the log, from 0.
        size: How many entries the log has with it.
        root: The root of the tree over them.
        checkpoint_note: The signed checkpoint of that.
    """

    idx: int
    size: int
    root: bytes
    checkpoint_note: str


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry.

    Attributes:
        idx: Its place in the log, from 0.
        record_id: The record's identifier.
        kind: What it is.
        project_key: The project that it belongs to.
        about: The certificate that it is about, or empty.
        at: When it was entered, by the database's clock.
        key_id: Fingerprint of the key that signed it.
        signature: The envelope's signature.
        leaf_hash: The hash of the envelope.
        statement: The record's bytes; empty where a certificate is missing from the archive.
    """

    idx: int
    record_id: str
    kind: EntryKind
    project_key: str
    about: str
    at: str
    key_id: str
    signature: bytes
    leaf_hash: bytes
    statement: bytes


def append(transaction: Transaction, key: SigningKey, project_key: str, record: Record) -> AppendResult:
    """Sign a record and enter it at the end of its project's log, with a new checkpoint, in the caller's transaction.

    The first one begins the log. The newest checkpoint takes the place of the one before: a signed one
    for fewer entries would let somebody without the key cut the log off there.

    Raises:
        IntegrityError: The newest checkpoint is not of the entries that are there.
    """
    return append_envelope(transaction, key, project_key, record, seal(key, record.statement))


def append_envelope(
    transaction: Transaction, key: SigningKey, project_key: str, record: Record, envelope: Envelope
) -> AppendResult:
    """Enter a record that is signed already, with a new checkpoint that `key` signs; see `append`."""
    connection = transaction.connection
    opened = locked(transaction, project_key)
    size = _size_to_extend(connection, opened)
    read = reader(connection, opened.id)
    leaf = merkle.leaf_hash(envelope_bytes(envelope))
    filled = merkle.appended(size, leaf, read)
    connection.execute(
        insert(log_entry).values(
            log_id=opened.id,
            idx=size,
            record_id=record.id,
            kind=record.kind,
            project_key=project_key,
            about=record.about,
            at=transaction.at,
            key_id=envelope.key_id,
            signature=envelope.signature,
            leaf_hash=leaf,
            statement=b"" if record.kind is EntryKind.CERTIFICATE else record.statement,
        )
    )
    connection.execute(insert(log_node), [_node(opened.id, place, value) for place, value in filled.items()])
    root = merkle.root(size + 1, read)
    note = check_in(transaction, key, opened.id, Checkpoint(opened.origin, size + 1, root))
    return AppendResult(size, size + 1, root, note)


def log_of(connection: Connection, project_key: str) -> int:
    """Return the number of a project's log; 0 where nothing of the project was ever entered."""
    return int(connection.scalar(select(project.c.log_id).where(project.c.key == project_key)) or 0)


def logs(connection: Connection) -> dict[int, str]:
    """Return every log of the database by its number, each with the key of a project that it belongs to."""
    found = select(project.c.log_id, func.min(project.c.key)).where(project.c.log_id != 0).group_by(project.c.log_id)
    return {int(number): str(key) for number, key in connection.execute(found.order_by(project.c.log_id))}


def origin(connection: Connection, log_id: int) -> str:
    """Return a log's name; empty where there is no such log."""
    return str(connection.scalar(select(log.c.origin).where(log.c.id == log_id)) or "")


def size(connection: Connection, log_id: int) -> int:
    """Return how many entries a log has, by the place of its last one."""
    places = select(log_entry.c.idx).where(log_entry.c.log_id == log_id)
    last = connection.scalar(places.order_by(log_entry.c.idx.desc()).limit(1))
    return 0 if last is None else int(last) + 1


def latest_checkpoint(connection: Connection, log_id: int) -> str:
    """Return the newest signed checkpoint of a log; empty where there is none."""
    stored = select(log_checkpoint.c.note).where(log_checkpoint.c.log_id == log_id)
    return str(connection.scalar(stored.order_by(log_checkpoint.c.size.desc()).limit(1)) or "")


def entry(connection: Connection, log_id: int, record_id: str) -> LogEntry:
    """Return the entry of a record in a log.

    Raises:
        NotFoundError: The log has none.
    """
    wanted = _ENTRIES.where(log_entry.c.record_id == record_id, log_entry.c.log_id == log_id)
    found = connection.execute(wanted).mappings().one_or_none()
    if found is None:
        raise NotFoundError("entry of the log", record_id, (), listing="esper certificates list")
    return _entry(found)


def envelope(connection: Connection, log_id: int, record_id: str) -> Envelope:
    """Return a record with its signature, as it was entered in a log.

    Raises:
        NotFoundError: The log has no such record.
        IntegrityError: Its statement or signature is not what was entered.
    """
    found = entry(connection, log_id, record_id)
    if not is_as_entered(found):
        raise IntegrityError(f"{record_id} in the archive is not what was entered in the log", remedy=RESTORE)
    return _sealed(found)


def is_as_entered(found: LogEntry) -> bool:
    """Return whether an entry's statement and signature give its leaf."""
    return merkle.leaf_hash(envelope_bytes(_sealed(found))) == found.leaf_hash


def proof(connection: Connection, log_id: int, record_id: str) -> str:
    """Return what shows that a record is in a log, under its newest checkpoint, as the text of a `.tlog-proof`.

    Raises:
        NotFoundError: The log has no such record.
        IntegrityError: The newest checkpoint is not of the log, or does not cover the record.
    """
    is_it = (log_entry.c.record_id == record_id) & (log_entry.c.log_id == log_id)
    idx = connection.scalar(select(log_entry.c.idx).where(is_it))
    if idx is None:
        raise NotFoundError("entry of the log", record_id, (), listing="esper certificates list")
    note = latest_checkpoint(connection, log_id)
    head = read_checkpoint(read_note(note))
    if idx >= head.size:
        raise IntegrityError(f"the newest checkpoint of the log does not cover {record_id}", remedy=f"run `{REPAIR}`")
    return write_proof(idx, merkle.inclusion(idx, head.size, reader(connection, log_id)), note)


def notices(connection: Connection, log_id: int) -> Iterator[LogEntry]:
    """Yield every notice of a log, oldest first."""
    wanted = _ENTRIES.where(log_entry.c.log_id == log_id, log_entry.c.kind == EntryKind.NOTICE)
    return map(_entry, connection.execute(wanted.order_by(log_entry.c.idx)).mappings())


def notices_about(connection: Connection, log_id: int, *certificate_ids: str) -> Iterator[LogEntry]:
    """Yield every notice of a log about some certificates, oldest first."""
    is_about = log_entry.c.about.in_(certificate_ids) & (log_entry.c.kind == EntryKind.NOTICE)
    wanted = _ENTRIES.where(is_about, log_entry.c.log_id == log_id).order_by(log_entry.c.idx)
    return map(_entry, connection.execute(wanted).mappings())


def notices_about_none(connection: Connection) -> Iterator[LogEntry]:
    """Yield every notice of any log that is about no certificate, such as those on keys; each record once."""
    is_about_none = (log_entry.c.about == "") & (log_entry.c.kind == EntryKind.NOTICE)
    wanted = _ENTRIES.where(is_about_none).order_by(log_entry.c.log_id, log_entry.c.idx)
    seen: set[str] = set()
    for found in map(_entry, connection.execute(wanted).mappings()):
        if found.record_id not in seen:
            seen.add(found.record_id)
            yield found


def reader(connection: Connection, log_id: int) -> merkle.Reader:
    """Return what reads complete subtrees of a log.

    It raises an IntegrityError where one is missing.
    """

    def read(places: Sequence[SubtreeIndex]) -> list[bytes]:
        if not places:
            return []
        # Integers of ours written into it: as alternatives or a list it takes ten times as long, or scans the table.
        wanted = ",".join(f"({int(each.level)},{int(each.idx)})" for each in places)
        rows = connection.exec_driver_sql(
            f"WITH wanted(level, idx) AS (VALUES {wanted}) {_NODES} AND log_node.log_id = {int(log_id)}"
        )
        found = {SubtreeIndex(level, idx): bytes(value) for level, idx, value in rows}
        for each in places:
            if each not in found:
                raise IntegrityError(f"the log has no node {each.idx} on level {each.level}", remedy=f"run `{REPAIR}`")
        return [found[each] for each in places]

    return read


def check_in(transaction: Transaction, key: SigningKey, log_id: int, head: Checkpoint) -> str:
    """Sign the head of a log and put it in the place of every checkpoint before; return the note."""
    note, connection = signed_checkpoint(head, key), transaction.connection
    connection.execute(delete(log_checkpoint).where(log_checkpoint.c.log_id == log_id))
    connection.execute(insert(log_checkpoint).values(log_id=log_id, size=head.size, note=note, at=transaction.at))
    return note


def locked(transaction: Transaction, project_key: str) -> NamedLog:
    """Return a project's log, begun if there is none; no other transaction appends to it until this one ends.

    Each log has a lock of its own, and a transaction takes no second one: projects do not wait for one another. On
    SQLite there is one writer anyhow.

    Raises:
        IntegrityError: The project names no log, and has entries in one.
    """
    return _locked(transaction.connection, project_key) or _begin(transaction, project_key)


def hold_beginnings(transaction: Transaction) -> None:
    """Let no other transaction begin a log until this one ends; take it before the lock of any log."""
    if transaction.connection.dialect.name == "postgresql":
        transaction.connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _BEGINNING})


def _locked(connection: Connection, project_key: str) -> NamedLog | None:
    wanted = select(log.c.id, log.c.origin).join(project, project.c.log_id == log.c.id)
    wanted = wanted.where(project.c.key == project_key)
    if connection.dialect.name == "postgresql":
        wanted = wanted.with_for_update(of=log)
    found = connection.execute(wanted).one_or_none()
    return None if found is None else NamedLog(int(found.id), str(found.origin))


def _begin(transaction: Transaction, project_key: str) -> NamedLog:
    connection = transaction.connection
    hold_beginnings(transaction)
    # Two first ones at once: the second waited for the first, and finds its log.
    if found := _locked(connection, project_key):
        return found
    log_id = log_of(connection, project_key)
    if not log_id:
        if (
            connection.scalar(select(log_entry.c.idx).where(log_entry.c.project_key == project_key).limit(1))
            is not None
        ):
            problem = "the database has entries of this project in a log, and does not name that log"
            raise IntegrityError(problem, remedy="restore a backup")
        newest = connection.scalar(select(func.max(log.c.id))), connection.scalar(select(func.max(project.c.log_id)))
        log_id = max(SHARED, *(each or 0 for each in newest)) + 1
    # A name that nobody else gives, and that needs no domain.
    begun = NamedLog(log_id, f"urn:uuid:{uuid4()}")
    connection.execute(insert(log).values(id=begun.id, origin=begun.origin, created_at=transaction.at))
    connection.execute(update(project).where(project.c.key == project_key).values(log_id=begun.id))
    return begun


def _size_to_extend(connection: Connection, opened: NamedLog) -> int:
    entries = size(connection, opened.id)
    note = latest_checkpoint(connection, opened.id)
    if not note and not entries:
        return 0
    head = read_checkpoint(read_note(note)) if note else None
    if head is None or (head.origin, head.size) != (opened.origin, entries):
        said = f"its newest checkpoint is of {head.size} in {head.origin!r}" if head else "it has no checkpoint"
        raise IntegrityError(f"the log has {entries} entries, and {said}", remedy=RESTORE)
    return entries


def _node(log_id: int, place: SubtreeIndex, value: bytes) -> dict[str, Any]:
    return {"log_id": log_id, "level": place.level, "idx": place.idx, "hash": value}


def _sealed(found: LogEntry) -> Envelope:
    return Envelope(PAYLOAD_TYPE, found.statement, found.key_id, found.signature)


def _entry(found: RowMapping) -> LogEntry:
    # Columns of SQLite hold whatever somebody wrote into them, text as well.
    if not all(isinstance(found[name], bytes) for name in ("signature", "leaf_hash", "statement")):
        raise IntegrityError(f"entry {found['idx']} of the log is not what was entered", remedy=RESTORE)
    try:
        return LogEntry(**{**found, "kind": EntryKind(found["kind"])})
    except ValueError as error:
        raise IntegrityError(f"entry {found['idx']} of the log is of no kind that there is", remedy=RESTORE) from error


_NODES = (
    "SELECT log_node.level, log_node.idx, log_node.hash FROM wanted CROSS JOIN log_node"
    " WHERE log_node.level = wanted.level AND log_node.idx = wanted.idx"
)
_ENTRIES: Select[Any] = select(
    log_entry.c.idx,
    log_entry.c.record_id,
    type_coerce(log_entry.c.kind, String).label("kind"),
    log_entry.c.project_key,
    log_entry.c.about,
    log_entry.c.at,
    log_entry.c.key_id,
    log_entry.c.signature,
    log_entry.c.leaf_hash,
    func.coalesce(certificate.c.statement, log_entry.c.statement).label("statement"),
).select_from(log_entry.outerjoin(certificate, certificate.c.id == log_entry.c.record_id))
