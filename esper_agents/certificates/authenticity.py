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
# Of an entry whose place in the log nobody knows, a key that was ever good and never ended may have signed it.
NO_INDEX = 2**62


@dataclass(frozen=True, slots=True)
class Keyring:
    """Whose signatures count, and from where to where.

    Attributes:
        trusted: Whom the person trusts.
        history: Which key is good for which entry of the log at hand.
    """

    trusted: TrustedKeys
    history: KeyHistory

    def who(self, public_key: bytes) -> str:
        """Return whose a key is in words."""
        return self.trusted.who(public_key) or "a key that a trusted one brought into the log"


def read_sealed(data: bytes) -> Envelope | Check:
    """Return the envelope that bytes hold, or the check that failed because they hold none."""
    try:
        return read_envelope(data)
    except IntegrityError as error:
        return Check(SIGNATURE, CheckOutcome.FAILS, error.problem)


def signature_check(envelope: Envelope, keyring: Keyring, index: int | None) -> Check:
    """Check who signed an envelope.

    A key that nobody here trusts decides nothing: whoever made the files may have made the key.

    Args:
        envelope: The envelope.
        keyring: Whose signatures count.
        index: Its place in the log; None where that is not known.
    """
    at = NO_INDEX if index is None else index
    span = keyring.history.spans.get(envelope.key_id)
    if span is None:
        detail = f"{keyring.history.said(envelope.key_id, at)}: compare it with its owner, then `esper keys trust`"
        return Check(SIGNATURE, CheckOutcome.CANNOT_DECIDE, detail)
    if not is_signed_by(envelope, span.public_key):
        return Check(SIGNATURE, CheckOutcome.FAILS, f"it does not carry the signature of {envelope.key_id}")
    if index is None and span.last is not None:
        detail = f"{keyring.history.said(envelope.key_id, at)}, and where this stands in the log is not known"
        return Check(SIGNATURE, CheckOutcome.CANNOT_DECIDE, detail)
    if not span.is_good(at):
        return Check(SIGNATURE, CheckOutcome.FAILS, keyring.history.said(envelope.key_id, at))
    said = "" if span.last is None else f"; {keyring.history.said(envelope.key_id, at)}"
    return Check(SIGNATURE, CheckOutcome.HOLDS, f"signed by {keyring.who(span.public_key)}, {envelope.key_id}{said}")


def proof_check(envelope_data: bytes, proof_data: bytes | None, keyring: Keyring, origin: str = "") -> Check:
    """Check that a proof shows an envelope to stand in a log whose checkpoint a trusted key signed.

    Args:
        envelope_data: The envelope's bytes, the leaf of the log.
        proof_data: The proof's bytes; None where there is none.
        keyring: Whose signatures count.
        origin: The log that it must be; any where empty.
    """
    if proof_data is None:
        return Check(LOG, CheckOutcome.CANNOT_DECIDE, "no proof that it stands in a log is beside it")
    try:
        proof = read_proof(proof_data)
    except IntegrityError as error:
        return Check(LOG, CheckOutcome.FAILS, error.problem)
    head = proof.checkpoint
    if not includes(proof, envelope_data):
        return Check(LOG, CheckOutcome.FAILS, f"the proof does not lead from it to the checkpoint of {head.origin}")
    if origin and head.origin != origin:
        return Check(LOG, CheckOutcome.FAILS, f"the proof is of the log {head.origin}, and this one is {origin}")
    by = signer(proof.note, head.origin, keyring.history.checkpoint_keys(head.size))
    if by is None:
        return Check(
            LOG, CheckOutcome.CANNOT_DECIDE, f"nobody who is trusted here signed the checkpoint of {head.origin}"
        )
    detail = f"entry {proof.idx} of {head.size} in {head.origin}, as {key_id_of(by)} signed"
    return Check(LOG, CheckOutcome.HOLDS, detail)
