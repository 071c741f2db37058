"""Transparency log in SQL: append and checkpoint in the caller's transaction, and read."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from esper_agents.certificates.log import merkle
from esper_agents.certificates.log.merkle import SubtreeIndex
from esper_agents.certificates.log.note import Checkpoint, read_checkpoint, read_note, signed_checkpoint, write_proof
from esper_agents.certificates.signing.dsse import PAYLOAD_TYPE, Envelope, envelope_bytes, seal
from esper_agents.domain.notice import EntryKind
from esper_agents.errors import IntegrityError, NotFoundError
from esper_agents.storage.compiled_statements import Prepared, among

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

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
    return {int(number): str(key) for number, key in _LOGS.rows(connection, {})}


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
    found = _OF_RECORD.rows(connection, {"record": record_id, "log": log_id})
    if not found:
        raise NotFoundError("entry of the log", record_id, (), listing="esper certificates list")
    return _entry(found[0])


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
    return bool(_BY_KEY.rows(connection, {"log": log_id, "key": key_id}))


def signers(connection: Connection, log_id: int) -> dict[str, int]:
    """Return the number of entries of a log by the fingerprint of the key that signed them."""
    return {str(key_id): int(count) for key_id, count in _SIGNERS.rows(connection, {"log": log_id})}


def notices(connection: Connection, log_id: int) -> Iterator[LogEntry]:
    """Yield every notice of a log, oldest first."""
    return map(_entry, _NOTICES.rows(connection, {"log": log_id}))


def notices_about(connection: Connection, log_id: int, *certificate_ids: str) -> Iterator[LogEntry]:
    """Yield every notice of a log about the given certificates, oldest first."""
    given = {"log": log_id, "certificates": json.dumps(certificate_ids)}
    return map(_entry, _NOTICES_ABOUT[connection.dialect.name].rows(connection, given))


def notices_about_none(connection: Connection) -> Iterator[LogEntry]:
    """Yield every notice of any log that concerns no certificate, such as key notices; each record once."""
    seen: set[str] = set()
    for found in map(_entry, _NOTICES_ABOUT_NONE.rows(connection, {})):
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
        asked = Prepared(f"WITH wanted(level, idx) AS (VALUES {wanted}) {_NODES} AND log_node.log_id = :log")
        found = {
            SubtreeIndex(level, idx): bytes(value) for level, idx, value in asked.rows(connection, {"log": log_id})
        }
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
        _HOLD_BEGINNINGS.rows(transaction.connection, {})


def _locked(connection: Connection, project_key: str) -> NamedLog | None:
    found = _LOCKED[connection.dialect.name].rows(connection, {"project": project_key})
    return NamedLog(int(found[0][0]), str(found[0][1])) if found else None


def _begin(transaction: Transaction, project_key: str) -> NamedLog:
    connection = transaction.connection
    hold_beginnings(transaction)
    # If two transactions create the log at once, the second waits for the first and finds its log.
    if found := _locked(connection, project_key):
        return found
    log_id = log_of(connection, project_key)
    if not log_id:
        if _OF_PROJECT.rows(connection, {"project": project_key}):
            problem = "the project has log entries, but the database does not name its log"
            raise IntegrityError(problem, remedy="restore a backup")
        ((newest, newest_used),) = _NEWEST_LOGS.rows(connection, {})
        log_id = max(SHARED, newest or 0, newest_used or 0) + 1
    # A unique name that does not need a domain.
    begun = NamedLog(log_id, f"urn:uuid:{uuid4()}")
    _ADD_LOG.rows(connection, {"id": begun.id, "origin": begun.origin, "created_at": transaction.at})
    _USE_LOG.rows(connection, {"project": project_key, "log": begun.id})
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


def _entry(found: Sequence[Any]) -> LogEntry:
    idx, record_id, kind, *others = found
    entry = LogEntry(idx, record_id, kind, *others)
    # SQLite does not enforce column types: a column may contain text.
    if not all(isinstance(each, bytes) for each in (entry.signature, entry.leaf_hash, entry.statement)):
        raise IntegrityError(f"log entry {idx} was changed", remedy=RESTORE)
    try:
        return replace(entry, kind=EntryKind(kind))
    except ValueError as error:
        raise IntegrityError(f"log entry {idx} has an unknown kind", remedy=RESTORE) from error


# Every certificate executes these.
_ADD_ENTRY = Prepared(
    "INSERT INTO log_entry (log_id, idx, record_id, kind, project_key, about, at, key_id, signature, leaf_hash,"
    " statement) VALUES (:log_id, :idx, :record_id, :kind, :project_key, :about, :at, :key_id, :signature, :leaf_hash,"
    " :statement)"
)
_ADD_NODE = Prepared("INSERT INTO log_node (log_id, level, idx, hash) VALUES (:log_id, :level, :idx, :hash)")
_ADD_CHECKPOINT = Prepared("INSERT INTO log_checkpoint (log_id, size, note, at) VALUES (:log_id, :size, :note, :at)")
_DROP_CHECKPOINTS = Prepared("DELETE FROM log_checkpoint WHERE log_id = :log")
_LOG_OF = Prepared("SELECT log_id FROM project WHERE key = :project")
_LOGS = Prepared("SELECT log_id, min(key) FROM project WHERE log_id <> 0 GROUP BY log_id ORDER BY log_id")
_ORIGIN = Prepared("SELECT origin FROM log WHERE id = :log")
_LAST = Prepared("SELECT idx FROM log_entry WHERE log_id = :log ORDER BY idx DESC LIMIT 1")
_CHECKPOINT = Prepared("SELECT note FROM log_checkpoint WHERE log_id = :log ORDER BY size DESC LIMIT 1")
_PLACE = Prepared("SELECT idx FROM log_entry WHERE record_id = :record AND log_id = :log")
_BY_KEY = Prepared("SELECT 1 FROM log_entry WHERE log_id = :log AND key_id = :key LIMIT 1")
_SIGNERS = Prepared("SELECT key_id, count(*) FROM log_entry WHERE log_id = :log GROUP BY key_id ORDER BY key_id")
_NODES = (
    "SELECT log_node.level, log_node.idx, log_node.hash FROM wanted CROSS JOIN log_node"
    " WHERE log_node.level = wanted.level AND log_node.idx = wanted.idx"
)
_ENTRIES = (
    "SELECT log_entry.idx, log_entry.record_id, log_entry.kind, log_entry.project_key, log_entry.about, log_entry.at,"
    " log_entry.key_id, log_entry.signature, log_entry.leaf_hash, coalesce(certificate.statement, log_entry.statement)"
    " FROM log_entry LEFT OUTER JOIN certificate ON certificate.id = log_entry.record_id WHERE "
)
_OF_RECORD = Prepared(f"{_ENTRIES}log_entry.record_id = :record AND log_entry.log_id = :log")
_IS_NOTICE = f"log_entry.kind = '{EntryKind.NOTICE}'"
_NOTICES = Prepared(f"{_ENTRIES}log_entry.log_id = :log AND {_IS_NOTICE} ORDER BY log_entry.idx")
_NOTICES_ABOUT = {
    dialect: Prepared(
        f"{_ENTRIES}log_entry.about {ids} AND log_entry.log_id = :log AND {_IS_NOTICE} ORDER BY log_entry.idx"
    )
    for dialect, ids in among("certificates").items()
}
_NOTICES_ABOUT_NONE = Prepared(
    f"{_ENTRIES}log_entry.about = '' AND {_IS_NOTICE} ORDER BY log_entry.log_id, log_entry.idx"
)
_LOCK = "SELECT log.id, log.origin FROM log JOIN project ON project.log_id = log.id WHERE project.key = :project"
_LOCKED = {"sqlite": Prepared(_LOCK), "postgresql": Prepared(f"{_LOCK} FOR UPDATE OF log")}
_OF_PROJECT = Prepared("SELECT 1 FROM log_entry WHERE project_key = :project LIMIT 1")
_NEWEST_LOGS = Prepared("SELECT (SELECT max(id) FROM log), (SELECT max(log_id) FROM project)")
_ADD_LOG = Prepared("INSERT INTO log (id, origin, created_at) VALUES (:id, :origin, :created_at)")
_USE_LOG = Prepared("UPDATE project SET log_id = :log WHERE key = :project")
_HOLD_BEGINNINGS = Prepared(f"SELECT pg_advisory_xact_lock({_BEGINNING})")
