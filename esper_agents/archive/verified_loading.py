"""Require that a certificate is authentic before later work builds on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.archive.inspection import inspect_certificate
from esper_agents.archive.verification.signature import proof_check, read_sealed, signature_check
from esper_agents.certificates.check import Check, CheckOutcome, claim
from esper_agents.errors import EvidenceError, IntegrityError

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.archive.inspection import CertificateInspection
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.archive.verification.signature import Keyring
    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Store


@dataclass(frozen=True, slots=True)
class VerifiedCertificate:
    """Authentic certificate: its bytes, a valid signature and its index in the log.

    Attributes:
        entry: Listing row of the certificate.
        data: Bytes of the statement.
    """

    entry: CertificateSummary
    data: bytes


def load_verified(store: Store, project: Project, folder: Path, certificate_id: str) -> VerifiedCertificate:
    """Return an authentic certificate, or raise.

    Args:
        store: The archive.
        project: Project of the certificate.
        folder: Folder of the project in the data directory.
        certificate_id: ID, end of an ID, or `latest`.

    Raises:
        NotFoundError: The project has no such certificate.
        IntegrityError: Its bytes differ from those issued, or its signature is not valid.
        EvidenceError: Undecided: it is unsigned, or signed by an untrusted key.
    """
    found, keys = inspect_certificate(store, project, folder, certificate_id)
    signed = _signed(found, keys) if found.envelope is not None else ()
    for each in (*found.checks, *signed):
        if each.outcome is CheckOutcome.FAILS:
            problem = f"certificate {found.entry.id} is not authentic: {each.detail}"
            raise IntegrityError(problem, remedy=f"see `esper certificates verify {found.entry.id}`")
    for each in (*found.checks, *signed):
        if each.outcome is CheckOutcome.CANNOT_DECIDE:
            problem = f"authenticity of certificate {found.entry.id} is unknown: {each.detail}"
            raise EvidenceError(problem, remedy=f"see `esper certificates verify {found.entry.id}`")
    if found.data is None:
        raise AssertionError("changed bytes without a failed check")
    return VerifiedCertificate(found.entry, found.data)


def _signed(found: CertificateInspection, keys: Keyring) -> tuple[Check, ...]:
    """Verify that a valid key signed exactly the archived bytes, and that the log contains them."""
    data = found.envelope or b""
    sealed = read_sealed(data)
    if isinstance(sealed, Check):
        return (sealed,)
    same = [] if sealed.payload == found.data else ["signed bytes differ from the archived bytes"]
    return (
        claim("record", same, "archived bytes match the signed bytes"),
        signature_check(sealed, keys, found.index),
        proof_check(data, found.proof, keys),
    )
