"""Certificate operations of an open project: find, read, verify, revoke, export, prune."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.certificate_upkeep import CertificateUpkeep
from esper_agents.archive import store as archive
from esper_agents.archive.search.filters import Filter
from esper_agents.errors import EsperError, EvidenceError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.archive.certificate_diff import CertificateDiff
    from esper_agents.archive.export import ExportResult
    from esper_agents.archive.import_certificates import ImportCount, ImportedCertificate
    from esper_agents.archive.inspection import CertificateInspection, UnknownSigner
    from esper_agents.archive.published.combined import CombinedArchive, PublishedStatus
    from esper_agents.archive.search.search import SearchHit
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.archive.trends import MetricSummary, Point
    from esper_agents.archive.verification.gate import GateResult
    from esper_agents.archive.verification.signature import Keyring
    from esper_agents.archive.verification.supersession import Override, SupersedingEntry
    from esper_agents.archive.verification.verify import RepositoryState, VerificationResult
    from esper_agents.archive.verification.verify_all import ArchiveVerification
    from esper_agents.archive.verification.witnessed import WitnessDemand
    from esper_agents.certificates.audit.auditing import DocumentAudit
    from esper_agents.certificates.signing.allowed_signers import Signer
    from esper_agents.certificates.views.explanation import VerdictExplanation
    from esper_agents.domain.answer import Answer
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.gate_level import GateLevel
    from esper_agents.domain.notice import LogNoticeStatement
    from esper_agents.domain.status import Status


@dataclass(frozen=True, slots=True)
class PublishedPaths:
    """Files of a published certificate.

    Attributes:
        view: Markdown view.
        envelope: Signed envelope.
    """

    view: Path
    envelope: Path


class CertificateService(CertificateUpkeep):
    """Certificate operations of an open project, including its transparency log."""

    @property
    def _combined(self) -> CombinedArchive:
        return self._services.certificates

    def report_reading(self, report: Callable[[int], None]) -> None:
        """Call a function with the number of published certificates that are about to be read for the first time."""
        self._combined.on_begin = report

    async def list(
        self,
        *,
        agent: str = "",
        wanted: Filter | None = None,
        before: str = "",
        limit: int = 50,
        trusted_only: bool = False,
    ) -> tuple[CertificateSummary, ...]:
        """Return the certificates of the archive and the published ones of the project, newest first.

        Args:
            agent: Only certificates concluded by this agent.
            wanted: Only certificates that match this filter.
            before: Only certificates listed after this identifier.
            limit: Maximum number of certificates.
            trusted_only: Whether published certificates of untrusted keys are omitted.

        Raises:
            NotFoundError: No certificate matches, and there is no agent of that name.
        """
        asked = wanted or Filter()
        asked = replace(asked, agent=agent) if agent else asked
        listing = self._combined.listing
        found = await self._store.run(listing, wanted=asked, before=before, limit=limit, trusted_only=trusted_only)
        return found or self._none(asked)

    async def published_status(self) -> PublishedStatus:
        """Return the number of published certificates of others, the untrusted keys and the refused files."""
        return await self._store.run(self._combined.status)

    async def search(
        self, wanted: Filter, *, before: str = "", limit: int = 20, trusted_only: bool = False
    ) -> tuple[SearchHit, ...]:
        """Return the certificates that contain all words of a filter, newest first, with the matching passages.

        See `list` for the arguments.

        Raises:
            NotFoundError: No certificate matches, and there is no agent of that name.
        """
        search = self._combined.search
        found = await self._store.run(search, wanted=wanted, before=before, limit=limit, trusted_only=trusted_only)
        return found or self._none(wanted)

    async def metrics(self, wanted: Filter | None = None) -> tuple[MetricSummary, ...]:
        """Return the metrics recorded in the project's newest certificates, most frequent first."""
        from esper_agents.archive import trends

        return await self._store.run(trends.recorded, self._key, wanted or Filter())

    async def trend(self, metric: str, wanted: Filter | None = None, *, limit: int = 50) -> tuple[Point, ...]:
        """Return the newest values of a metric over the project's certificates, oldest first.

        Raises:
            NotFoundError: No certificate has that metric, the name is ambiguous, or there is no agent of that name.
        """
        from esper_agents.archive import trends

        asked = wanted or Filter()
        return await self._store.run(trends.trend, self._key, metric, asked, limit=limit) or self._none(asked)

    def _none(self, wanted: Filter) -> tuple[()]:
        """Return no certificates; an agent that does not exist is an error."""
        if wanted.agent:
            self._services.agents.get(wanted.agent)
        return ()

    async def export(self, wanted: Filter, to: Path) -> ExportResult:
        """Export certificates, with everything needed to verify them elsewhere, to a `.tar` file or a new folder.

        Raises:
            UsageError: The destination exists already.
        """
        from esper_agents.archive.export import export
        from esper_agents.certificates.signing.trusted_keys import trusted
        from esper_agents.paths import home

        public_key = trusted(home(), self._root, self._key).public_key
        return await self._store.run(export, self._key, wanted, to, public_key)

    async def get(self, certificate_id: str) -> CertificateSummary:
        """Return the index entry of one certificate, by identifier, suffix of an identifier, or `latest`.

        A certificate of the archive is found before a published one, and a trusted one before an untrusted one.

        Raises:
            NotFoundError: The project has no such certificate.
        """
        try:
            return await self._store.run(archive.find, self._key, certificate_id)
        except NotFoundError as error:
            return await self._store.run(self._combined.find, certificate_id, error)

    async def get_trusted(self, certificate_id: str) -> CertificateSummary:
        """Return the index entry of a certificate whose content may be acted upon; see `get`.

        Raises:
            NotFoundError: The project has no such certificate.
            EvidenceError: A key that is not trusted signed it.
        """
        entry = await self.get(certificate_id)
        if not entry.is_trusted:
            problem = f"certificate {entry.id} is signed by {entry.key_id}, a key that is not trusted"
            raise EvidenceError(
                problem, remedy=f"if its owner confirms the fingerprint: esper keys trust {entry.key_id}"
            )
        return entry

    async def inspect(self, certificate_id: str, given: Sequence[Signer] = ()) -> tuple[CertificateInspection, Keyring]:
        """Return the archived data of a certificate other than its bytes, and the keys trusted for it.

        Args:
            certificate_id: Its identifier, a suffix of it, or `latest`.
            given: Additional keys to trust for this call.

        Raises:
            NotFoundError: The project has no such certificate.
        """
        from esper_agents.archive.inspection import inspect_certificate

        return await self._store.run(
            inspect_certificate, self._services.project, self._services.home, certificate_id, given
        )

    async def list_all(self) -> tuple[CertificateSummary, ...]:
        """Return all of the project's certificates, newest first."""
        return await self._store.run(archive.everything, self._key)

    async def unknown_signers(self) -> tuple[UnknownSigner, ...]:
        """Return the keys that signed entries of the project's log and are not known here."""
        from esper_agents.archive.inspection import unknown_signers

        return await self._store.run(unknown_signers, self._services.project)

    async def list_imported(self, *, limit: int = 50) -> tuple[ImportedCertificate, ...]:
        """Return imported third-party certificates, newest first; they are not verified."""
        from esper_agents.archive.import_certificates import imported

        return await self._store.run(imported, self._key, limit=limit)

    async def verify(
        self, target: str = "latest", *, trusted_keys: Sequence[Signer] = (), state: RepositoryState | None = None
    ) -> VerificationResult:
        """Verify signature, log entry, verdict and files of a certificate; write nothing.

        Args:
            target: Its identifier, a suffix of it, `latest`, or the path of a published view or envelope.
            trusted_keys: Additional trusted keys for this call; see `read_trusted_keys`.
            state: Repository of the project, from `browsing.repository()`, for callers that verify many certificates.

        Raises:
            NotFoundError: The certificate is neither in the archive nor in the published files.
            InputFileError: The file cannot be read.
            EvidenceError: The envelope of the view is not next to it.
        """
        from esper_agents.archive.verification.certificate_files import find_certificate_files
        from esper_agents.archive.verification.verify import verify

        demand = self._demand()
        beside = state.published if state else None
        place, project = self._place, self._services.project
        files = await find_certificate_files(target, project, place, trusted_keys, demand, beside=beside)
        return verify(files, state=state)

    def _demand(self) -> WitnessDemand:
        """Return the witnesses that the settings demand."""
        from esper_agents.api.witnesses import demanded_witnesses
        from esper_agents.archive.verification.witnessed import witness_demand

        project = self._services.project
        return witness_demand(demanded_witnesses(project=project), project, self._place)

    async def verify_all(self) -> ArchiveVerification:
        """Verify all certificates of the project, its log, and the events and notes that the certificates sign."""
        from esper_agents.archive.verification.verify_all import verify_all

        return await verify_all(self._place, self._demand().witnesses)

    async def gate(
        self,
        paths: Sequence[Path] = (),
        *,
        required: frozenset[Status] | None = None,
        agents: Sequence[str] | None = None,
        trusted_keys: Sequence[Signer] = (),
        accepts_overrides: bool = False,
        since: str = "",
        fail_on: GateLevel | None = None,
    ) -> GateResult:
        """Return whether valid certificates cover the files under some paths; see `check_coverage`.

        Raises:
            InputFileError: A path does not exist or contains no files to cover.
        """
        from esper_agents.archive.verification.gate import gate

        result = await gate(
            self._services.project,
            self._place,
            paths,
            required=required,
            agents=agents,
            signers=trusted_keys,
            accepts_overrides=accepts_overrides,
            since=since,
            witnesses=self._demand().witnesses,
        )
        return result if fail_on is None else replace(result, fail_on=fail_on)

    async def explain(self, certificate_id: str = "latest") -> VerdictExplanation:
        """Return the explanation of a certificate's verdict: policy rules, findings and their evidence.

        Raises:
            NotFoundError: The project has no such certificate.
            IntegrityError: The bytes were modified.
        """
        from esper_agents.certificates.views.explanation import why

        return why(await self.record(certificate_id))

    async def answer(self, certificate_id: str = "latest") -> Answer:
        """Return the answer of a certificate, with a next command that runs in the current directory.

        The command is empty if its files no longer exist.

        Raises:
            NotFoundError: The project has no such certificate.
            IntegrityError: The bytes were modified.
        """
        from esper_agents.certificates.answer import answer_of
        from esper_agents.certificates.suggested_command import missing_paths, seen_from

        found = answer_of(await self.read(certificate_id))
        root = Path(self._services.project.root)
        is_runnable = not missing_paths(found.next_command, root)
        command = seen_from(found.next_command, root, Path.cwd().resolve()) if is_runnable else ""
        return replace(found, next_command=command)

    async def overrides(self, entries: Sequence[CertificateSummary]) -> dict[str, Override]:
        """Return the overrides of the listed certificates, by identifier."""
        if not entries:
            return {}
        from esper_agents.archive.changes.overrides import overrides

        found = await self._store.run(overrides, self._services.project, _local(entries))
        return found | self._combined.overrides(entries)

    async def endings(self, entries: Sequence[CertificateSummary]) -> dict[str, SupersedingEntry]:
        """Return what revoked or superseded the listed certificates, by identifier."""
        if not entries:
            return {}
        from esper_agents.archive.verification.listed_endings import endings

        found = await self._store.run(endings, self._services.project, _local(entries))
        return found | await self._store.run(self._combined.endings, entries)

    async def changes(self, entries: Sequence[CertificateSummary]) -> dict[str, str]:
        """Return the changes that the listed certificates are about, in a few words, by identifier."""
        from esper_agents.domain.change import BASE

        found: dict[str, str] = {}
        for entry in entries:
            with suppress(EsperError):
                data = await self._read(entry)
                # Most certificates are about files: they are not parsed for a list.
                if f'"{BASE}"'.encode() in data:
                    from esper_agents.certificates.statement import parse

                    change = parse(data).task.change
                    found |= {entry.id: change.label} if change else {}
        return found

    async def record(self, certificate_id: str) -> bytes:
        """Return a certificate's bytes, an in-toto Statement.

        Raises:
            IntegrityError: The bytes were modified.
        """
        return await self._read(await self.get(certificate_id))

    async def _read(self, entry: CertificateSummary) -> bytes:
        if entry.origin is archive.CertificateOrigin.LOCAL:
            return await self._store.run(archive.read, entry.id)
        return await self._store.run(self._combined.read, entry)

    async def read(self, certificate_id: str) -> Certificate:
        """Return a certificate as typed data; see `record`."""
        from esper_agents.certificates.statement import parse

        return parse(await self.record(certificate_id))

    async def read_trusted(self, certificate_id: str) -> Certificate:
        """Return a certificate whose content may be acted upon, as typed data; see `get_trusted`."""
        return await self.read((await self.get_trusted(certificate_id)).id)

    async def markdown(self, certificate_id: str) -> str:
        """Return a certificate's Markdown view, newly rendered."""
        from esper_agents.certificates.views.markdown import render_markdown

        return render_markdown(await self.record(certificate_id))

    async def html(self, certificate_id: str) -> str:
        """Return a certificate's HTML page, newly rendered: one file without scripts and without network access."""
        from esper_agents.certificates.views.html import render_html

        return render_html(await self.record(certificate_id))

    async def views(self, certificate_id: str) -> tuple[Path, ...]:
        """Return the existing Markdown views of a certificate, in the project and in the data directory."""
        from esper_agents.archive import store as archive
        from esper_agents.archive.publishing import published_views, view_of

        entry = await self.get(certificate_id)
        if envelope := self._combined.envelope_path(entry):
            view = view_of(envelope)
            return (view,) if view.is_file() else ()
        return published_views(self._place, entry, await self._store.run(archive.read, entry.id))

    async def view(self, certificate_id: str) -> Path:
        """Return the path of a certificate's published Markdown view; render it if it or its record is missing."""
        from esper_agents.archive.publishing import find_published, publish, record_path, view_of

        if envelope := self._combined.envelope_path(await self.get(certificate_id)):
            return view_of(envelope)
        published = await self._store.run(find_published, self._place, certificate_id)
        if not (published.view.is_file() and record_path(published.view).is_file()):
            await self._store.run(publish, self._place, published.issued.id)
        return published.view

    async def page(self, certificate_id: str) -> Path:
        """Write a certificate's HTML page in the current layout, and return its path."""
        from esper_agents.archive.publishing import publish_page, write_page

        entry = await self.get(certificate_id)
        if entry.origin is archive.CertificateOrigin.PUBLISHED:
            # The published page is a file of the repository; this one is rendered from the signed statement.
            return write_page(self._place, entry.id, await self._read(entry))
        return await self._store.run(publish_page, self._place, entry.id)

    async def text(self, certificate_id: str, *, width: int = 100) -> str:
        """Return a certificate as text for a terminal.

        Args:
            certificate_id: Its identifier, a suffix of it, or `latest`.
            width: Columns of the terminal.
        """
        from esper_agents.certificates.views.markdown import render_text

        return render_text(await self.record(certificate_id), width)

    async def published(self, certificate_id: str) -> PublishedPaths:
        """Return the published view of a certificate with its envelope; rewrite them if one is missing.

        Raises:
            NotFoundError: The project has no such certificate.
            IntegrityError: The bytes were modified.
        """
        from esper_agents.archive.publishing import record_path, view_of, view_places

        entry = await self.get(certificate_id)
        if envelope := self._combined.envelope_path(entry):
            return PublishedPaths(view_of(envelope), envelope)
        views = view_places(self._place, entry, await self.read(entry.id))
        complete = (each for each in views if each.is_file() and record_path(each).is_file())
        view = next(complete, None) or await self.view(entry.id)
        return PublishedPaths(view, record_path(view))

    async def diff(self, first: str, second: str = "") -> CertificateDiff:
        """Compare two certificates of one component.

        Args:
            first: The older certificate.
            second: The newer one; if omitted, the latest of the component. The latest is compared with its predecessor.

        Raises:
            NotFoundError: The project has no such certificate.
            UsageError: The certificates are the same or of different components, or the component has only one.
        """
        from shlex import quote

        from esper_agents.archive.certificate_diff import diff_certificates

        given = await self.get(first)
        older, newer = (given, await self.get(second)) if second else await self._neighbour(given)
        if older.id == newer.id:
            remedy = f"name another one: esper certificates list --component {quote(older.component)}"
            raise UsageError(f"both are {older.id}", remedy=remedy)
        return diff_certificates(await self.read(older.id), await self.read(newer.id))

    async def _neighbour(self, given: CertificateSummary) -> tuple[CertificateSummary, CertificateSummary]:
        """Return a certificate and the latest one of its component, or its predecessor if it is the latest."""
        wanted = Filter(component=given.component)
        # An untrusted certificate is compared only if the user names it.
        latest = next(iter(await self.list(wanted=wanted, limit=1, trusted_only=True)), given)
        if latest.id != given.id:
            return given, latest
        before = await self.list(wanted=wanted, before=given.id, limit=1, trusted_only=given.is_trusted)
        if not before:
            problem = f"{given.id} is the only certificate of {given.component!r}"
            raise UsageError(problem, remedy=f"repeat its request, then compare: esper submit --rerun {given.id}")
        return before[0], given

    async def countersign(self, certificate_id: str, key_file: Path, reason: str = "") -> LogNoticeStatement:
        """Add the user's SSH signature to a certificate, in the log and next to the view.

        Args:
            certificate_id: Its identifier, a suffix of it, or `latest`.
            key_file: SSH private key, or the public half of a key in an SSH agent.
            reason: Reason, stored in the log.

        Raises:
            NotFoundError: The project has no such certificate.
            IntegrityError: The certificate was modified, or the log is inconsistent.
            UsageError: The key cannot sign, or has countersigned this certificate before.
            EvidenceError: ssh-keygen is not installed.
        """
        from esper_agents.archive.changes.countersignatures import (
            Countersigner,
            countersign_certificate,
            countersign_published,
        )
        from esper_agents.certificates.signing.key_input import this_user
        from esper_agents.paths import home

        entry = await self.get_trusted(certificate_id)
        by = Countersigner(key_file, this_user(), reason, home())
        if record := self._combined.envelope_path(entry):
            data = await self._read(entry)
            return await self._store.run(countersign_published, self._place, data, record, by)
        return await self._store.run(countersign_certificate, self._place, entry.id, by)

    async def import_documents(self, audit: DocumentAudit) -> ImportCount:
        """Import hand-written certificates, unverified, with the result of their audit.

        Args:
            audit: Result of `audit_documents`; a file that was imported before is skipped.
        """
        from esper_agents.archive.import_certificates import import_certificates

        return await self._store.run(import_certificates, self._services.project, self._root, audit.documents)


def _local(entries: Sequence[CertificateSummary]) -> tuple[CertificateSummary, ...]:
    return tuple(entry for entry in entries if entry.origin is archive.CertificateOrigin.LOCAL)
