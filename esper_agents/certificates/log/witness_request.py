"""Requests for a cosignature in the form of C2SP `add-checkpoint`."""

from __future__ import annotations

import re
from binascii import b2a_base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from esper_agents.certificates.log.merkle import HASH_BYTES, check_consistency
from esper_agents.certificates.log.note import Checkpoint, SignedNote, read_checkpoint, read_note
from esper_agents.certificates.signing.public_keys import decoded
from esper_agents.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_HASHES = 63
MOST_BYTES = 128 * 2**10
_OLD = re.compile(r"old (0|[1-9][0-9]{0,17})")
_HASH_CHARACTERS = 44


@dataclass(frozen=True, slots=True)
class WitnessRequest:
    """Checkpoint with the proof that its log extends an earlier one.

    Attributes:
        old: Number of entries that the proof starts from; 0 for a witness that has seen nothing of the log.
        hashes: Consistency proof.
        note: Checkpoint, as text.
        signed: Checkpoint, parsed; its signature is not verified.
        checkpoint: Its content.
    """

    old: int
    hashes: tuple[bytes, ...]
    note: str
    signed: SignedNote
    checkpoint: Checkpoint

    def extends(self, old: Checkpoint) -> bool:
        """Return whether the proof leads from a checkpoint, of the size that it starts from, to the new one."""
        new = self.checkpoint
        return old.size == self.old and check_consistency(old.size, old.root, new.size, new.root, self.hashes)


def write_request(old: int, hashes: Sequence[bytes], note: str) -> str:
    """Format a request.

    Args:
        old: Number of entries that the witness has seen.
        hashes: Consistency proof, as returned by `merkle.consistency`.
        note: Signed checkpoint.
    """
    lines = [b2a_base64(digest, newline=False).decode("ascii") for digest in hashes]
    return "\n".join([f"old {old}", *lines, "", note])


def read_request(data: bytes) -> WitnessRequest:
    """Parse a request. Signature and proof are not verified.

    Raises:
        IntegrityError: The text is not what `write_request` writes, or it has more than 63 hashes.
    """
    try:
        text = data[: MOST_BYTES + 1].decode("utf-8")
    except UnicodeDecodeError:
        _refuse("it is not UTF-8")
    if len(data) > MOST_BYTES:
        _refuse(f"it has more than {MOST_BYTES} bytes")
    head, blank, note = text.partition("\n\n")
    first, *lines = head.split("\n")
    old = _OLD.fullmatch(first)
    if not blank or old is None:
        _refuse("expected `old SIZE`, the hashes of a proof, a blank line and a checkpoint")
    if len(lines) > MOST_HASHES:
        _refuse(f"it has {len(lines)} hashes; the maximum is {MOST_HASHES}")
    signed = read_note(note)
    checkpoint = read_checkpoint(signed)
    if int(old[1]) > checkpoint.size:
        _refuse(f"it starts from {old[1]} entries, but the checkpoint has {checkpoint.size}")
    return WitnessRequest(int(old[1]), tuple(map(_hash, lines)), note, signed, checkpoint)


def _hash(line: str) -> bytes:
    found = decoded(line, most=_HASH_CHARACTERS)
    if found is None or len(found) != HASH_BYTES:
        _refuse(f"{line[:60]!a} is not a base64 hash")
    return found


def _refuse(problem: str) -> NoReturn:
    raise IntegrityError(
        f"not a request for a cosignature: {problem}", remedy="ask the owner of the log to run `esper log publish`"
    )
