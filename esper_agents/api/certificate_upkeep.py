"""Operations of an open project that audit or change its archive, such as repair, prune and revoke."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.api.service import Service

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from esper_agents.archive.pruned_pages import PrunablePages
    from esper_agents.archive.record_audit import RecordAudit
    from esper_agents.archive.repair import RepairResult
    from esper_agents.archive.retention import Prunable
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.certificates.log.audit_log import LogAudit
    from esper_agents.certificates.log.note import SignedNote
    from esper_agents.domain.notice import LogNoticeStatement
    from esper_agents.domain.status import Status


class CertificateUpkeep(Service):
    """Audit and change of the archive of an open project; part of `CertificateService`."""

    async def audit_log(self, published: Sequence[tuple[str, SignedNote]] = ()) -> LogAudit:
        """Return the problems of the project's transparency log.

        Args:
            published: Checkpoints from other places, with their locations.
        """
        from esper_agents.archive.inspection import audit_log_faults

        return await self._store.run(audit_log_faults, self._services.project, published)

    async def audit_records(self) -> RecordAudit:
        """Return the certified sessions whose events or notes differ from the digests in their certificates."""
        from esper_agents.archive.record_audit import audit_records

        return await self._store.run(audit_records, self._key)

    async def repair(self, *, accept_rollback: bool = False) -> RepairResult:
        """Rebuild everything that can be rebuilt from the log; see `archive.repair`.

        Raises:
            IntegrityError: The log contradicts the pinned checkpoint, and `accept_rollback` is false.
        """
        from esper_agents.api.current_user import person
        from esper_agents.archive.repair import repair

        run = self._store.run
        return await run(repair, self._place, accept_rollback=accept_rollback, by=person())

    async def prunable(self, *, days: int) -> Prunable:
        """Return the data that could be pruned from sessions without events for this many days; remove nothing."""
        from esper_agents.archive import retention

        return await self._store.run(retention.prunable, self._place, days)

    async def prune(self, chosen: Prunable, *, days: int) -> Prunable:
        """Remove the data listed by `prunable` that is still unused, and return what was removed."""
        from esper_agents.api.current_user import person
        from esper_agents.archive import retention

        return await self._store.run(retention.prune, self._place, chosen, days=days, by=person())

    async def prunable_pages(self, *, days: int) -> PrunablePages:
        """Return the HTML pages of certificates older than this many days; remove nothing."""
        from esper_agents.archive.pruned_pages import prunable_pages

        return await self._store.run(prunable_pages, self._place, days)

    async def prune_pages(self, chosen: PrunablePages) -> PrunablePages:
        """Remove the pages listed by `prunable_pages`, and publish none for these certificates from now on."""
        from esper_agents.archive.pruned_pages import prune_pages

        return prune_pages(self._place, chosen)

    async def revoke(self, certificate_id: str, reason: str) -> LogNoticeStatement:
        """Revoke a certificate in the log, and publish the revocation next to its view.

        Raises:
            NotFoundError: The project has no such certificate.
            UsageError: No reason is given, or it is the published certificate of a colleague.
            EvidenceError: It is a published certificate of a key that is not trusted.
        """
        from esper_agents.api.current_user import person
        from esper_agents.archive.changes.revocation import revoke

        if published := await self._of_others(certificate_id):
            from esper_agents.archive.changes.published_changes import revoke_published

            run, (entry, data, record) = self._store.run, published
            return await run(revoke_published, self._place, entry, data, record, reason=reason, by=person())
        return await self._store.run(revoke, self._place, certificate_id, reason, person())

    async def _of_others(self, certificate_id: str) -> tuple[CertificateSummary, bytes, Path] | None:
        """Return a published certificate of a trusted key, its bytes and its envelope; None for one of the archive."""
        certificates = self._project.certificates
        entry = await certificates.get_trusted(certificate_id)
        record = self._services.certificates.envelope_path(entry)
        return None if record is None else (entry, await certificates.record(entry.id), record)

    async def override(self, certificate_id: str, status: Status, reason: str) -> LogNoticeStatement:
        """Override the status of a certificate in the log by a user's decision; see `archive.changes.overrides`.

        Raises:
            NotFoundError: The project has no such certificate.
            UsageError: No reason is given, or the status is not a valid override of the certificate's status.
            IntegrityError: The certificate was modified.
            NotCurrentError: The certificate is revoked or superseded.
            EvidenceError: It is a published certificate of a key that is not trusted.
        """
        from esper_agents.api.current_user import person
        from esper_agents.archive.changes.overrides import override

        run = self._store.run
        if published := await self._of_others(certificate_id):
            from esper_agents.archive.changes.published_changes import override_published

            _, data, record = published
            return await run(override_published, self._place, data, record, status, reason=reason, by=person())
        return await run(override, self._place, certificate_id, status, reason=reason, by=person())
