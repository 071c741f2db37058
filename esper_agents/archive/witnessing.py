"""Published checkpoints of a log: requests for cosignatures, and cosigned checkpoints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.inspection import keyring
from esper_agents.archive.publishing import place_of, proof_path, view_places, write_published
from esper_agents.certificates.log import merkle, transparency_log
from esper_agents.certificates.log.note import (
    MOST_BYTES,
    MOST_SIGNATURES,
    SignedNote,
    checkpoint_text,
    read_checkpoint,
    read_note,
    read_proof,
    signature_line,
    signer,
    write_proof,
)
from esper_agents.certificates.log.pins import contradiction
from esper_agents.certificates.log.witness_request import write_request
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.certificates.statement import parse
from esper_agents.errors import EsperError, IntegrityError, UsageError
from esper_agents.paths import PUBLISHED_LOGS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.certificates.log.faults import Fault
    from esper_agents.certificates.log.note import Checkpoint, NoteSignature
    from esper_agents.storage.store import Store

REQUEST_SUFFIX, CHECKPOINT_SUFFIX = ".request", ".checkpoint"
_REQUEST = "from-{size}" + REQUEST_SUFFIX
_MOST_FILES = 1000
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class PublishedCheckpoint:
    """Published checkpoint of a log with the signature lines of witnesses, which are not verified.

    Attributes:
        path: The file.
        note: The signed note.
        checkpoint: Its content.
    """

    path: Path
    note: SignedNote
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class LogPublication:
    """Result of publishing the newest checkpoint of a log.

    Attributes:
        origin: Name of the log.
        size: Number of entries of the checkpoint.
        cosigned: Published checkpoints of this log that others cosigned, largest first.
        requests: Requests for cosignatures.
        proofs: Inclusion proofs that were written again, under a cosigned checkpoint.
        folder: Folder of the requests and checkpoints.
    """

    origin: str
    size: int
    cosigned: tuple[PublishedCheckpoint, ...]
    requests: tuple[Path, ...]
    proofs: tuple[Path, ...]
    folder: Path


def log_folder(folder: Path, origin: str) -> Path:
    """Return the folder of a log among published files.

    Args:
        folder: Folder of all logs.
        origin: Name of the log.
    """
    return folder / (_UNSAFE.sub("-", origin.removeprefix("urn:uuid:")).strip(".-")[:80] or "log")


def logs_folder(place: ProjectPlace) -> Path:
    """Return the folder into which checkpoints and requests of a project are published."""
    return place_of(place.project, place.home, PUBLISHED_LOGS, into_project=place.publish).folder


def published_checkpoints(folder: Path) -> tuple[PublishedCheckpoint, ...]:
    """Return the readable checkpoints in the folders of all logs, by path; links and other files are skipped.

    Args:
        folder: Folder of all logs.
    """
    found = []
    for path in sorted(folder.glob(f"*/*{CHECKPOINT_SUFFIX}"))[:_MOST_FILES]:
        try:
            file = read_plain(path, MOST_BYTES, follow=False)
            note = read_note(file.data) if file is not None else None
            checkpoint = read_checkpoint(note) if note is not None else None
        except (EsperError, OSError):
            continue
        if note is not None and checkpoint is not None:
            found.append(PublishedCheckpoint(path, note, checkpoint))
    return tuple(found)


def published_requests(folder: Path) -> tuple[Path, ...]:
    """Return the requests in the folders of all logs, by path."""
    return tuple(sorted(folder.glob(f"*/*{REQUEST_SUFFIX}"))[:_MOST_FILES])


def publish_log(store: Store, place: ProjectPlace, since: Iterable[int] = ()) -> LogPublication:
    """Publish the newest checkpoint of a log for witnesses, and adopt the cosignatures that were published.

    There is a request for a witness that has seen nothing of the log, and for each published cosigned checkpoint. The
    proofs of certificates that a cosigned checkpoint covers are written again under it.

    Args:
        store: The archive.
        place: Project with the places of its certificates.
        since: Further numbers of entries from which a consistency proof is wanted.

    Raises:
        UsageError: The project has no log, or the log has fewer entries than a number of `since`.
        IntegrityError: The log contradicts a published checkpoint that it signed.
    """
    with store.reading() as connection:
        log_id = transparency_log.log_of(connection, place.project.key)
        note = transparency_log.latest_checkpoint(connection, log_id)
        if not note:
            raise UsageError(
                "the project has no log yet", remedy="issue a certificate first: run `esper submit --help`"
            )
        head = read_checkpoint(read_note(note))
        folder = log_folder(logs_folder(place), head.origin)
        keys = tuple(span.public_key for span in keyring(place.project, connection).history.spans.values())
        cosigned = _cosigned_here(connection, log_id, published_checkpoints(folder.parent), head.origin, keys)
        wanted = _old_sizes(head, (*since, *(each.checkpoint.size for each in cosigned)))
        read = transparency_log.reader(connection, log_id)
        requests = {
            folder / _REQUEST.format(size=old): write_request(old, merkle.consistency(old, head.size, read), note)
            for old in wanted
        }
    proofs = tuple(_proofs_under(store, place, cosigned))
    for path in folder.glob(_REQUEST.format(size="*")):
        if path not in requests:
            path.unlink()
    for path, text in requests.items():
        write_published(path, text.encode())
    for path, text in proofs:
        write_published(path, text.encode())
    ordered = tuple(sorted(cosigned, key=lambda each: -each.checkpoint.size))
    return LogPublication(head.origin, head.size, ordered, tuple(requests), tuple(path for path, _ in proofs), folder)


def checkpoint_faults(
    connection: Connection, log_id: int, found: Iterable[PublishedCheckpoint], keys: Collection[bytes]
) -> Iterator[tuple[PublishedCheckpoint, Fault]]:
    """Yield the published checkpoints that a log contradicts although a key of the log signed them."""
    origin = transparency_log.origin(connection, log_id)
    for each in found:
        if each.checkpoint.origin == origin and signer(each.note, origin, keys) is not None:
            fault = contradiction(connection, log_id, each.checkpoint)
            if fault is not None:
                yield each, fault


def _cosigned_here(
    connection: Connection,
    log_id: int,
    found: Iterable[PublishedCheckpoint],
    origin: str,
    keys: Collection[bytes],
) -> tuple[PublishedCheckpoint, ...]:
    signed = [
        each for each in found if each.checkpoint.origin == origin and signer(each.note, origin, keys) is not None
    ]
    for wrong, fault in checkpoint_faults(connection, log_id, signed, keys):
        raise IntegrityError(
            f"the log contradicts the cosigned checkpoint {wrong.path.name} of {wrong.checkpoint.size} entries:"
            f" {fault.detail.replace('pinned', 'cosigned')}",
            remedy="restore the newer database; do not publish this log",
        )
    return tuple(signed)


def _old_sizes(head: Checkpoint, sizes: Iterable[int]) -> list[int]:
    wanted = sorted({0, *sizes})
    if wanted[-1] > head.size:
        raise UsageError(
            f"the log has {head.size} entries, fewer than {wanted[-1]}",
            remedy="if a witness has seen more entries, the database was restored from an older copy",
        )
    return wanted


def _proofs_under(
    store: Store, place: ProjectPlace, cosigned: Collection[PublishedCheckpoint]
) -> Iterator[tuple[Path, str]]:
    """Yield the proofs to write: those whose checkpoint has fewer witnesses than another one that covers the entry."""
    notes = _merged(cosigned)
    if not notes:
        return
    for entry in archive.everything(store, place.project.key):
        try:
            views = view_places(place, entry, parse(archive.read(store, entry.id)))
            path = next(beside for view in views if (beside := proof_path(view)).is_file())
            file = read_plain(path, MOST_BYTES, follow=False)
            proof = read_proof(file.data if file else b"")
        except (EsperError, OSError, StopIteration):
            # Verification reports what is wrong with the file.
            continue
        covering = [each for each in notes if each.checkpoint.size > proof.idx]
        best = max(covering, key=lambda each: (len(each.note.signatures), -each.checkpoint.size), default=None)
        if best is None or _signers(best.note) <= _signers(proof.note):
            continue
        with store.reading() as connection:
            log_id = transparency_log.log_of(connection, place.project.key)
            read = transparency_log.reader(connection, log_id)
            hashes = merkle.inclusion(proof.idx, best.checkpoint.size, read)
        yield path, write_proof(proof.idx, hashes, _text(best))


def _merged(cosigned: Iterable[PublishedCheckpoint]) -> tuple[PublishedCheckpoint, ...]:
    """Return one checkpoint for each number of entries, with the signature lines of all witnesses."""
    found: dict[int, PublishedCheckpoint] = {}
    for each in cosigned:
        before = found.get(each.checkpoint.size, each)
        lines = {(line.name, line.key_hash): line for line in (*before.note.signatures, *each.note.signatures)}
        note = SignedNote(each.note.text, tuple(lines.values())[:MOST_SIGNATURES])
        found[each.checkpoint.size] = PublishedCheckpoint(each.path, note, each.checkpoint)
    return tuple(found.values())


def _signers(note: SignedNote) -> frozenset[tuple[str, bytes]]:
    return frozenset((line.name, line.key_hash) for line in note.signatures)


def _text(found: PublishedCheckpoint) -> str:
    return checkpoint_text(found.checkpoint) + "\n" + "".join(map(signature_line, _ordered(found)))


def _ordered(found: PublishedCheckpoint) -> list[NoteSignature]:
    origin = found.checkpoint.origin
    return sorted(found.note.signatures, key=lambda line: (line.name != origin, line.name))
