"""Notices: transparency log entries other than certificates, such as a new key or a revocation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from esper_agents.domain.stored_kinds import EntryKind as EntryKind  # noqa: PLC0414 - exported


class NoticeKind(StrEnum):
    """Kind of a notice."""

    KEY_ADDED = "key-added"
    KEY_ENROLLED = "key-enrolled"
    KEY_RETIRED = "key-retired"
    KEY_REVOKED = "key-revoked"
    CERTIFICATE_REVOKED = "certificate-revoked"
    COUNTERSIGNED = "countersigned"
    OVERRIDDEN = "overridden"
    ROLLBACK_ACCEPTED = "rollback-accepted"


@dataclass(frozen=True, slots=True)
class LogNoticeStatement:
    """The signed statement of a notice in the transparency log.

    Attributes:
        id: `ntc_` identifier.
        kind: Kind of the notice.
        at: Time, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        by: Name of the user on that machine; not verified.
        reason: Reason, in words; may be empty if the kind is sufficient.
        key: The OpenSSH public key concerned, `ssh-ed25519 AAAA...`; empty if the notice concerns no key.
        certificate: Identifier of the certificate concerned; empty if the notice concerns no certificate.
        certificate_sha256: Digest of that certificate's statement, 64 hex digits; empty if there is no certificate.
        signature: An armoured SSH signature over that statement; empty unless the notice is a countersignature.
        before: The checkpoint that was pinned before a rollback; empty otherwise.
        status: The status that replaces the certificate's status; empty unless the notice is an override.
    """

    id: str
    kind: NoticeKind
    at: str
    by: str
    reason: str
    key: str = ""
    certificate: str = ""
    certificate_sha256: str = ""
    signature: str = ""
    before: str = ""
    status: str = ""
