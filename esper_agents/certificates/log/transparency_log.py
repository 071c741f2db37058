"""Transparency log in SQL: append and checkpoint in the caller's transaction, and read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import String, bindparam, delete, func, insert, select, text, type_coerce, update

from esper_agents.certificates.log import merkle
from esper_agents.certificates.log.merkle import SubtreeIndex
from esper_agents.certificates.log.note import Checkpoint, read_checkpoint, read_note, signed_checkpoint, write_proof
from esper_agents.certificates.signing.dsse import PAYLOAD_TYPE, Envelope, envelope_bytes, seal
from esper_agents.domain.notice import EntryKind
from esper_agents.errors import IntegrityError, NotFoundError
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.tables import certificate, log, log_checkpoint, log_entry, log_node, project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, RowMapping, Select, Table

    from esper_agents.certificates.signing.signing_key import SigningKey
    from esper_agents.storage.store import Transaction

# The log that every project of a database shared in 0.1.0. Projects with entries in it keep using it.
SHARED = 1
REPAIR = "esper certificates repair"
RESTORE = f"restore a backup, or run `{REPAIR} --accept-rollback` to continue from the existing entries"


# Arbitrary number unique to this program; PostgreSQL identifies advisory locks by number.
_BEGINNING = 0x65737066


@dataclass(frozen=True, slots=True)
class NamedLog:
    """Log of a database.

    Attributes:
        id: Number of the log in the database.
        origin: Name of the log in checkpoints and proofs.
    """

    id: int
    origin: str


@dataclass(frozen=True, slots=True)
class Record:
    """Record to be signed and logged.

    Attributes:
        id: Identifier, `crt_...` or `ntc_...`.
        kind: Kind of the record.
        about: Certificate concerned: the record's own ID for a certificate; empty if it concerns none.
        statement: Bytes of the statement.
    """

    id: str
    kind: EntryKind
    about: str
    statement: bytes


@dataclass(frozen=True, slots=True)
class AppendResult:
    """Result of an append.

    Attributes:
        idx: Index of the new entry, from 0.
        size: Number of entries including it.
        root: Root hash of the tree over them.
        checkpoint_note: Signed checkpoint of that tree.
    """

    idx: int
    size: int
    root: bytes
    checkpoint_note: str


@dataclass(frozen=True, slots=True)
class LogEntry:
    """Entry of the transparency log.

    Attributes:
        idx: Index in the log, from 0.
        record_id: Identifier of the record.
        kind: Kind of the record.
        project_key: Project that it belongs to.
        about: Certificate that it concerns, or empty.
        at: Time of the append, by the database's clock.
        key_id: Fingerprint of the signing key.
        signature: Signature of the envelope.
        leaf_hash: Hash of the envelope.
        statement: Bytes of the statement; empty if a certificate is missing from the archive.
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
    """Sign a record and append it to its project's log, with a new checkpoint, in the caller's transaction.

    The first record starts the log. The new checkpoint replaces the previous one: a signed checkpoint for fewer
    entries would let an attacker without the key truncate the log there.

    Raises:
        IntegrityError: The newest checkpoint does not match the stored entries.
    """
    return append_envelope(transaction, key, project_key, record, seal(key, record.statement))


def append_envelope(
    transaction: Transaction, key: SigningKey, project_key: str, record: Record, envelope: Envelope
) -> AppendResult:
    """Append an already signed record, with a new checkpoint that `key` signs; see `append`."""
    connection = transaction.connection
    opened = locked(transaction, project_key)
    size = _size_to_extend(connection, opened)
    read = reader(connection, opened.id)
    leaf = merkle.leaf_hash(envelope_bytes(envelope))
    filled = merkle.appended(size, leaf, read)
    added = {
        "log_id": opened.id,
        "idx": size,
        "record_id": record.id,
        "kind": str(record.kind),
        "project_key": project_key,
        "about": record.about,
        "at": transaction.at,
        "key_id": envelope.key_id,
        "signature": envelope.signature,
        "leaf_hash": leaf,
        "statement": b"" if record.kind is EntryKind.CERTIFICATE else record.statement,
    }
    _ADD_ENTRY.rows(connection, added)
    for place, value in filled.items():
        _ADD_NODE.rows(connection, {"log_id": opened.id, "level": place.level, "idx": place.idx, "hash": value})
    root = merkle.root(size + 1, read)
    note = check_in(transaction, key, opened.id, Checkpoint(opened.origin, size + 1, root))
    return AppendResult(size, size + 1, root, note)


def log_of(connection: Connection, project_key: str) -> int:
    """Return the number of a project's log; 0 if the project has no entries."""
    return int(_LOG_OF.scalar(connection, {"project": project_key}) or 0)


def logs(connection: Connection) -> dict[int, str]:
    """Return every log of the database by its number, each with the key of a project that uses it."""
    found = select(project.c.log_id, func.min(project.c.key)).where(project.c.log_id != 0).group_by(project.c.log_id)
    return {int(number): str(key) for number, key in connection.execute(found.order_by(project.c.log_id))}


def origin(connection: Connection, log_id: int) -> str:
    """Return the name of a log; empty if there is no such log."""
    return str(_ORIGIN.scalar(connection, {"log": log_id}) or "")


def size(connection: Connection, log_id: int) -> int:
    """Return the number of entries of a log, from the index of the last one."""
    last = _LAST.scalar(connection, {"log": log_id})
    return 0 if last is None else int(last) + 1


def latest_checkpoint(connection: Connection, log_id: int) -> str:
    """Return the newest signed checkpoint of a log; empty if there is none."""
    return str(_CHECKPOINT.scalar(connection, {"log": log_id}) or "")


def entry(connection: Connection, log_id: int, record_id: str) -> LogEntry:
    """Return the log entry of a record.

    Raises:
        NotFoundError: The log has no entry for it.
    """
    wanted = _ENTRIES.where(log_entry.c.record_id == record_id, log_entry.c.log_id == log_id)
    found = connection.execute(wanted).mappings().one_or_none()
    if found is None:
        raise NotFoundError("entry of the log", record_id, (), listing="esper certificates list")
    return _entry(found)


def envelope(connection: Connection, log_id: int, record_id: str) -> Envelope:
    """Return the envelope of a record, as it was logged.

    Raises:
        NotFoundError: The log has no such record.
        IntegrityError: The statement or signature differs from the logged one.
    """
    found = entry(connection, log_id, record_id)
    if not is_as_entered(found):
        raise IntegrityError(f"archived record {record_id} does not match its log entry", remedy=RESTORE)
    return _sealed(found)


def is_as_entered(found: LogEntry) -> bool:
    """Return whether an entry's statement and signature match its leaf hash."""
    return merkle.leaf_hash(envelope_bytes(_sealed(found))) == found.leaf_hash


def proof(connection: Connection, log_id: int, record_id: str) -> str:
    """Return the inclusion proof of a record under the newest checkpoint, as the text of a `.tlog-proof`.

    Raises:
        NotFoundError: The log has no such record.
        IntegrityError: The newest checkpoint does not match the log, or does not cover the record.
    """
    idx = _PLACE.scalar(connection, {"record": record_id, "log": log_id})
    if idx is None:
        raise NotFoundError("entry of the log", record_id, (), listing="esper certificates list")
    note = latest_checkpoint(connection, log_id)
    head = read_checkpoint(read_note(note))
    if idx >= head.size:
        raise IntegrityError(f"the newest checkpoint of the log does not cover {record_id}", remedy=f"run `{REPAIR}`")
    return write_proof(idx, merkle.inclusion(idx, head.size, reader(connection, log_id)), note)


def has_entry_by(connection: Connection, log_id: int, key_id: str) -> bool:
    """Return whether a key signed an entry of a log."""
    wanted = select(log_entry.c.idx).where(log_entry.c.log_id == log_id, log_entry.c.key_id == key_id).limit(1)
    return connection.scalar(wanted) is not None


def signers(connection: Connection, log_id: int) -> dict[str, int]:
    """Return the number of entries of a log by the fingerprint of the key that signed them."""
    wanted = select(log_entry.c.key_id, func.count()).where(log_entry.c.log_id == log_id)
    found = connection.execute(wanted.group_by(log_entry.c.key_id).order_by(log_entry.c.key_id))
    return {str(key_id): int(count) for key_id, count in found}


def notices(connection: Connection, log_id: int) -> Iterator[LogEntry]:
    """Yield every notice of a log, oldest first."""
    wanted = _ENTRIES.where(log_entry.c.log_id == log_id, log_entry.c.kind == EntryKind.NOTICE)
    return map(_entry, connection.execute(wanted.order_by(log_entry.c.idx)).mappings())


def notices_about(connection: Connection, log_id: int, *certificate_ids: str) -> Iterator[LogEntry]:
    """Yield every notice of a log about the given certificates, oldest first."""
    is_about = log_entry.c.about.in_(certificate_ids) & (log_entry.c.kind == EntryKind.NOTICE)
    wanted = _ENTRIES.where(is_about, log_entry.c.log_id == log_id).order_by(log_entry.c.idx)
    return map(_entry, connection.execute(wanted).mappings())


def notices_about_none(connection: Connection) -> Iterator[LogEntry]:
    """Yield every notice of any log that concerns no certificate, such as key notices; each record once."""
    is_about_none = (log_entry.c.about == "") & (log_entry.c.kind == EntryKind.NOTICE)
    wanted = _ENTRIES.where(is_about_none).order_by(log_entry.c.log_id, log_entry.c.idx)
    seen: set[str] = set()
    for found in map(_entry, connection.execute(wanted).mappings()):
        if found.record_id not in seen:
            seen.add(found.record_id)
            yield found


def reader(connection: Connection, log_id: int) -> merkle.Reader:
    """Return a reader of the complete subtrees of a log.

    The reader raises an IntegrityError if one is missing.
    """

    def read(places: Sequence[SubtreeIndex]) -> list[bytes]:
        if not places:
            return []
        # The indexes are inlined integers: as alternatives or a bound list, the query takes ten times as long or scans.
        wanted = ",".join(f"({int(place.level)},{int(place.idx)})" for place in places)
        rows = connection.exec_driver_sql(
            f"WITH wanted(level, idx) AS (VALUES {wanted}) {_NODES} AND log_node.log_id = {int(log_id)}"
        )
        found = {SubtreeIndex(level, idx): bytes(value) for level, idx, value in rows}
        for place in places:
            if place not in found:
                raise IntegrityError(
                    f"the log has no node {place.idx} on level {place.level}", remedy=f"run `{REPAIR}`"
                )
        return [found[place] for place in places]

    return read


def check_in(transaction: Transaction, key: SigningKey, log_id: int, head: Checkpoint) -> str:
    """Sign the head of a log and replace all earlier checkpoints; return the note."""
    note, connection = signed_checkpoint(head, key), transaction.connection
    _DROP_CHECKPOINTS.rows(connection, {"log": log_id})
    _ADD_CHECKPOINT.rows(connection, {"log_id": log_id, "size": head.size, "note": note, "at": transaction.at})
    return note


def locked(transaction: Transaction, project_key: str) -> NamedLog:
    """Return a project's log, created if missing, and lock it for appends until the transaction ends.

    Each log has its own lock, and a transaction takes only one: projects do not wait for each other. On SQLite
    there is a single writer anyway.

    Raises:
        IntegrityError: The project names no log, but has entries in one.
    """
    return _locked(transaction.connection, project_key) or _begin(transaction, project_key)


def hold_beginnings(transaction: Transaction) -> None:
    """Block the creation of logs by other transactions until this one ends; call before locking any log."""
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
    # If two transactions create the log at once, the second waits for the first and finds its log.
    if found := _locked(connection, project_key):
        return found
    log_id = log_of(connection, project_key)
    if not log_id:
        if (
            connection.scalar(select(log_entry.c.idx).where(log_entry.c.project_key == project_key).limit(1))
            is not None
        ):
            problem = "the project has log entries, but the database does not name its log"
            raise IntegrityError(problem, remedy="restore a backup")
        newest = connection.scalar(select(func.max(log.c.id))), connection.scalar(select(func.max(project.c.log_id)))
        log_id = max(SHARED, *(each or 0 for each in newest)) + 1
    # A unique name that does not need a domain.
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
        said = f"its newest checkpoint covers {head.size} in {head.origin!r}" if head else "it has no checkpoint"
        raise IntegrityError(f"the log has {entries} entries, but {said}", remedy=RESTORE)
    return entries


def _sealed(found: LogEntry) -> Envelope:
    return Envelope(PAYLOAD_TYPE, found.statement, found.key_id, found.signature)


def _entry(found: RowMapping) -> LogEntry:
    # SQLite does not enforce column types: a column may contain text.
    if not all(isinstance(found[name], bytes) for name in ("signature", "leaf_hash", "statement")):
        raise IntegrityError(f"log entry {found['idx']} was changed", remedy=RESTORE)
    try:
        return LogEntry(**{**found, "kind": EntryKind(found["kind"])})
    except ValueError as error:
        raise IntegrityError(f"log entry {found['idx']} has an unknown kind", remedy=RESTORE) from error


def _insertion(table: Table) -> Prepared:
    return Prepared(insert(table).values({each.name: bindparam(each.name) for each in table.c}))


# Every certificate executes these.
_ADD_ENTRY, _ADD_NODE, _ADD_CHECKPOINT = _insertion(log_entry), _insertion(log_node), _insertion(log_checkpoint)
_DROP_CHECKPOINTS = Prepared(delete(log_checkpoint).where(log_checkpoint.c.log_id == bindparam("log")))
_LOG_OF = Prepared(select(project.c.log_id).where(project.c.key == bindparam("project")))
_ORIGIN = Prepared(select(log.c.origin).where(log.c.id == bindparam("log")))
_LAST = Prepared(
    select(log_entry.c.idx).where(log_entry.c.log_id == bindparam("log")).order_by(log_entry.c.idx.desc()).limit(1)
)
_CHECKPOINT = Prepared(
    select(log_checkpoint.c.note)
    .where(log_checkpoint.c.log_id == bindparam("log"))
    .order_by(log_checkpoint.c.size.desc())
    .limit(1)
)
_PLACE = Prepared(
    select(log_entry.c.idx).where(log_entry.c.record_id == bindparam("record"), log_entry.c.log_id == bindparam("log"))
)
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
