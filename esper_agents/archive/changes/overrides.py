"""Override the status of a certificate by a user decision, recorded in the log."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from esper_agents.certificates.log import transparency_log
from esper_agents.domain.notice import LogNoticeStatement, NoticeKind
from esper_agents.errors import EsperError, NotCurrentError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.archive.verification.signature import Keyring
    from esper_agents.archive.verification.supersession import Override
    from esper_agents.certificates.log.transparency_log import LogEntry
    from esper_agents.certificates.signing.key_history import LogNotice
    from esper_agents.domain.project import Project
    from esper_agents.domain.status import Status
    from esper_agents.domain.verdict import Verdict
    from esper_agents.storage.store import Store

_AT_ONCE = 500


def override(
    store: Store, place: ProjectPlace, certificate_id: str, status: Status, *, reason: str, by: str
) -> LogNoticeStatement:
    """Record in the log a user's status that replaces a certificate's, and publish the notice next to its view.

    Every override stays recorded, and the last one applies. An override to the certificate's own status cancels it.

    Args:
        store: The archive.
        place: Project with the places of its certificates.
        certificate_id: ID, end of an ID, or `latest`.
        status: Status that replaces the certificate's.
        reason: Reason as text.
        by: Name of the user.

    Raises:
        NotFoundError: The project has no such certificate.
        UsageError: No reason is given, or the status is not allowed as a replacement.
        IntegrityError: The certificate was changed, or the log is inconsistent.
        EvidenceError: Its authenticity cannot be decided.
        NotCurrentError: It is revoked or superseded.
    """
    from esper_agents.archive.inspection import keyring
    from esper_agents.archive.publishing import publish
    from esper_agents.archive.verification.supersession import override_of
    from esper_agents.archive.verified_loading import load_verified
    from esper_agents.certificates.log_entry import enter_unlogged
    from esper_agents.certificates.notices import enter_notice, log_notices
    from esper_agents.certificates.statement import parse
    from esper_agents.domain.codec import carried
    from esper_agents.domain.identifier import Prefix, new_id

    if not reason.strip():
        raise UsageError("an override needs a reason", remedy='add --reason "..."')
    found = load_verified(store, place.project, place.home, certificate_id)
    verdict = parse(found.data).verdict
    refuse_misfit(verdict, status)
    with store.writing() as transaction:
        enter_unlogged(transaction, str(store.where), place.project.key)
        keys = keyring(place.project, transaction.connection)
        log_id = transparency_log.log_of(transaction.connection, place.project.key)
        _refuse_ended(transaction.connection, log_id, found.entry, keys)
        said = log_notices(transparency_log.notices_about(transaction.connection, log_id, found.entry.id))
        standing = override_of(said, found.data, keys.history)
        if status is (standing.status if standing else verdict.status):
            raise UsageError(f"{found.entry.id} already has status {status}", remedy="name another status")
        notice = LogNoticeStatement(
            id=new_id(Prefix.NOTICE),
            kind=NoticeKind.OVERRIDDEN,
            at=transaction.at,
            by=carried(by),
            reason=carried(reason.strip()),
            certificate=found.entry.id,
            certificate_sha256=found.entry.sha256,
            status=status,
        )
        enter_notice(transaction, place.project.key, notice)
    publish(store, place, found.entry.id)
    return notice


def overrides(store: Store, project: Project, entries: Sequence[CertificateSummary]) -> dict[str, Override]:
    """Return the overrides of a listing's certificates by ID; certificates without one are omitted."""
    ids = [entry.id for entry in entries]
    with store.reading() as connection:
        log_id = transparency_log.log_of(connection, project.key)
        spans = (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))
        known = [each for span in spans for each in transparency_log.notices_about(connection, log_id, *span)]
        return _in_force(connection, log_id, project, known) if known else {}


def _in_force(connection: Connection, log_id: int, project: Project, known: Sequence[LogEntry]) -> dict[str, Override]:
    from esper_agents.archive.inspection import keyring
    from esper_agents.archive.verification.supersession import override_of
    from esper_agents.certificates.notices import log_notices

    said: dict[str, list[LogNotice]] = {}
    for log_notice in log_notices(known):
        if log_notice.notice.kind is NoticeKind.OVERRIDDEN:
            said.setdefault(log_notice.notice.certificate, []).append(log_notice)
    if not said:
        return {}
    keys, found = keyring(project, connection).history, {}
    for name, notices in said.items():
        # Changed certificates are not reported here; verification does that.
        with suppress(EsperError):
            found[name] = override_of(notices, transparency_log.envelope(connection, log_id, name).payload, keys)
    return {name: each for name, each in found.items() if each is not None}


def refuse_misfit(verdict: Verdict, status: Status) -> None:
    """Refuse a status that cannot replace that of a verdict.

    Raises:
        UsageError: Always in that case, with the statuses that can.
    """
    from esper_agents.domain.status import replacements

    known = replacements(verdict.kind, verdict.status)
    if not known:
        problem = f"{verdict.status} cannot be overridden"
        raise UsageError(problem, remedy="fix the reported problem, then run `esper submit --rerun ID`")
    if status not in known:
        others = ", ".join(each for each in known if each is not verdict.status)
        problem = f"{status} cannot replace {verdict.status}"
        raise UsageError(problem, remedy=f"for question type {verdict.kind}, use one of {others}")


def _refuse_ended(connection: Connection, log_id: int, entry: CertificateSummary, keys: Keyring) -> None:
    from esper_agents.archive.verification.supersession import later_entries

    for later_entry in later_entries(connection, log_id, entry.id, keys):
        raise NotCurrentError(
            f"certificate {entry.id} is {later_entry.ending} by {later_entry.by}",
            remedy=f"see `esper certificates verify {entry.id}`",
        )
