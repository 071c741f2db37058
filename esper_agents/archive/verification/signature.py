"""Check the authenticity of a certificate: signature and inclusion in a log. Read-only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.certificates.check import Check, CheckOutcome
from esper_agents.certificates.log.note import includes, read_proof, signer
from esper_agents.certificates.signing.dsse import Envelope, is_signed_by, read_envelope
from esper_agents.certificates.signing.public_keys import key_id_of
from esper_agents.errors import IntegrityError

if TYPE_CHECKING:
    from esper_agents.certificates.signing.key_history import KeyHistory
    from esper_agents.certificates.signing.trusted_keys import TrustedKeys

SIGNATURE, LOG = "signature", "log"
# If the index of an entry is unknown, accept any key that was valid at some time and never ended.
NO_INDEX = 2**62


@dataclass(frozen=True, slots=True)
class Keyring:
    """Keys whose signatures are accepted, with their validity.

    Attributes:
        trusted: Keys that the user trusts.
        history: Validity of keys per entry of the local log.
    """

    trusted: TrustedKeys
    history: KeyHistory

    def who(self, public_key: bytes) -> str:
        """Return a description of the owner of a key."""
        return self.trusted.who(public_key) or "a key added to the log by a trusted key"

    def has_same_owner(self, key_id: str, signer: str) -> bool:
        """Return whether a key is the signer's, or another one that is trusted under the same name.

        Args:
            key_id: Fingerprint of the key.
            signer: Fingerprint of the key that signed a certificate.
        """
        names: dict[str, set[str]] = {key_id: set(), signer: set()}
        for key in self.trusted.keys:
            if key.signer.raw and (found := key_id_of(key.signer.raw)) in names:
                names[found].add(key.signer.principal)
        return key_id == signer or bool(names[key_id] & names[signer])

    def has_same_log(self, key_id: str, signer: str) -> bool:
        """Return whether two keys sign entries of one log: one owner has both, or the log introduced one by the other.

        On a shared database, each machine signs with its own key, which a user has enrolled in the log.

        Args:
            key_id: Fingerprint of the key.
            signer: Fingerprint of the key that signed a certificate in the log.
        """
        pairs = ((one, other) for one in self._introduced_by(key_id) for other in self._introduced_by(signer))
        return any(self.has_same_owner(one, other) for one, other in pairs)

    def _introduced_by(self, key_id: str) -> list[str]:
        """Return a key with the keys that introduced it to the log, directly or through other keys."""
        found = [key_id]
        while (span := self.history.spans.get(found[-1])) is not None and span.added_by and span.added_by not in found:
            found.append(span.added_by)
        return found


def read_sealed(data: bytes) -> Envelope | Check:
    """Parse an envelope; return the failed check if the bytes are not one."""
    try:
        return read_envelope(data)
    except IntegrityError as error:
        return Check(SIGNATURE, CheckOutcome.FAILS, error.problem)


def signature_check(envelope: Envelope, keyring: Keyring, index: int | None) -> Check:
    """Verify the signature of an envelope.

    A signature of an untrusted key gives `cannot decide`: whoever created the files may have created the key.

    Args:
        envelope: Envelope to verify.
        keyring: Accepted keys.
        index: Index of its log entry; None if unknown.
    """
    at = NO_INDEX if index is None else index
    span = keyring.history.spans.get(envelope.key_id)
    if span is None:
        said = keyring.history.said(envelope.key_id, at)
        detail = f"{said}; confirm the fingerprint with its owner, then run `esper keys trust`"
        return Check(SIGNATURE, CheckOutcome.CANNOT_DECIDE, detail)
    if not is_signed_by(envelope, span.public_key):
        return Check(SIGNATURE, CheckOutcome.FAILS, f"signature does not match key {envelope.key_id}")
    if index is None and span.last is not None:
        detail = f"{keyring.history.said(envelope.key_id, at)}; log index of the certificate unknown"
        return Check(SIGNATURE, CheckOutcome.CANNOT_DECIDE, detail)
    if not span.is_good(at):
        return Check(SIGNATURE, CheckOutcome.FAILS, keyring.history.said(envelope.key_id, at))
    said = "" if span.last is None else f"; {keyring.history.said(envelope.key_id, at)}"
    return Check(SIGNATURE, CheckOutcome.HOLDS, f"signed by {keyring.who(span.public_key)}, {envelope.key_id}{said}")


def proof_check(envelope_data: bytes, proof_data: bytes | None, keyring: Keyring, origin: str = "") -> Check:
    """Verify an inclusion proof against a checkpoint signed by a trusted key.

    Args:
        envelope_data: Bytes of the envelope, the leaf of the log.
        proof_data: Bytes of the proof; None if there is no proof.
        keyring: Accepted keys.
        origin: Required log origin; empty accepts any log.
    """
    if proof_data is None:
        return Check(LOG, CheckOutcome.CANNOT_DECIDE, "inclusion proof not found next to the certificate")
    try:
        proof = read_proof(proof_data)
    except IntegrityError as error:
        return Check(LOG, CheckOutcome.FAILS, error.problem)
    head = proof.checkpoint
    if not includes(proof, envelope_data):
        return Check(LOG, CheckOutcome.FAILS, f"inclusion proof does not match the checkpoint of {head.origin}")
    if origin and head.origin != origin:
        return Check(LOG, CheckOutcome.FAILS, f"inclusion proof belongs to log {head.origin}, expected {origin}")
    by = signer(proof.note, head.origin, keyring.history.checkpoint_keys(head.size))
    if by is None:
        return Check(LOG, CheckOutcome.CANNOT_DECIDE, f"checkpoint of {head.origin} is not signed by a trusted key")
    detail = f"entry {proof.idx} of {head.size} in {head.origin}, signed by {key_id_of(by)}"
    return Check(LOG, CheckOutcome.HOLDS, detail)
