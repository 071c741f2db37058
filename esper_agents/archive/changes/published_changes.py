"""Override and revoke published certificates in the own log and next to their views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.archive.changes.overrides import refuse_misfit
from esper_agents.archive.inspection import keyring
from esper_agents.archive.publishing import publish_notice, view_of
from esper_agents.archive.verification.published_records import bytes_of, published_endings, published_override
from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.log_entry import enter_unlogged
from esper_agents.certificates.notices import enter_notice
from esper_agents.certificates.signing.dsse import read_envelope
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import digest_of, parse
from esper_agents.domain.codec import carried
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.notice import LogNoticeStatement, NoticeKind
from esper_agents.domain.status import replacements
from esper_agents.errors import NotCurrentError, UsageError
from esper_agents.paths import home
from esper_agents.storage.projects import note_project

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.domain.status import Status
    from esper_agents.storage.store import Store


def override_published(
    store: Store, place: ProjectPlace, statement: bytes, record: Path, status: Status, *, reason: str, by: str
) -> LogNoticeStatement:
    """Override the status of a published certificate by the user's decision.

    It counts for those who trust the user's key: a worse status always, a better one only if that is accepted.

    Args:
        store: The user's archive.
        place: Project with the places of its certificates.
        statement: Bytes of the certificate, which a trusted key signed.
        record: Its published envelope.
        status: Status that replaces the certificate's.
        reason: Reason as text.
        by: Name of the user.

    Raises:
        UsageError: No reason is given, or the status is not allowed as a replacement.
        NotCurrentError: The certificate is revoked or superseded.
        IntegrityError: The log of the user is inconsistent, or the envelope was modified.
        InputFileError: The envelope cannot be read.
    """
    if not reason.strip():
        raise UsageError("an override needs a reason", remedy='add --reason "..."')
    issued, keys, view = parse(statement), keyring(place.project), view_of(record)
    refuse_misfit(issued.verdict, status)
    for later in published_endings(read_envelope(bytes_of(record)), view, keys, ()).later:
        raise NotCurrentError(
            f"certificate {issued.id} is {later.ending} by {later.by}",
            remedy=f"see `esper certificates verify {issued.id}`",
        )
    standing = published_override(statement, view, keys)
    if status is (standing.status if standing else issued.verdict.status):
        raise UsageError(f"{issued.id} already has status {status}", remedy="name another status")
    return _enter(store, place, statement, record, NoticeKind.OVERRIDDEN, status=status, reason=reason, by=by)


def revoke_published(
    store: Store,
    place: ProjectPlace,
    entry: CertificateSummary,
    statement: bytes,
    record: Path,
    *,
    reason: str,
    by: str,
) -> LogNoticeStatement:
    """Revoke a published certificate that the user's own key signed, as from another machine.

    Args:
        store: The user's archive.
        place: Project with the places of its certificates.
        entry: The certificate in the listing.
        statement: Its bytes.
        record: Its published envelope.
        reason: Reason as text.
        by: Name of the user.

    Raises:
        UsageError: Another key signed the certificate, or no reason is given.
        IntegrityError: The log of the user is inconsistent.
    """
    if not reason.strip():
        raise UsageError("a revocation needs a reason", remedy='add --reason "..."')
    if entry.key_id != signing_key(home()).key_id:
        raise UsageError(
            f"{entry.id} is signed by {entry.signer or entry.key_id}, and only its signer can revoke it",
            remedy=_objection(entry),
        )
    return _enter(store, place, statement, record, NoticeKind.CERTIFICATE_REVOKED, status="", reason=reason, by=by)


def _objection(entry: CertificateSummary) -> str:
    worse = replacements(entry.kind, entry.status)
    if not worse or worse[-1] is entry.status:
        return "ask its signer to revoke it"
    return f'object to it: esper certificates override {entry.id} --status {worse[-1]} --reason "..."'


def _enter(
    store: Store,
    place: ProjectPlace,
    statement: bytes,
    record: Path,
    kind: NoticeKind,
    *,
    status: str,
    reason: str,
    by: str,
) -> LogNoticeStatement:
    with store.writing() as transaction:
        note_project(transaction, place.project)
        enter_unlogged(transaction, str(store.where), place.project.key)
        notice = LogNoticeStatement(
            id=new_id(Prefix.NOTICE),
            kind=kind,
            at=transaction.at,
            by=carried(by),
            reason=carried(reason.strip()),
            certificate=parse(statement).id,
            certificate_sha256=digest_of(statement).removeprefix("sha256:"),
            status=status,
        )
        enter_notice(transaction, place.project.key, notice)
    with store.reading() as connection:
        log_id = transparency_log.log_of(connection, place.project.key)
        publish_notice(record, notice, transparency_log.envelope(connection, log_id, notice.id))
        pins.renew(connection, home(), store.where, place.project.key)
    return notice
