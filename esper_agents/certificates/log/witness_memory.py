"""Cosigning by a witness, which remembers the newest checkpoint that it cosigned of each log."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.atomic_file import write_atomically
from esper_agents.certificates.log.cosignature import Witness, cosigned, witness_of
from esper_agents.certificates.log.note import MOST_BYTES, Checkpoint, read_checkpoint, read_note, signer
from esper_agents.certificates.signing.public_keys import key_id_of
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.errors import EvidenceError, IntegrityError, StorageError, UsageError
from esper_agents.storage import locks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from esper_agents.certificates.log.witness_request import WitnessRequest
    from esper_agents.certificates.signing.signing_key import SigningKey

_ASK = "ask the owner of the log to explain it; do not trust newer certificates of this log until then"


@dataclass(frozen=True, slots=True)
class CosignedLog:
    """Checkpoint that this witness cosigned.

    Attributes:
        origin: Name of the log.
        key_id: Fingerprint of the trusted key that signed the checkpoint.
        before: Number of entries of the checkpoint that was cosigned before; None for a log that is new to the witness.
        size: Number of entries of the checkpoint.
        note: Checkpoint with the cosignature.
        witness: The witness.
    """

    origin: str
    key_id: str
    before: int | None
    size: int
    note: str
    witness: Witness


def remembered(home: Path, origin: str) -> Checkpoint | None:
    """Return the newest checkpoint of a log that was cosigned here; None if there is none.

    Raises:
        IntegrityError: The file was changed.
        StorageError: The file cannot be read.
    """
    return _remembered(_file(home, origin), origin)


def cosign(
    home: Path, request: WitnessRequest, key: SigningKey, log_keys: Collection[bytes], clock: Callable[[], float]
) -> CosignedLog:
    """Cosign a checkpoint, if its log extends the checkpoint that was cosigned here before, and remember it.

    Args:
        home: `paths.home()`.
        request: Checkpoint with the consistency proof.
        key: Key of the witness.
        log_keys: Trusted keys that may sign checkpoints.
        clock: Returns the time in seconds since 1970.

    Raises:
        EvidenceError: No trusted key signed the checkpoint.
        UsageError: The proof starts from another checkpoint, or the log is that of the witness.
        IntegrityError: The log does not extend the checkpoint that was cosigned here before.
        StorageError: The data directory cannot be written.
    """
    new = request.checkpoint
    by = signer(request.signed, new.origin, log_keys)
    if by is None:
        raise EvidenceError(
            f"the checkpoint of log {new.origin} is not signed by a trusted key",
            remedy="confirm the fingerprint with the owner of the log, then run `esper keys trust`",
        )
    if by == key.public_key:
        raise UsageError(
            f"log {new.origin} is signed by your own key", remedy="a colleague or another key must cosign it"
        )
    file = _file(home, new.origin)
    with _locked(file):
        old = _remembered(file, new.origin)
        _refuse_unless_extended(request, old)
        note = cosigned(request.note, key, int(clock()))
        try:
            # Synced before the cosignature is published: a witness must never forget what it cosigned.
            write_atomically(file, note.encode(), mode=0o600, scratch=file.with_suffix(".new"))
        except OSError as error:
            raise _unusable(file, error) from error
    before = None if old is None else old.size
    return CosignedLog(new.origin, key_id_of(by), before, new.size, note, witness_of(key.public_key))


def _refuse_unless_extended(request: WitnessRequest, old: Checkpoint | None) -> None:
    new = request.checkpoint
    if old is None:
        if request.old:
            raise UsageError(
                f"the proof starts from {request.old} entries, but nothing of log {new.origin} was cosigned here",
                remedy="use the request that starts from 0: from-0.request",
            )
        return
    if new.size < old.size:
        raise IntegrityError(
            f"log {new.origin} has {new.size} entries, but {old.size} were cosigned here: it was restored from an older"
            " copy, or entries were removed",
            remedy=_ASK,
        )
    if new.size == old.size:
        if new.root != old.root:
            raise IntegrityError(
                f"log {new.origin} has other entries than the {old.size} that were cosigned here: it was rewritten",
                remedy=_ASK,
            )
        return
    if request.old != old.size:
        raise UsageError(
            f"the proof starts from {request.old} entries, but {old.size} of log {new.origin} were cosigned here",
            remedy=f"ask the owner of the log to run `esper log publish --since {old.size}`",
        )
    if not request.extends(old):
        raise IntegrityError(
            f"log {new.origin} does not extend the {old.size} entries that were cosigned here: it was rewritten, or"
            " restored from an older copy and then extended",
            remedy=_ASK,
        )


def _file(home: Path, origin: str) -> Path:
    return home / "witness" / f"{sha256(origin.encode()).hexdigest()[:32]}.checkpoint"


def _remembered(file: Path, origin: str) -> Checkpoint | None:
    try:
        found = read_plain(file, MOST_BYTES, follow=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(file, error) from error
    try:
        checkpoint = read_checkpoint(read_note(found.data if found else b""))
    except IntegrityError as error:
        raise _damaged(file, error.problem) from error
    if checkpoint.origin != origin:
        raise _damaged(file, f"it is of log {checkpoint.origin}")
    return checkpoint


def _damaged(file: Path, why: str) -> IntegrityError:
    return IntegrityError(
        f"the checkpoint {str(file)!r} that was cosigned here is damaged: {why}",
        remedy="restore it from a backup; without it, this witness cannot notice that the log lost entries",
    )


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = locks.locked(file.with_suffix(".lock"))
    except OSError as error:
        raise _unusable(file, error) from error
    try:
        yield
    finally:
        locks.release(lock)


def _unusable(file: Path, error: OSError) -> StorageError:
    return StorageError(
        f"the checkpoint {str(file)!r} cannot be used: {os.strerror(error.errno or 0).lower()}",
        remedy="make it a writable file, or set ESPER_HOME to another folder",
    )
