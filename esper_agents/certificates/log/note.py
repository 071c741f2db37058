"""Strict reader and writer for C2SP signed notes, checkpoints and inclusion proofs."""

from __future__ import annotations

import re
from binascii import b2a_base64
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from esper_agents.certificates.log.merkle import HASH_BYTES, check_inclusion, leaf_hash
from esper_agents.certificates.signing.public_keys import SIGNATURE_BYTES, decoded, is_signature, note_key_hash
from esper_agents.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from esper_agents.certificates.signing.signing_key import SigningKey

PROOF_HEADER = "c2sp.org/tlog-proof@v1"
MOST_BYTES = 128 * 2**10
MOST_SIGNATURES = 16
MOST_HASHES = 64
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_ORIGIN = re.compile(r"[!-*,-~]{1,200}")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
_SIGNATURE_LINE = re.compile(r"— ([^\s+]{1,200}) ([A-Za-z0-9+/=]+)")
_LONGEST_SIGNATURE = 8 * 2**10
_HASH_CHARACTERS = 44
_KEY_HASH_BYTES = 4


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Tree head of a log.

    Attributes:
        origin: Name of the log.
        size: Number of entries.
        root: Root hash of the tree over them.
    """

    origin: str
    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """Signature line of a note.

    Attributes:
        name: Name of the signer as stated.
        key_hash: First four bytes that identify the key.
        signature: Signature of the key over the text.
    """

    name: str
    key_hash: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class SignedNote:
    """Signed text. It proves nothing until the signature of a known key is verified.

    Attributes:
        text: Signed text, with its final line feed.
        signatures: Signature lines, without duplicates of name and key.
    """

    text: str
    signatures: tuple[NoteSignature, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """Inclusion proof of a log entry.

    Attributes:
        idx: Index of the entry, from 0.
        hashes: Hashes from the leaf's sibling to the root's child.
        note: Signed note of the checkpoint, as read.
        checkpoint: Parsed checkpoint; its signature is not verified.
    """

    idx: int
    hashes: tuple[bytes, ...]
    note: SignedNote
    checkpoint: Checkpoint


def checkpoint_text(checkpoint: Checkpoint) -> str:
    """Return the signed text of a checkpoint."""
    return f"{checkpoint.origin}\n{checkpoint.size}\n{_base64(checkpoint.root)}\n"


def signed_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> str:
    """Return a checkpoint as a note signed in the name of the log. Deterministic for the same key."""
    text = checkpoint_text(checkpoint)
    name = checkpoint.origin
    return f"{text}\n— {name} {_base64(note_key_hash(key.public_key, name) + key.sign(text.encode()))}\n"


def signature_line(signature: NoteSignature) -> str:
    """Return a signature as the line of a note, with its line feed."""
    return f"— {signature.name} {_base64(signature.key_hash + signature.signature)}\n"


def read_note(data: str | bytes) -> SignedNote:
    """Parse a signed note.

    Raises:
        IntegrityError: Over 128 KiB, not UTF-8, a control character, no blank line before its signatures, none or more
            than 16 of them, one that is malformed, or two of one name and key.
    """
    text, _, under = _text(data).rpartition("\n\n")
    if not text or not under.endswith("\n"):
        _refuse("expected text, a blank line and signature lines, each with a line feed")
    lines = under[:-1].split("\n")
    if len(lines) > MOST_SIGNATURES:
        _refuse(f"it has {len(lines)} signatures; the maximum is {MOST_SIGNATURES}")
    signatures = tuple(_signature(line) for line in lines)
    if len({(signature.name, signature.key_hash) for signature in signatures}) != len(signatures):
        _refuse("one key signed twice")
    return SignedNote(f"{text}\n", signatures)


@lru_cache(maxsize=1024)
def is_signed_by(note: SignedNote, name: str, public_key: bytes) -> bool:
    """Return whether a note has a valid signature of a key under a name.

    Results are cached, because many certificates share one checkpoint.
    """
    wanted = note_key_hash(public_key, name)
    return any(
        signature.name == name
        and signature.key_hash == wanted
        and len(signature.signature) == SIGNATURE_BYTES
        and is_signature(signature.signature, note.text.encode(), public_key)
        for signature in note.signatures
    )


def signer(note: SignedNote, name: str, public_keys: Iterable[bytes]) -> bytes | None:
    """Return the first of the given keys that signed a note under a name, or None."""
    return next((public_key for public_key in public_keys if is_signed_by(note, name, public_key)), None)


def read_checkpoint(note: SignedNote) -> Checkpoint:
    """Parse the checkpoint of a note. Its signature is not verified.

    Raises:
        IntegrityError: Not three lines: an origin of visible ASCII without `+`, a size, and a root.
    """
    lines = note.text.split("\n")
    if len(lines) != 4:  # noqa: PLR2004 - three lines, and what follows the last line feed
        _refuse("a checkpoint has three lines: origin, size, root")
    origin, size, root, _ = lines
    if not _ORIGIN.fullmatch(origin):
        _refuse(f"{origin[:60]!a} is not a log origin")
    return Checkpoint(origin, _number(size, "size"), _hash(root))


def write_proof(idx: int, hashes: Sequence[bytes], note: str) -> str:
    """Format an inclusion proof as text, for a file that ends in `.tlog-proof`.

    Args:
        idx: Index of the entry, from 0.
        hashes: Hashes as returned by `merkle.inclusion`.
        note: Signed checkpoint that the proof leads to.
    """
    return "\n".join([PROOF_HEADER, f"index {idx}", *(_base64(digest) for digest in hashes), "", note])


def read_proof(data: str | bytes) -> Proof:
    """Parse an inclusion proof. It is not verified; `includes` does that.

    Raises:
        IntegrityError: The text is not what `write_proof` writes: another header, more than 64 hashes, a
            malformed hash, an index outside the checkpoint, or an error of `read_note` or `read_checkpoint`.
    """
    head, blank, under = _text(data).partition("\n\n")
    if not blank:
        _refuse("a proof has a blank line before its checkpoint")
    header, *lines = head.split("\n")
    if header != PROOF_HEADER:
        _refuse(f"its first line is not {PROOF_HEADER}")
    if not lines or not lines[0].startswith("index "):
        _refuse("its second line is not an index")
    if len(lines) - 1 > MOST_HASHES:
        _refuse(f"it has {len(lines) - 1} hashes; the maximum is {MOST_HASHES}")
    note = read_note(under)
    checkpoint = read_checkpoint(note)
    idx = _number(lines[0].removeprefix("index "), "index")
    if idx >= checkpoint.size:
        _refuse(f"its index is {idx}, but the checkpoint has {checkpoint.size} entries")
    return Proof(idx, tuple(_hash(line) for line in lines[1:]), note, checkpoint)


def includes(proof: Proof, leaf: bytes) -> bool:
    """Return whether a proof leads from the bytes of a leaf to the root of its checkpoint."""
    return check_inclusion(leaf_hash(leaf), proof.idx, proof.checkpoint.size, proof.hashes, proof.checkpoint.root)


def _signature(line: str) -> NoteSignature:
    found = _SIGNATURE_LINE.fullmatch(line)
    raw = decoded(found[2], most=_LONGEST_SIGNATURE) if found else None
    if found is None or raw is None or len(raw) <= _KEY_HASH_BYTES:
        _refuse(f"{line[:60]!a} is not a note signature")
    return NoteSignature(found[1], raw[:_KEY_HASH_BYTES], raw[_KEY_HASH_BYTES:])


def _text(data: str | bytes) -> str:
    try:
        raw = data.encode() if isinstance(data, str) else data
        if len(raw) > MOST_BYTES:
            _refuse(f"it has {len(raw)} bytes; the maximum is {MOST_BYTES}")
        text = raw.decode("utf-8")
    except UnicodeError:
        _refuse("it is not UTF-8")
    if _CONTROL.search(text):
        _refuse("it holds a control character")
    return text


def _number(text: str, what: str) -> int:
    if not _NUMBER.fullmatch(text):
        _refuse(f"{text[:40]!a} is not a valid {what}")
    return int(text)


def _hash(text: str) -> bytes:
    found = decoded(text, most=_HASH_CHARACTERS)
    if found is None or len(found) != HASH_BYTES:
        _refuse(f"{text[:60]!a} is not a base64 hash")
    return found


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def _refuse(problem: str) -> NoReturn:
    raise IntegrityError(
        f"not a signed note of a log: {problem}", remedy="run `esper certificates repair` to rewrite it from the log"
    )
