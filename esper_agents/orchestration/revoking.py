"""Revoke a certificate in the log and publish the notice next to its view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.certificates import archive
from esper_agents.certificates.log_entry import enter_unlogged
from esper_agents.certificates.notices import enter_notice
from esper_agents.domain.codec import carried
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.notice import LogNoticeStatement, NoticeKind
from esper_agents.errors import UsageError
from esper_agents.orchestration.publish import publish

if TYPE_CHECKING:
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.storage.store import Store


def revoke(store: Store, services: ProjectServices, certificate_id: str, reason: str, by: str) -> LogNoticeStatement:
    """Revoke a certificate in the log.

    Args:
        store: The archive.
        services: Services of the project.
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
    entry = archive.find(store, services.project.key, certificate_id)
    with store.writing() as transaction:
        enter_unlogged(transaction, str(store.where), services.project.key)
        notice = LogNoticeStatement(
            id=new_id(Prefix.NOTICE),
            kind=NoticeKind.CERTIFICATE_REVOKED,
            at=transaction.at,
            by=carried(by),
            reason=carried(reason.strip()),
            certificate=entry.id,
            certificate_sha256=entry.sha256,
        )
        enter_notice(transaction, services.project.key, notice)
    publish(store, services, entry.id)
    return notice
