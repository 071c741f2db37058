"""DSSE envelopes in canonical form: one statement, one key ID, one signature."""

from __future__ import annotations

import json
import re
from binascii import Error, a2b_base64, b2a_base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from esper_agents.certificates.signing.public_keys import SIGNATURE_BYTES, decoded, is_key_id, is_signature, key_id_of
from esper_agents.certificates.strict_json import MOST_BYTES, loads
from esper_agents.errors import IntegrityError

if TYPE_CHECKING:
    from esper_agents.certificates.signing.signing_key import SigningKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_HEAD = b'{"payload":"'
_TAIL = re.compile(
    rb'","payloadType":"application/vnd\.in-toto\+json","signatures":\[\{"keyid":"(SHA256:[A-Za-z0-9+/]{43})",'
    rb'"sig":"([A-Za-z0-9+/]{86}==)"\}\]\}'
)
# Fingerprints of 50 and signatures of 88 characters give a fixed length.
_TAIL_BYTES = len(b'","payloadType":"","signatures":[{"keyid":"","sig":""}]}') + len(PAYLOAD_TYPE) + 50 + 88
_MEMBERS = frozenset({"payload", "payloadType", "signatures"})
_SIGNATURE_MEMBERS = frozenset({"keyid", "sig"})


@dataclass(frozen=True, slots=True)
class Envelope:
    """DSSE envelope: a signed statement.

    Attributes:
        payload_type: Type of the payload; always `PAYLOAD_TYPE` in envelopes read and sealed here.
        payload: Bytes of the statement.
        key_id: Fingerprint of the stated signing key.
        signature: Ed25519 signature over `pae(payload_type, payload)`.
    """

    payload_type: str
    payload: bytes
    key_id: str
    signature: bytes


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the signed bytes: DSSE's pre-authentication encoding of a type and a payload."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def seal(key: SigningKey, statement: bytes) -> Envelope:
    """Return a statement signed with a key."""
    return Envelope(PAYLOAD_TYPE, statement, key.key_id, key.sign(pae(PAYLOAD_TYPE, statement)))


def is_signed_by(envelope: Envelope, public_key: bytes) -> bool:
    """Return whether an envelope names this key and has its valid signature over the payload.

    A signature of a key that `check_public_key` refuses is never valid.
    """
    if envelope.payload_type != PAYLOAD_TYPE or envelope.key_id != key_id_of(public_key):
        return False
    return is_signature(envelope.signature, pae(envelope.payload_type, envelope.payload), public_key)


def envelope_bytes(envelope: Envelope) -> bytes:
    """Return the only accepted encoding of an envelope: RFC 8785, without a final line feed."""
    # For ASCII text, sorted members without spaces are RFC 8785; base64, fingerprints and types are ASCII.
    kind, key_id = json.dumps(envelope.payload_type).encode(), json.dumps(envelope.key_id).encode()
    return b'{"payload":"%b","payloadType":%b,"signatures":[{"keyid":%b,"sig":"%b"}]}' % (
        _base64(envelope.payload),
        kind,
        key_id,
        _base64(envelope.signature),
    )


def encodings_within(text: bytes) -> tuple[bytes, ...]:
    """Return fragments of envelopes, of which each envelope contains one whose payload contains a text.

    An envelope has its payload in base64 of one form, in which a text is encoded in one of three ways, by its position.
    """
    return tuple(
        _base64(b"\0" * shift + text)[(shift * 8 + 5) // 6 : (shift + len(text)) * 8 // 6] for shift in range(3)
    )


def read_envelope(data: bytes) -> Envelope:
    """Parse an envelope. The signature is not verified.

    Raises:
        IntegrityError: The bytes are not exactly what `envelope_bytes` writes: another member, type or order, none or
            more than one signature, base64 in another form, white space, or more than 64 MiB.
    """
    return _read_canonical(data) or _read_slowly(data)


def _read_canonical(data: bytes) -> Envelope | None:
    """Parse an envelope in canonical form in a fifth of the time; return None if the form differs."""
    tail = _TAIL.fullmatch(data, max(len(data) - _TAIL_BYTES, 0))
    if tail is None or not data.startswith(_HEAD) or len(data) > MOST_BYTES:
        return None
    encoded = data[len(_HEAD) : tail.start()]
    try:
        payload, signature = a2b_base64(encoded, strict_mode=True), a2b_base64(tail[2], strict_mode=True)
    except Error:
        return None
    envelope = Envelope(PAYLOAD_TYPE, payload, tail[1].decode("ascii"), signature)
    is_canonical = _ends_canonically(encoded, payload) and _ends_canonically(tail[2], signature)
    return envelope if is_canonical and is_key_id(envelope.key_id) else None


def _ends_canonically(encoded: bytes, data: bytes) -> bool:
    """Return whether strictly decoded base64 is the only encoding of its data: the last characters have spare bits."""
    size = (len(data) - 1) // 3 * 3 if data else 0
    return len(encoded) == (len(data) + 2) // 3 * 4 and encoded[size // 3 * 4 :] == _base64(data[size:])


def _read_slowly(data: bytes) -> Envelope:
    value = loads(data)
    if not isinstance(value, dict) or set(value) != _MEMBERS:
        _refuse(f"expected exactly the members {', '.join(sorted(_MEMBERS))}")
    if value["payloadType"] != PAYLOAD_TYPE:
        _refuse(f"its payload type is not {PAYLOAD_TYPE}")
    payload = _decoded(value["payload"], "its payload")
    key_id, signature = _signature(value["signatures"])
    envelope = Envelope(PAYLOAD_TYPE, payload, key_id, signature)
    if envelope_bytes(envelope) != data:
        _refuse("it is not in canonical form")
    return envelope


def _signature(signatures: Any) -> tuple[str, bytes]:
    if not isinstance(signatures, list) or len(signatures) != 1:
        count = len(signatures) if isinstance(signatures, list) else "no list of"
        _refuse(f"it has {count} signatures; exactly one is required")
    (only,) = signatures
    if not isinstance(only, dict) or set(only) != _SIGNATURE_MEMBERS:
        _refuse(f"its signature must have exactly the members {', '.join(sorted(_SIGNATURE_MEMBERS))}")
    if not isinstance(only["keyid"], str) or not is_key_id(only["keyid"]):
        _refuse("its keyid is not a SHA256 fingerprint")
    signature = _decoded(only["sig"], "its signature")
    if len(signature) != SIGNATURE_BYTES:
        _refuse(f"its signature has {len(signature)} bytes; Ed25519 signatures have {SIGNATURE_BYTES}")
    return only["keyid"], signature


def _decoded(value: Any, what: str) -> bytes:
    found = decoded(value, most=MOST_BYTES) if isinstance(value, str) else None
    if found is None:
        _refuse(f"{what} is not in padded standard base64")
    return found


def _base64(data: bytes) -> bytes:
    return b2a_base64(data, newline=False)


def _refuse(problem: str) -> NoReturn:
    raise IntegrityError(
        f"not a signed envelope: {problem}",
        remedy="fetch it from the archive; `esper certificates path` rewrites it",
    )
