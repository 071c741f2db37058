"""Cosignatures of witnesses on checkpoints, in the C2SP form `cosignature/v1`."""

from __future__ import annotations

import re
from binascii import b2a_base64
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.certificates.log.note import NoteSignature, read_note, signature_line
from esper_agents.certificates.signing.public_keys import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    check_public_key,
    decoded,
    is_signature,
    key_id_of,
)
from esper_agents.errors import IntegrityError

if TYPE_CHECKING:
    from esper_agents.certificates.log.note import SignedNote
    from esper_agents.certificates.signing.signing_key import SigningKey

# Signature type of timestamped Ed25519 cosignatures in C2SP signed notes.
_COSIGNATURE = b"\x04"
_TIME_BYTES = 8
_LATEST = 2**63 - 1
_VERIFIER_KEY = re.compile(r"([!-*,-~]{1,200})\+([0-9a-f]{8})\+([A-Za-z0-9+/=]{1,200})")


@dataclass(frozen=True, slots=True)
class Witness:
    """Party whose cosignature states that a log only grew.

    Attributes:
        name: Name in its signature lines.
        public_key: Its Ed25519 key, 32 bytes.
    """

    name: str
    public_key: bytes

    @property
    def key_id(self) -> str:
        """Fingerprint of the key."""
        return key_id_of(self.public_key)

    @property
    def verifier_key(self) -> str:
        """Key in the form of C2SP signed notes, with signature type 0x04."""
        return f"{self.name}+{cosigner_hash(self).hex()}+{_base64(_COSIGNATURE + self.public_key)}"


@dataclass(frozen=True, slots=True)
class Cosignature:
    """Valid cosignature of a witness.

    Attributes:
        witness: The witness.
        at: Time of the cosignature, in seconds since 1970, as stated by the witness.
    """

    witness: Witness
    at: int

    @property
    def when(self) -> str:
        """Time for output, in UTC."""
        try:
            return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M} UTC"
        except (OverflowError, OSError, ValueError):
            return f"{self.at} s after 1970"


def witness_of(public_key: bytes) -> Witness:
    """Return the witness that signs with a key of this program: the key determines the name."""
    return Witness(f"esper-witness/{sha256(public_key).hexdigest()[:16]}", public_key)


def cosigner_hash(witness: Witness) -> bytes:
    """Return the four bytes that identify the key of a witness in signature lines."""
    return sha256(witness.name.encode() + b"\n" + _COSIGNATURE + witness.public_key).digest()[:4]


def read_verifier_key(text: str) -> Witness | None:
    """Parse the key of a witness, `NAME+HASH+KEY` with signature type 0x04; None if the text is something else.

    Raises:
        IntegrityError: The hash does not match the name and the key, or the key is refused.
    """
    found = _VERIFIER_KEY.fullmatch(text.strip())
    raw = decoded(found[3], most=200) if found else None
    if found is None or raw is None or raw[:1] != _COSIGNATURE or len(raw) != KEY_BYTES + 1:
        return None
    check_public_key(raw[1:])
    witness = Witness(found[1], raw[1:])
    if cosigner_hash(witness).hex() != found[2]:
        raise IntegrityError(
            "invalid key of a witness: its hash does not match its name and key",
            remedy="ask the witness for the output of `esper keys export --format witness`",
        )
    return witness


def cosigned_message(text: str, at: int) -> bytes:
    """Return the bytes that a witness signs: header, time, and the text of the checkpoint."""
    return f"cosignature/v1\ntime {at}\n{text}".encode()


def cosigned(note: str, key: SigningKey, at: int) -> str:
    """Return a signed checkpoint with the signature line of a witness added, instead of its earlier one.

    Args:
        note: Checkpoint that the log signed.
        key: Key of the witness.
        at: Time in seconds since 1970.

    Raises:
        IntegrityError: The note is malformed.
    """
    parsed, witness = read_note(note), witness_of(key.public_key)
    signature = at.to_bytes(_TIME_BYTES, "big") + key.sign(cosigned_message(parsed.text, at))
    own = NoteSignature(witness.name, cosigner_hash(witness), signature)
    others = [each for each in parsed.signatures if (each.name, each.key_hash) != (own.name, own.key_hash)]
    return f"{parsed.text}\n{''.join(map(signature_line, (*others, own)))}"


def cosignature_of(note: SignedNote, witness: Witness) -> Cosignature | None:
    """Return the valid cosignature of a witness on a checkpoint; None if there is none.

    Raises:
        IntegrityError: A line names the witness and its key, but its signature is invalid.
    """
    wanted = cosigner_hash(witness)
    for line in note.signatures:
        if line.name != witness.name or line.key_hash != wanted:
            continue
        at = int.from_bytes(line.signature[:_TIME_BYTES], "big")
        is_whole = len(line.signature) == _TIME_BYTES + SIGNATURE_BYTES and at <= _LATEST
        message = cosigned_message(note.text, at)
        if is_whole and is_signature(line.signature[_TIME_BYTES:], message, witness.public_key):
            return Cosignature(witness, at)
        raise IntegrityError(
            f"the cosignature of {witness.name} does not match the checkpoint",
            remedy="ask the witness for the checkpoint that it cosigned",
        )
    return None


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")
