"""Ed25519 public keys: validation, fingerprints and common encodings."""

from __future__ import annotations

import re
from binascii import Error, a2b_base64, b2a_base64
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, NoReturn

from esper_agents.errors import IntegrityError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

KEY_BYTES = 32
SIGNATURE_BYTES = 64
SSH_TYPE = "ssh-ed25519"
_WIRE_TYPE = b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"
# DER prefix of an Ed25519 SubjectPublicKeyInfo, RFC 8410.
_DER = bytes.fromhex("302a300506032b6570032100")
_PEM_BEGIN, _PEM_END = "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"
# C2SP signed-note identifies algorithms by a byte; this is Ed25519.
_NOTE_ED25519 = b"\x01"
_NOTE_NAME = re.compile(r"[!-*,-~]{1,200}")
_KEY_ID = re.compile(r"SHA256:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]")
_PRIME = 2**255 - 19
_ORDER_EIGHT = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
# The y coordinates of the eight points of small order. With such a key, one signature is valid for many messages.
_SMALL_ORDER = frozenset((0, 1, _PRIME - 1, _ORDER_EIGHT, _PRIME - _ORDER_EIGHT))


def check_public_key(raw: bytes) -> None:
    """Raise an error unless bytes are a valid and secure Ed25519 public key.

    Raises:
        IntegrityError: Not 32 bytes, not the canonical encoding of a point, or a point of small order.
    """
    if len(raw) != KEY_BYTES:
        _refuse(f"it has {len(raw)} bytes; an Ed25519 public key has {KEY_BYTES}")
    height = int.from_bytes(raw, "little") & (2**255 - 1)
    if height >= _PRIME:
        _refuse("it is not the canonical encoding of its point")
    if height in _SMALL_ORDER:
        _refuse("it is a point of small order, so its signatures can be forged")


@lru_cache(maxsize=256)
def checked(raw: bytes) -> Ed25519PublicKey:
    """Return a validated key, ready to verify signatures.

    Raises:
        IntegrityError: See `check_public_key`.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    check_public_key(raw)
    return Ed25519PublicKey.from_public_bytes(raw)


def is_signature(signature: bytes, message: bytes, public_key: bytes) -> bool:
    """Return whether a signature of a message by a key is valid; a refused key has no valid signatures."""
    from cryptography.exceptions import InvalidSignature

    if len(signature) != SIGNATURE_BYTES:
        return False
    try:
        checked(public_key).verify(signature, message)
    except (IntegrityError, InvalidSignature):
        return False
    return True


def key_id_of(public_key: bytes) -> str:
    """Return a key's OpenSSH fingerprint, `SHA256:...`, as `ssh-keygen -l` shows it."""
    return "SHA256:" + _base64(sha256(_wire(public_key)).digest()).rstrip("=")


def is_key_id(text: str) -> bool:
    """Return whether text is a key fingerprint in canonical form."""
    return _KEY_ID.fullmatch(text) is not None


def as_ssh(public_key: bytes) -> str:
    """Return a key as OpenSSH writes it, `ssh-ed25519 AAAA...`, without a comment."""
    return f"{SSH_TYPE} {_base64(_wire(public_key))}"


def as_pem(public_key: bytes) -> str:
    """Return a key as `openssl pkey -pubin` reads it."""
    return f"{_PEM_BEGIN}\n{_base64(_DER + public_key)}\n{_PEM_END}\n"


def as_note_key(public_key: bytes, name: str) -> str:
    """Return a key in the format of C2SP signed notes, `name+0123abcd+...`.

    Args:
        public_key: Public key.
        name: Name of the signer, such as the log's origin; visible ASCII without `+`.

    Raises:
        IntegrityError: The name is invalid.
    """
    if not _NOTE_NAME.fullmatch(name):
        _refuse(f"{name[:60]!a} is not a valid name for a signed note")
    return f"{name}+{note_key_hash(public_key, name).hex()}+{_base64(_NOTE_ED25519 + public_key)}"


def note_key_hash(public_key: bytes, name: str) -> bytes:
    """Return the four bytes that identify a key in signed notes."""
    return sha256(name.encode() + b"\n" + _NOTE_ED25519 + public_key).digest()[:4]


def from_ssh(kind: str, blob: str) -> bytes:
    """Parse the key of an OpenSSH public key line.

    Args:
        kind: First word of the line; only `ssh-ed25519` is accepted.
        blob: Second word of the line.

    Raises:
        IntegrityError: Another key type, not in canonical form, or refused by `check_public_key`.
    """
    if kind != SSH_TYPE:
        _refuse(f"key type {kind[:40]!a} is not supported; only {SSH_TYPE} is")
    wire = decoded(blob, most=200)
    if wire is None or not wire.startswith(_WIRE_TYPE):
        _refuse(f"the text after {SSH_TYPE} is not such a key")
    raw = wire[len(_WIRE_TYPE) :]
    check_public_key(raw)
    return raw


def read_public_key(text: str) -> bytes:
    """Parse a public key: OpenSSH line, PEM, or signed-note key.

    Raises:
        IntegrityError: No key was found, or it is refused.
    """
    text = text.strip()
    if text.startswith(_PEM_BEGIN):
        return _from_pem(text)
    if text.startswith(f"{SSH_TYPE} "):
        words = text.split(" ", 2)
        if "\n" in text or "\r" in text:
            _refuse("it has more than one line")
        return from_ssh(words[0], words[1])
    if text.count("+") < 2:  # noqa: PLR2004 - name+hash+key
        _refuse("it is neither an OpenSSH line of type ssh-ed25519, nor PEM, nor a signed-note key")
    return _from_note_key(text)


def decoded(text: str, *, most: int) -> bytes | None:
    """Decode base64; return None if it is too long or not in padded canonical form."""
    if len(text) > most:
        return None
    try:
        found = a2b_base64(text, strict_mode=True)
    except (Error, ValueError):
        return None
    # Unused bits could be set, which would give another text for the same bytes.
    return found if _base64(found) == text else None


def _from_pem(text: str) -> bytes:
    lines = text.split("\n")
    der = decoded(lines[1].rstrip("\r"), most=200) if len(lines) == 3 else None  # noqa: PLR2004 - begin, key, end
    if der is None or lines[-1] != _PEM_END or not der.startswith(_DER):
        _refuse("it is not an Ed25519 public key in PEM")
    raw = der[len(_DER) :]
    check_public_key(raw)
    return raw


def _from_note_key(text: str) -> bytes:
    name, digest, blob = text.split("+", 2)
    found = decoded(blob, most=200)
    if not _NOTE_NAME.fullmatch(name) or found is None or found[:1] != _NOTE_ED25519:
        _refuse("it is not an Ed25519 signed-note key")
    raw = found[1:]
    check_public_key(raw)
    if note_key_hash(raw, name).hex() != digest:
        _refuse("its hash does not match its name and key")
    return raw


def _wire(public_key: bytes) -> bytes:
    return _WIRE_TYPE + public_key


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def _refuse(problem: str) -> NoReturn:
    raise IntegrityError(f"invalid public key: {problem}", remedy="ask its owner for the output of `esper keys export`")
