"""Certificate operations of an open project: find, read, verify, revoke, export, prune."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.api.current_user import person
from esper_agents.api.service import Service
from esper_agents.archive import retention, trends
from esper_agents.archive import store as archive
from esper_agents.archive.changes.overrides import override, overrides
from esper_agents.archive.changes.revocation import revoke
from esper_agents.archive.export import export
from esper_agents.archive.import_certificates import imported
from esper_agents.archive.inspection import audit_log_faults, inspect_certificate
from esper_agents.archive.publishing import find_published, publish, publish_page, published_views, record_path
from esper_agents.archive.record_audit import audit_records
from esper_agents.archive.repair import repair
from esper_agents.archive.search.filters import Filter
from esper_agents.archive.search.search import search
from esper_agents.certificates.signing.trusted_keys import trusted
from esper_agents.certificates.statement import parse
from esper_agents.certificates.views.markdown import render_markdown
from esper_agents.paths import home

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from esper_agents.archive.export import ExportResult
    from esper_agents.archive.import_certificates import ImportedCertificate
    from esper_agents.archive.inspection import CertificateInspection
    from esper_agents.archive.record_audit import RecordAudit
    from esper_agents.archive.repair import RepairResult
    from esper_agents.archive.retention import Prunable
    from esper_agents.archive.search.search import SearchHit
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.archive.trends import MetricSummary, Point
    from esper_agents.archive.verification.gate import GateResult
    from esper_agents.archive.verification.signature import Keyring
    from esper_agents.archive.verification.supersession import Override
    from esper_agents.archive.verification.verify import VerificationResult
    from esper_agents.archive.verification.verify_all import ArchiveVerification
    from esper_agents.certificates.log.audit_log import LogAudit
    from esper_agents.certificates.log.note import SignedNote
    from esper_agents.certificates.signing.allowed_signers import Signer
    from esper_agents.certificates.views.explanation import VerdictExplanation
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.notice import LogNoticeStatement
    from esper_agents.domain.status import Status


class CertificateService(Service):
    """Certificate operations of an open project, including its transparency log."""

    async def list(
        self, *, agent: str = "", wanted: Filter | None = None, before: str = "", limit: int = 50
    ) -> tuple[CertificateSummary, ...]:
        """Return the project's certificates, newest first.

        Args:
            agent: Only certificates concluded by this agent.
            wanted: Only certificates that match this filter.
            before: Only certificates listed after this identifier.
            limit: Maximum number of certificates.
        """
        asked = wanted or Filter()
        asked = replace(asked, agent=agent) if agent else asked
        return await self._store.run(archive.listing, self._key, wanted=asked, before=before, limit=limit)

    async def search(self, wanted: Filter, *, before: str = "", limit: int = 20) -> tuple[SearchHit, ...]:
        """Return the certificates that contain all words of a filter, newest first, with the matching passages."""
        return await self._store.run(search, self._key, wanted, before=before, limit=limit)

    async def metrics(self, wanted: Filter | None = None) -> tuple[MetricSummary, ...]:
        """Return the metrics recorded in the project's newest certificates, most frequent first."""
        return await self._store.run(trends.recorded, self._key, wanted or Filter())

    async def trend(self, metric: str, wanted: Filter | None = None, *, limit: int = 50) -> tuple[Point, ...]:
        """Return the newest values of a metric over the project's certificates, oldest first.

        Raises:
            NotFoundError: No certificate has that metric, or the name is ambiguous.
        """
        return await self._store.run(trends.trend, self._key, metric, wanted or Filter(), limit=limit)

    async def export(self, wanted: Filter, to: Path) -> ExportResult:
        """Export certificates, with everything needed to verify them elsewhere, to a `.tar` file or a new folder.

        Raises:
            UsageError: The destination exists already.
        """
        public_key = trusted(home(), self._root, self._key).public_key
        return await self._store.run(export, self._key, wanted, to, public_key)

    async def get(self, certificate_id: str) -> CertificateSummary:
        """Return the index entry of one certificate, by identifier, suffix of an identifier, or `latest`.

        Raises:
            NotFoundError: The project has no such certificate.
        """
        return await self._store.run(archive.find, self._key, certificate_id)

    async def inspect(self, certificate_id: str, given: Sequence[Signer] = ()) -> tuple[CertificateInspection, Keyring]:
        """Return the archived data of a certificate other than its bytes, and the keys trusted for it.

        Args:
            certificate_id: Its identifier, a suffix of it, or `latest`.
            given: Additional keys to trust for this call.

        Raises:
            NotFoundError: The project has no such certificate.
        """
        return await self._store.run(
            inspect_certificate, self._services.project, self._services.home, certificate_id, given
        )

    async def verify(self, target: str = "latest", *, trusted_keys: Sequence[Signer] = ()) -> VerificationResult:
        """Verify signature, log entry, verdict and files of a certificate; write nothing.

        Args:
            target: Its identifier, a suffix of it, `latest`, or the path of a published view or envelope.
            trusted_keys: Additional trusted keys for this call; see `read_trusted_keys`.

        Raises:
            NotFoundError: The certificate is neither in the archive nor in the published files.
            InputFileError: The file cannot be read.
            EvidenceError: The envelope of the view is not next to it.
        """
        from esper_agents.archive.verification.certificate_files import find_certificate_files
        from esper_agents.archive.verification.verify import verify

        return verify(await find_certificate_files(target, self._services.project, self._place, trusted_keys))

    async def verify_all(self) -> ArchiveVerification:
        """Verify all certificates of the project, its log, and the events and notes that the certificates sign."""
        from esper_agents.archive.verification.verify_all import verify_all

        return await verify_all(self._place)

    async def gate(
        self,
        paths: Sequence[Path] = (),
        *,
        required: frozenset[Status] | None = None,
        agents: Sequence[str] | None = None,
        trusted_keys: Sequence[Signer] = (),
        accepts_overrides: bool = False,
    ) -> GateResult:
        """Return whether valid certificates cover the files under some paths; see `check_coverage`.

        Raises:
            InputFileError: A path does not exist or contains no files to cover.
        """
        from esper_agents.archive.verification.gate import PASSING, REVIEWERS, gate

        return await gate(
            self._services.project,
            self._place,
            paths,
            required=PASSING if required is None else required,
            agents=REVIEWERS if agents is None else agents,
            signers=trusted_keys,
            accepts_overrides=accepts_overrides,
        )

    async def explain(self, certificate_id: str = "latest") -> VerdictExplanation:
        """Return the explanation of a certificate's verdict: policy rules, findings and their evidence.

        Raises:
            NotFoundError: The project has no such certificate.
            IntegrityError: The bytes were modified.
        """
        from esper_agents.certificates.views.explanation import why

        return why(await self.record(certificate_id))

    async def list_all(self) -> tuple[CertificateSummary, ...]:
        """Return all of the project's certificates, newest first."""
        return await self._store.run(archive.everything, self._key)

    async def list_imported(self, *, limit: int = 50) -> tuple[ImportedCertificate, ...]:
        """Return imported third-party certificates, newest first; they are not verified."""
        return await self._store.run(imported, self._key, limit=limit)

    async def audit_log(self, published: Sequence[tuple[str, SignedNote]] = ()) -> LogAudit:
        """Return the problems of the project's transparency log.

        Args:
            published: Checkpoints from other places, with their locations.
        """
        return await self._store.run(audit_log_faults, self._services.project, published)

    async def audit_records(self) -> RecordAudit:
        """Return the certified sessions whose events or notes differ from the digests in their certificates."""
        return await self._store.run(audit_records, self._key)

    async def repair(self, *, accept_rollback: bool = False) -> RepairResult:
        """Rebuild everything that can be rebuilt from the log; see `archive.repair`.

        Raises:
            IntegrityError: The log contradicts the pinned checkpoint, and `accept_rollback` is false.
        """
        run = self._store.run
        return await run(repair, self._place, accept_rollback=accept_rollback, by=person())

    async def prunable(self, *, days: int) -> Prunable:
        """Return the data that could be pruned from sessions without events for this many days; remove nothing."""
        return await self._store.run(retention.prunable, self._place, days)

    async def prune(self, chosen: Prunable, *, days: int) -> Prunable:
        """Remove the data listed by `prunable` that is still unused, and return what was removed."""
        return await self._store.run(retention.prune, self._place, chosen, days=days, by=person())

    async def revoke(self, certificate_id: str, reason: str) -> LogNoticeStatement:
        """Revoke a certificate in the log, and publish the revocation next to its view.

        Raises:
            NotFoundError: The project has no such certificate.
            UsageError: No reason is given.
        """
        return await self._store.run(revoke, self._place, certificate_id, reason, person())

    async def override(self, certificate_id: str, status: Status, reason: str) -> LogNoticeStatement:
        """Override the status of a certificate in the log by a user's decision; see `archive.changes.overrides`.

        Raises:
            NotFoundError: The project has no such certificate.
            UsageError: No reason is given, or the status is not a valid override of the certificate's status.
            IntegrityError: The certificate was modified.
            NotCurrentError: The certificate is revoked or superseded.
        """
        run = self._store.run
        return await run(override, self._place, certificate_id, status, reason=reason, by=person())

    async def overrides(self, entries: Sequence[CertificateSummary]) -> dict[str, Override]:
        """Return the overrides of the listed certificates, by identifier."""
        return await self._store.run(overrides, self._services.project, entries)

    async def record(self, certificate_id: str) -> bytes:
        """Return a certificate's bytes, an in-toto Statement.

        Raises:
            IntegrityError: The bytes were modified.
        """
        return await self._store.run(archive.read, (await self.get(certificate_id)).id)

    async def read(self, certificate_id: str) -> Certificate:
        """Return a certificate as typed data; see `record`."""
        return parse(await self.record(certificate_id))

    async def markdown(self, certificate_id: str) -> str:
        """Return a certificate's Markdown view, newly rendered."""
        return render_markdown(await self.record(certificate_id))

    async def views(self, certificate_id: str) -> tuple[Path, ...]:
        """Return the existing Markdown views of a certificate, in the project and in the data directory."""
        entry = await self.get(certificate_id)
        return published_views(self._place, entry, await self._store.run(archive.read, entry.id))

    async def view(self, certificate_id: str) -> Path:
        """Return the path of a certificate's published Markdown view; render it if it or its record is missing."""
        published = await self._store.run(find_published, self._place, certificate_id)
        if not (published.view.is_file() and record_path(published.view).is_file()):
            await self._store.run(publish, self._place, published.issued.id)
        return published.view

    async def page(self, certificate_id: str) -> Path:
        """Write a certificate's HTML page in the current layout, and return its path."""
        entry = await self.get(certificate_id)
        return await self._store.run(publish_page, self._place, entry.id)
