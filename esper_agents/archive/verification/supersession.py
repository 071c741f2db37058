"""Standing of a certificate: superseded, revoked or overridden by later entries."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.certificates.answer import program_summary
from esper_agents.certificates.check import Check, CheckOutcome
from esper_agents.certificates.log import transparency_log
from esper_agents.certificates.notices import log_notices
from esper_agents.certificates.signing.dsse import is_signed_by
from esper_agents.certificates.statement import digest_of, parse
from esper_agents.domain.notice import NoticeKind
from esper_agents.domain.relation import RelationKind
from esper_agents.domain.status import Status, replacements
from esper_agents.errors import EsperError
from esper_agents.storage.lazy_sql import sql, tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection

    from esper_agents.archive.verification.signature import Keyring
    from esper_agents.certificates.signing.key_history import KeyHistory, LogNotice
    from esper_agents.domain.certificate import Certificate


class EndingKind(StrEnum):
    """Kind of a later entry that ends a certificate."""

    SUPERSEDED = "superseded"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class SupersedingEntry:
    """Later entry that ends a certificate.

    Attributes:
        ending: Kind of the ending.
        by: Certificate or notice that ends it.
        at: Time of issue of that entry.
        reason: Reason as text; may be empty.
    """

    ending: EndingKind
    by: str
    at: str
    reason: str

    def __str__(self) -> str:
        """Return the ending in one line."""
        match self.ending:
            case EndingKind.SUPERSEDED:
                return f"superseded by {self.by}"
            case EndingKind.REVOKED:
                return f"revoked: {self.reason}" if self.reason else "revoked"


@dataclass(frozen=True, slots=True)
class Override:
    """Override of a certificate's status by a user, recorded in the log; the certificate is unchanged.

    Attributes:
        status: Status that replaces the certificate's.
        is_better: Whether it is better than the evidence allows.
        by: The user's name on that machine, which is not verified.
        at: Time of the override.
        reason: Reason as text.
        notice: Notice that records it.
    """

    status: Status
    is_better: bool
    by: str
    at: str
    reason: str
    notice: str

    def __str__(self) -> str:
        """Return the override in one line."""
        return f"overridden by {self.by} to {self.status}: {self.reason}"


OBJECTION = "objection"
_ENDINGS = {RelationKind.SUPERSEDES: EndingKind.SUPERSEDED, RelationKind.REVOKES: EndingKind.REVOKED}


def later_entries(
    connection: Connection, log_id: int, certificate_id: str, keys: Keyring
) -> tuple[SupersedingEntry, ...]:
    """Return the log entries that end a certificate, oldest first; entries without a valid signature are ignored.

    A certificate supersedes those of its own signer, and of keys that the log introduced by it or it by them.

    Args:
        connection: The archive.
        log_id: Log that contains the certificate.
        certificate_id: The certificate.
        keys: Trusted keys, with their validity per entry.
    """
    found = [*_by_certificates(connection, log_id, certificate_id, keys)]
    notices = log_notices(transparency_log.notices_about(connection, log_id, certificate_id))
    found += by_notices(notices, certificate_id, keys.history)
    return tuple(sorted(found, key=lambda each: each.at))


def relations(connection: Connection, position: int) -> frozenset[tuple[str, str]]:
    """Return the index rows of the certificates that a certificate ends: each ID with the kind of ending.

    Args:
        connection: The archive.
        position: Position of the certificate in the archive.
    """
    columns = sql.select(tables.certificate_relation.c.other, tables.certificate_relation.c.kind)
    rows = connection.execute(columns.where(tables.certificate_relation.c.position == position))
    return frozenset((other, str(kind)) for other, kind in rows)


def by_notices(notices: Iterable[LogNotice], certificate_id: str, keys: KeyHistory) -> Iterator[SupersedingEntry]:
    """Yield the revocations of a certificate among notices signed by a valid key."""
    for each in notices:
        notice = each.notice
        is_of_it = notice.kind is NoticeKind.CERTIFICATE_REVOKED and notice.certificate == certificate_id
        if is_of_it and _is_by_good_key(each, keys):
            yield SupersedingEntry(EndingKind.REVOKED, notice.id, notice.at, notice.reason)


def objection_check(entry: LogNotice, who: str) -> Check:
    """Return the check for a revocation of a certificate by another key than its signer's.

    It does not revoke: the certificate is undecided until its signer has revoked it, or the notice is withdrawn.
    """
    reason = f": {entry.notice.reason}" if entry.notice.reason else ""
    detail = f"{who}, {entry.envelope.key_id}, wants it revoked{reason}; only its signer can revoke it"
    return Check(OBJECTION, CheckOutcome.CANNOT_DECIDE, detail)


def override_of(notices: Iterable[LogNotice], statement: bytes, keys: KeyHistory) -> Override | None:
    """Return the override of a certificate's status: the last one signed by a valid key.

    An override applies only to exactly these bytes, with a status of their question type. An override to the
    certificate's own status cancels earlier ones.

    Args:
        notices: Notices about the certificate. If their log index is unknown, the latest by date is last.
        statement: Bytes of the certificate.
        keys: Validity of keys per entry.

    Raises:
        IntegrityError: The bytes are no certificate.
    """
    verdict, digest = parse(statement).verdict, digest_of(statement).removeprefix("sha256:")
    ranked = replacements(verdict.kind, verdict.status)
    counted = [
        each
        for each in notices
        if each.notice.kind is NoticeKind.OVERRIDDEN
        and each.notice.certificate_sha256 == digest
        and each.notice.status in ranked
        and _is_by_good_key(each, keys)
    ]
    last = max(counted, key=lambda each: (each.index, each.notice.at, each.notice.id), default=None)
    if last is None or last.notice.status == verdict.status:
        return None
    notice, status = last.notice, Status(last.notice.status)
    is_better = ranked.index(status) < ranked.index(verdict.status)
    return Override(status, is_better, notice.by, notice.at, notice.reason, notice.id)


def forged_notices(notices: Iterable[LogNotice], keys: KeyHistory) -> Iterator[str]:
    """Yield the IDs of notices whose stated key is known but whose signature is invalid."""
    for notice in notices:
        span = keys.spans.get(notice.envelope.key_id)
        if span is not None and not is_signed_by(notice.envelope, span.public_key):
            yield notice.notice.id


def _is_by_good_key(entry: LogNotice, keys: KeyHistory) -> bool:
    key = keys.good_key(entry.envelope.key_id, entry.index)
    return key is not None and is_signed_by(entry.envelope, key)


def _by_certificates(
    connection: Connection, log_id: int, certificate_id: str, keys: Keyring
) -> Iterator[SupersedingEntry]:
    try:
        signer = transparency_log.entry(connection, log_id, certificate_id).key_id
    except EsperError:
        # Without an entry nothing can follow it; verification reports the missing one.
        return
    wanted = (
        sql.select(tables.certificate.c.id)
        .join(tables.certificate_relation, tables.certificate_relation.c.position == tables.certificate.c.position)
        .where(
            tables.certificate_relation.c.other == certificate_id,
            tables.certificate_relation.c.kind.in_(list(_ENDINGS)),
        )
    )
    for other in connection.scalars(wanted.distinct()).all():
        try:
            entry, envelope = (
                transparency_log.entry(connection, log_id, other),
                transparency_log.envelope(connection, log_id, other),
            )
            issued = parse(entry.statement)
        except EsperError:
            continue
        key = keys.history.good_key(entry.key_id, entry.idx)
        if key is not None and is_signed_by(envelope, key) and keys.has_same_log(entry.key_id, signer):
            yield from _ended_by(issued, certificate_id)


def by_statement(data: bytes, certificate_id: str) -> Iterator[SupersedingEntry]:
    """Yield the endings that a statement declares for a certificate; the caller has verified its signature.

    Raises:
        IntegrityError: The bytes are no certificate.
    """
    yield from _ended_by(parse(data), certificate_id)


def _ended_by(issued: Certificate, certificate_id: str) -> Iterator[SupersedingEntry]:
    for relation in issued.relations:
        if relation.certificate == certificate_id and relation.kind in _ENDINGS:
            yield SupersedingEntry(_ENDINGS[relation.kind], issued.id, issued.issued_at, program_summary(issued))
