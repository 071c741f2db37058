"""Revoke a certificate in the log and publish the notice next to its view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.publishing import publish
from esper_agents.certificates.log_entry import enter_unlogged
from esper_agents.certificates.notices import enter_notice
from esper_agents.domain.codec import carried
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.notice import LogNoticeStatement, NoticeKind
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.storage.store import Store


def revoke(store: Store, place: ProjectPlace, certificate_id: str, reason: str, by: str) -> LogNoticeStatement:
    """Revoke a certificate in the log.

    Args:
        store: The archive.
        place: Project with the places of its certificates.
        certificate_id: ID, end of an ID, or `latest`.
        reason: Reason as text.
        by: Name of the user.

    Raises:
        NotFoundError: The project has no such certificate.
        UsageError: No reason is given.
        IntegrityError: The log is inconsistent with its pin or checkpoint.
    """
    if not reason.strip():
        raise UsageError("a revocation needs a reason", remedy='add --reason "..."')
    entry = archive.find(store, place.project.key, certificate_id)
    with store.writing() as transaction:
        enter_unlogged(transaction, str(store.where), place.project.key)
        notice = LogNoticeStatement(
            id=new_id(Prefix.NOTICE),
            kind=NoticeKind.CERTIFICATE_REVOKED,
            at=transaction.at,
            by=carried(by),
            reason=carried(reason.strip()),
            certificate=entry.id,
            certificate_sha256=entry.sha256,
        )
        enter_notice(transaction, place.project.key, notice)
    publish(store, place, entry.id)
    return notice
