"""The log in SQL: what is signed is appended within the caller's transaction, with its checkpoint, and read again."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import String, delete, func, insert, select, type_coerce

from esper_agents.certificates.log import merkle
from esper_agents.certificates.log.merkle import Place
from esper_agents.certificates.log.note import Checkpoint, read_checkpoint, read_note, signed_checkpoint, write_proof
from esper_agents.certificates.sealing.dsse import PAYLOAD_TYPE, Envelope, envelope_bytes, seal
from esper_agents.domain.notice import EntryKind
from esper_agents.errors import IntegrityError, NotFoundError
from esper_agents.storage.tables import certificate, log, log_checkpoint, log_entry, log_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, RowMapping, Select

    from esper_agents.certificates.sealing.keys import SigningKey
    from esper_agents.storage.store import Transaction

ORIGIN_PREFIX = "esper-agents.dev/log/"
REPAIR = "esper certificates repair"
RESTORE = f"restore a backup, or run `{REPAIR} --accept-rollback` to go on from what is there"


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
class Logged:
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
class Entry:
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


def append(transaction: Transaction, key: SigningKey, project_key: str, record: Record) -> Logged:
    """Sign a record and enter it at the end of the log, with a new checkpoint; all in the caller's transaction.

    The first one makes the log and its origin. The newest checkpoint takes the place of the one before: a signed one
    for fewer entries would let somebody without the key cut the log off there.

    Raises:
        IntegrityError: The newest checkpoint is not of the entries that are there.
    """
    connection = transaction.connection
    origin = locked_origin(transaction)
    size = _size_to_extend(connection, origin)
    read = reader(connection)
    envelope = seal(key, record.statement)
    leaf = merkle.leaf_hash(envelope_bytes(envelope))
    filled = merkle.appended(size, leaf, read)
    connection.execute(
        insert(log_entry).values(
            idx=size,
            record_id=record.id,
            kind=record.kind,
            project_key=project_key,
            about=record.about,
            at=transaction.at,
            key_id=key.key_id,
            signature=envelope.signature,
            leaf_hash=leaf,
            statement=b"" if record.kind is EntryKind.CERTIFICATE else record.statement,
        )
    )
    connection.execute(insert(log_node), [_node(place, value) for place, value in filled.items()])
    root = merkle.root(size + 1, read)
    note = check_in(transaction, key, Checkpoint(origin, size + 1, root))
    return Logged(size, size + 1, root, note)


def origin(connection: Connection) -> str:
    """Return the log's name; empty where nothing was ever entered."""
    return str(connection.scalar(select(log.c.origin).where(log.c.id == 1)) or "")


def size(connection: Connection) -> int:
    """Return how many entries the log has, by the place of its last one."""
    last = connection.scalar(select(log_entry.c.idx).order_by(log_entry.c.idx.desc()).limit(1))
    return 0 if last is None else int(last) + 1


def latest_checkpoint(connection: Connection) -> str:
    """Return the newest signed checkpoint; empty where there is none."""
    return str(connection.scalar(select(log_checkpoint.c.note).order_by(log_checkpoint.c.size.desc()).limit(1)) or "")


def entry(connection: Connection, record_id: str) -> Entry:
    """Return the entry of a record.

    Raises:
        NotFoundError: The log has none.
    """
    found = connection.execute(_ENTRIES.where(log_entry.c.record_id == record_id)).mappings().one_or_none()
    if found is None:
        raise NotFoundError("entry of the log", record_id, (), listing="esper certificates list")
    return _entry(found)


def envelope(connection: Connection, record_id: str) -> Envelope:
    """Return a record with its signature, as it was entered.

    Raises:
        NotFoundError: The log has no such record.
        IntegrityError: Its statement or signature is not what was entered.
    """
    found = entry(connection, record_id)
    if not is_as_entered(found):
        raise IntegrityError(f"{record_id} in the archive is not what was entered in the log", remedy=RESTORE)
    return _sealed(found)


def is_as_entered(found: Entry) -> bool:
    """Return whether an entry's statement and signature give its leaf."""
    return merkle.leaf_hash(envelope_bytes(_sealed(found))) == found.leaf_hash


def proof(connection: Connection, record_id: str) -> str:
    """Return what shows that a record is in the log, under its newest checkpoint, as the text of a `.tlog-proof`.

    Raises:
        NotFoundError: The log has no such record.
        IntegrityError: The newest checkpoint is not of the log, or does not cover the record.
    """
    idx = connection.scalar(select(log_entry.c.idx).where(log_entry.c.record_id == record_id))
    if idx is None:
        raise NotFoundError("entry of the log", record_id, (), listing="esper certificates list")
    note = latest_checkpoint(connection)
    head = read_checkpoint(read_note(note))
    if idx >= head.size:
        raise IntegrityError(f"the newest checkpoint of the log does not cover {record_id}", remedy=f"run `{REPAIR}`")
    return write_proof(idx, merkle.inclusion(idx, head.size, reader(connection)), note)


def notices(connection: Connection) -> Iterator[Entry]:
    """Yield every notice, oldest first."""
    wanted = _ENTRIES.where(log_entry.c.kind == EntryKind.NOTICE).order_by(log_entry.c.idx)
    return map(_entry, connection.execute(wanted).mappings())


def notices_about(connection: Connection, *certificate_ids: str) -> Iterator[Entry]:
    """Yield every notice about some certificates, oldest first."""
    is_about = log_entry.c.about.in_(certificate_ids) & (log_entry.c.kind == EntryKind.NOTICE)
    return map(_entry, connection.execute(_ENTRIES.where(is_about).order_by(log_entry.c.idx)).mappings())


def reader(connection: Connection) -> merkle.Reader:
    """Return what reads complete subtrees of the log.

    It raises an IntegrityError where one is missing.
    """

    def read(places: Sequence[Place]) -> list[bytes]:
        if not places:
            return []
        # Integers of ours written into it: as alternatives or a list it takes ten times as long, or scans the table.
        wanted = ",".join(f"({int(each.level)},{int(each.idx)})" for each in places)
        rows = connection.exec_driver_sql(f"WITH wanted(level, idx) AS (VALUES {wanted}) {_NODES}")
        found = {Place(level, idx): bytes(value) for level, idx, value in rows}
        for each in places:
            if each not in found:
                raise IntegrityError(f"the log has no node {each.idx} on level {each.level}", remedy=f"run `{REPAIR}`")
        return [found[each] for each in places]

    return read


def check_in(transaction: Transaction, key: SigningKey, head: Checkpoint) -> str:
    """Sign the head of the log and put it in the place of every checkpoint before; return the note."""
    note = signed_checkpoint(head, key)
    transaction.connection.execute(delete(log_checkpoint))
    transaction.connection.execute(insert(log_checkpoint).values(size=head.size, note=note, at=transaction.at))
    return note


def locked_origin(transaction: Transaction) -> str:
    """Return the log's name, made if there is none; no other transaction appends until this one ends."""
    connection = transaction.connection
    row = {"id": 1, "origin": ORIGIN_PREFIX + secrets.token_hex(16), "created_at": transaction.at}
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        # Two first ones at once: the second waits here for the first, and then finds its row.
        connection.execute(postgresql.insert(log).values(**row).on_conflict_do_nothing())
        return str(connection.scalar(select(log.c.origin).where(log.c.id == 1).with_for_update()))
    found = origin(connection)
    if not found:
        connection.execute(insert(log).values(**row))
    return found or str(row["origin"])


def _size_to_extend(connection: Connection, name: str) -> int:
    entries = size(connection)
    note = latest_checkpoint(connection)
    if not note and not entries:
        return 0
    head = read_checkpoint(read_note(note)) if note else None
    if head is None or (head.origin, head.size) != (name, entries):
        said = f"its newest checkpoint is of {head.size} in {head.origin!r}" if head else "it has no checkpoint"
        raise IntegrityError(f"the log has {entries} entries, and {said}", remedy=RESTORE)
    return entries


def _node(place: Place, value: bytes) -> dict[str, Any]:
    return {"level": place.level, "idx": place.idx, "hash": value}


def _sealed(found: Entry) -> Envelope:
    return Envelope(PAYLOAD_TYPE, found.statement, found.key_id, found.signature)


def _entry(found: RowMapping) -> Entry:
    # Columns of SQLite hold whatever somebody wrote into them, text as well.
    if not all(isinstance(found[name], bytes) for name in ("signature", "leaf_hash", "statement")):
        raise IntegrityError(f"entry {found['idx']} of the log is not what was entered", remedy=RESTORE)
    try:
        return Entry(**{**found, "kind": EntryKind(found["kind"])})
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
