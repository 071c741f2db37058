"""Notices: transparency log entries other than certificates, such as a new key or a revocation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EntryKind(StrEnum):
    """What an entry of the log is."""

    CERTIFICATE = "certificate"
    NOTICE = "notice"


class NoticeKind(StrEnum):
    """What a notice says."""

    KEY_ADDED = "key-added"
    KEY_RETIRED = "key-retired"
    KEY_REVOKED = "key-revoked"
    CERTIFICATE_REVOKED = "certificate-revoked"
    COUNTERSIGNED = "countersigned"
    OVERRIDDEN = "overridden"
    ROLLBACK_ACCEPTED = "rollback-accepted"


@dataclass(frozen=True, slots=True)
class LogNoticeStatement:
    """One thing that the log says beside certificates.

    Attributes:
        id: `ntc_` identifier.
        kind: What it says.
        at: When, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        by: The person's name on that machine, who is not checked.
        reason: Why, in words; may be empty where the kind says all.
        key: The OpenSSH public key that it is about, `ssh-ed25519 AAAA...`; empty where it is about none.
        certificate: The certificate that it is about, by identifier; empty where it is about none.
        certificate_sha256: Digest of that certificate's statement, 64 hex digits; empty likewise.
        signature: An SSH signature in its armour over that statement; empty where it is no countersignature.
        before: The checkpoint that was pinned before a rollback; empty otherwise.
        status: The status that a person puts in the place of the certificate's; empty where it overrides none.
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
