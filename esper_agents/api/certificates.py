"""Certificate operations of an open project: find, read, verify, revoke, export, prune."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.api.current_user import person
from esper_agents.certificates import archive, trends
from esper_agents.certificates.audit.import_certificates import imported
from esper_agents.certificates.exporting import export
from esper_agents.certificates.filters import Filter
from esper_agents.certificates.search import search
from esper_agents.certificates.signing.trusted_keys import trusted
from esper_agents.certificates.statement import parse
from esper_agents.certificates.views.markdown import render_markdown
from esper_agents.orchestration import retention
from esper_agents.orchestration.holding import audit_log_faults, inspect_certificate
from esper_agents.orchestration.overriding import override, overrides
from esper_agents.orchestration.publish import find_published, publish, publish_page, record_path
from esper_agents.orchestration.record_audit import audit_records
from esper_agents.orchestration.repair import repair
from esper_agents.orchestration.revoking import revoke
from esper_agents.paths import home

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from esper_agents.certificates.archive import CertificateSummary
    from esper_agents.certificates.audit.import_certificates import ImportedCertificate
    from esper_agents.certificates.authenticity import Keyring
    from esper_agents.certificates.exporting import ExportResult
    from esper_agents.certificates.log.audit_log import LogAudit
    from esper_agents.certificates.log.note import SignedNote
    from esper_agents.certificates.search import SearchHit
    from esper_agents.certificates.signing.allowed_signers import Signer
    from esper_agents.certificates.standing import Override
    from esper_agents.certificates.trends import MetricSummary, Point
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.notice import LogNoticeStatement
    from esper_agents.domain.status import Status
    from esper_agents.orchestration.holding import CertificateInspection
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.orchestration.record_audit import RecordAudit
    from esper_agents.orchestration.repair import RepairResult
    from esper_agents.orchestration.retention import Prunable
    from esper_agents.storage.store import AsyncStore


class CertificateService:
    """The part of `OpenProject` that is about certificates and the log that they stand in."""

    workshop: ProjectServices
    root: Path
    _key: str
    _store: AsyncStore

    async def certificates(
        self, *, agent: str = "", wanted: Filter | None = None, before: str = "", limit: int = 50
    ) -> tuple[CertificateSummary, ...]:
        """Return the project's certificates, newest first.

        Args:
            agent: Only what this agent concluded.
            wanted: Only what this filter lets through.
            before: Only those that stand after this one.
            limit: At most so many.
        """
        asked = wanted or Filter()
        asked = replace(asked, agent=agent) if agent else asked
        return await self._store.run(archive.listing, self._key, wanted=asked, before=before, limit=limit)

    async def search(self, wanted: Filter, *, before: str = "", limit: int = 20) -> tuple[SearchHit, ...]:
        """Return the project's certificates that say all the words of a filter, newest first, each with where."""
        return await self._store.run(search, self._key, wanted, before=before, limit=limit)

    async def metrics(self, wanted: Filter | None = None) -> tuple[MetricSummary, ...]:
        """Return which numbers the project's newest certificates have on record, those of most certificates first."""
        return await self._store.run(trends.recorded, self._key, wanted or Filter())

    async def trend(self, metric: str, wanted: Filter | None = None, *, limit: int = 50) -> tuple[Point, ...]:
        """Return the newest amounts of a metric over the project's certificates, oldest first.

        Raises:
            NotFoundError: No certificate has that metric, or the name may mean several.
        """
        return await self._store.run(trends.trend, self._key, metric, wanted or Filter(), limit=limit)

    async def export(self, wanted: Filter, to: Path) -> ExportResult:
        """Write certificates with what somebody else needs to check them to a `.tar` file or a new folder.

        Raises:
            UsageError: It is there already.
        """
        public_key = trusted(home(), self.root, self._key).public_key
        return await self._store.run(export, self._key, wanted, to, public_key)

    async def certificate(self, certificate_id: str) -> CertificateSummary:
        """Return one certificate's entry, by identifier, the end of it, or `latest`.

        Raises:
            NotFoundError: The project has none of that name.
        """
        return await self._store.run(archive.find, self._key, certificate_id)

    async def held(self, certificate_id: str, given: Sequence[Signer] = ()) -> tuple[CertificateInspection, Keyring]:
        """Return what the archive has of a certificate beside its bytes, and whose signatures count.

        Args:
            certificate_id: Its identifier, the end of one, or `latest`.
            given: Further keys that are trusted, for this time.

        Raises:
            NotFoundError: The project has none of that name.
        """
        return await self._store.run(
            inspect_certificate, self.workshop.project, self.workshop.home, certificate_id, given
        )

    async def every_certificate(self) -> tuple[CertificateSummary, ...]:
        """Return all of the project's certificates, newest first."""
        return await self._store.run(archive.everything, self._key)

    async def imported(self, *, limit: int = 50) -> tuple[ImportedCertificate, ...]:
        """Return certificates of others that were taken in, newest first; nobody vouches for them."""
        return await self._store.run(imported, self._key, limit=limit)

    async def audit_log(self, published: Sequence[tuple[str, SignedNote]] = ()) -> LogAudit:
        """Return what is wrong with the log that the project's certificates stand in.

        Args:
            published: Checkpoints from elsewhere, each with where it was found.
        """
        return await self._store.run(audit_log_faults, self.workshop.project, published)

    async def audit_records(self) -> RecordAudit:
        """Return which certified sessions have other events or notes than their certificates sign."""
        return await self._store.run(audit_records, self._key)

    async def repair(self, *, accept_rollback: bool = False) -> RepairResult:
        """Make again whatever can be made from the log; see `orchestration.repair`.

        Raises:
            IntegrityError: The log contradicts what was last seen of it, and that is not accepted.
        """
        run = self._store.run
        return await run(repair, self.workshop, accept_rollback=accept_rollback, by=person())

    async def prunable(self, *, days: int) -> Prunable:
        """Return what could be removed of sessions in which nothing has happened for so many days; nothing is."""
        return await self._store.run(retention.prunable, self.workshop, days)

    async def prune(self, chosen: Prunable, *, days: int) -> Prunable:
        """Remove what `prunable` named, as far as nothing needs it any more, and return what was removed."""
        return await self._store.run(retention.prune, self.workshop, chosen, days=days, by=person())

    async def revoke(self, certificate_id: str, reason: str) -> LogNoticeStatement:
        """Say in the log that a certificate does not count any more, and publish that beside its view.

        Raises:
            NotFoundError: The project has none of that name.
            UsageError: No reason is given.
        """
        return await self._store.run(revoke, self.workshop, certificate_id, reason, person())

    async def override(self, certificate_id: str, status: Status, reason: str) -> LogNoticeStatement:
        """Say in the log which status a person puts in the place of a certificate's; see `orchestration.overriding`.

        Raises:
            NotFoundError: The project has none of that name.
            UsageError: No reason is given, or that status cannot stand in the place of its own.
            IntegrityError: It is not what was issued.
            NotCurrentError: It is revoked or superseded.
        """
        run = self._store.run
        return await run(override, self.workshop, certificate_id, status, reason=reason, by=person())

    async def overrides(self, entries: Sequence[CertificateSummary]) -> dict[str, Override]:
        """Return what overrides the status of each certificate of a listing, by identifier."""
        return await self._store.run(overrides, self.workshop.project, entries)

    async def record(self, certificate_id: str) -> bytes:
        """Return a certificate's bytes, an in-toto Statement.

        Raises:
            IntegrityError: They are not the bytes that were issued.
        """
        return await self._store.run(archive.read, (await self.certificate(certificate_id)).id)

    async def read(self, certificate_id: str) -> Certificate:
        """Return a certificate as typed data; see `record`."""
        return parse(await self.record(certificate_id))

    async def markdown(self, certificate_id: str) -> str:
        """Return a certificate's Markdown view, rendered anew."""
        return render_markdown(await self.record(certificate_id))

    async def view(self, certificate_id: str) -> Path:
        """Return where a certificate's Markdown view is published, written anew if it or its record is gone."""
        published = await self._store.run(find_published, self.workshop, certificate_id)
        if not (published.view.is_file() and record_path(published.view).is_file()):
            await self._store.run(publish, self.workshop, published.issued.id)
        return published.view

    async def page(self, certificate_id: str) -> Path:
        """Write a certificate's HTML page as this version lays it out, and return where it is."""
        entry = await self.certificate(certificate_id)
        return await self._store.run(publish_page, self.workshop, entry.id)
