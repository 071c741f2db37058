"""Bounded reads of an archive for pages: counts, sources, histories of findings, coverage, log."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.api.service import Service
from esper_agents.archive.search.filters import Filter
from esper_agents.errors import EsperError, StorageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from esper_agents.api.project import OpenProject
    from esper_agents.archive.certified_source import CertifiedSource
    from esper_agents.archive.finding_history import FindingHistory
    from esper_agents.archive.log_listing import LogPage
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.archive.value_counts import ValueCounts
    from esper_agents.archive.verification.gate import GateResult
    from esper_agents.archive.verification.published_records import PublishedFolder
    from esper_agents.archive.verification.verify import DerivedChecks, RepositoryState, VerificationResult
    from esper_agents.certificates.views.html import Measurement
    from esper_agents.certificates.views.view_model import CertificateView
    from esper_agents.domain.certificate import Certificate
    from esper_agents.storage.questions import StoredAnswer
    from esper_agents.storage.store import Store

_MOST_PER_FILE = 10
_MOST_FILES = 20_000
_MOST_VIEWS = 100_000
_MOST_HISTORY, _NEWEST_SHOWN = 12, 5


@dataclass(frozen=True, slots=True)
class CertificatePresentation:
    """A certificate as pages show it.

    Attributes:
        view: Its parts, grouped and bounded.
        measurements: Its measurements with their plots.
        tone: Good, caution, open, bad, stop or plain; decides the colour of the status.
    """

    view: CertificateView
    measurements: tuple[Measurement, ...]
    tone: str


@dataclass(frozen=True, slots=True)
class QuestionHistory:
    """Certificates of the same component as one certificate.

    Attributes:
        shown: The newest ones, newest first, then this one with those before it if it is older than these.
        is_gap_before: Whether certificates between the newest ones and this one are omitted.
        previous: The one before it with the same request about the same paths, else the one before it; None if it is
            the first one.
        is_same_question: Whether the previous one has the same request about the same paths.
        newest: The newest later one with the same request about the same paths; None if there is none.
    """

    shown: tuple[CertificateSummary, ...]
    is_gap_before: bool
    previous: CertificateSummary | None
    is_same_question: bool
    newest: CertificateSummary | None


class BrowsingService(Service):
    """Bounded reads of an archive of any size, for pages and tables."""

    def __init__(self, project: OpenProject) -> None:
        """Belong to a project; use `OpenProject.browsing`."""
        super().__init__(project)
        self._published: PublishedFolder | None = None
        self._derived: DerivedChecks | None = None
        self._file = _file_identity(self._store.store.where)

    def is_replaced(self) -> bool:
        """Return whether the database file is another one than when the project was opened.

        Raises:
            StorageError: The file is missing.
        """
        where = self._store.store.where
        now = _file_identity(where)
        if self._file is not None and now is None:
            raise StorageError(f"the database {where!r} is missing", remedy="restore it from a backup")
        return now != self._file

    async def counts(self, wanted: Filter | None = None) -> ValueCounts:
        """Return the counts over the newest certificates that match a filter, local and published.

        Those of untrusted keys are counted apart.
        """
        return await self._store.run(self._services.certificates.counts, wanted or Filter())

    async def presentation(self, certificate_id: str) -> CertificatePresentation:
        """Return a certificate as pages show it.

        Raises:
            NotFoundError: The project has no such certificate.
            IntegrityError: The bytes were modified.
        """
        from esper_agents.certificates.views.html import measurements_of, tone_of
        from esper_agents.certificates.views.view_model import view_of

        view = view_of(await self._project.certificates.record(certificate_id))
        return CertificatePresentation(
            view, measurements_of(view.certificate.evidence), tone_of(view.certificate.verdict)
        )

    async def sources(self, certificate: Certificate, paths: Collection[str]) -> dict[str, CertifiedSource]:
        """Return files of a certificate with the bytes that were read; see `certified_sources`."""
        from esper_agents.archive.certified_source import certified_sources

        return await self._store.run_aside(lambda _: certified_sources(self._root, certificate, paths))

    async def source_lines(self, path: str) -> tuple[str, ...] | None:
        """Return the lines of a working file of the project; see `current_lines`."""
        from esper_agents.archive.certified_source import current_lines

        return await self._store.run_aside(lambda _: current_lines(self._root, path))

    async def certificates_of(
        self, paths: Collection[str], *, agent: str = "", most: int = _MOST_PER_FILE, trusted_only: bool = False
    ) -> dict[str, tuple[CertificateSummary, ...]]:
        """Return the newest certificates that read each file, newest first.

        Args:
            paths: Paths relative to the project.
            agent: Only certificates concluded by this agent.
            most: Maximum number of certificates for each file.
            trusted_only: Whether certificates of untrusted keys are omitted.
        """
        listed = self._project.certificates.list
        return {
            path: await listed(wanted=Filter(path=path, agent=agent), limit=most, trusted_only=trusted_only)
            for path in paths
        }

    async def read_all(
        self, entries: Sequence[CertificateSummary]
    ) -> tuple[tuple[CertificateSummary, Certificate], ...]:
        """Return the listed certificates as typed data; those that were modified are omitted."""
        return tuple([(entry, read) for entry in entries if (read := await self._read(entry)) is not None])

    async def question_history(self, entry: CertificateSummary, certificate: Certificate) -> QuestionHistory:
        """Return the certificates of the component of a certificate, and those that answer the same question.

        An untrusted certificate is not compared with a trusted one.

        Args:
            entry: The certificate.
            certificate: Its content.
        """
        wanted = Filter(component=entry.component)
        newest = await self._project.certificates.list(wanted=wanted, limit=_MOST_HISTORY)
        older = await self._project.certificates.list(wanted=wanted, before=entry.id, limit=_MOST_HISTORY)
        ids = [other.id for other in newest]
        is_gap = entry.id not in ids
        newer = newest if is_gap else newest[: ids.index(entry.id)]
        shown = (*newest[:_NEWEST_SHOWN], entry, *older[:_NEWEST_SHOWN]) if is_gap else newest

        async def same(others: Sequence[CertificateSummary]) -> CertificateSummary | None:
            for other in others:
                if other.request == entry.request and other.is_trusted >= entry.is_trusted:
                    found = await self._read(other)
                    if found is not None and set(found.task.paths) == set(certificate.task.paths):
                        return other
            return None

        previous = await same(older)
        before = next((other for other in older if other.is_trusted >= entry.is_trusted), None)
        return QuestionHistory(shown, is_gap, previous or before, previous is not None, await same(newer))

    async def finding_histories(self, path: str, entries: Sequence[CertificateSummary]) -> tuple[FindingHistory, ...]:
        """Return the findings in a file over those of its certificates that a trusted key signed.

        See `finding_histories`.
        """
        from esper_agents.archive.finding_history import finding_histories

        return finding_histories(path, await self.read_all([entry for entry in entries if entry.is_trusted]))

    async def coverage(self, paths: Sequence[str] = (), state: RepositoryState | None = None) -> GateResult:
        """Return the coverage of files as the gate computes it, from the newest certificates of each file.

        These are the newest of any agent, and the newest of each agent that the gate counts. Published certificates
        count if a trusted key signed them; those of other keys leave a file undecided at most.

        Args:
            paths: Files, relative to the project; all files that the gate covers if empty.
            state: Git state of the project; None to read it.

        Raises:
            InputFileError: A path does not exist or contains no files to cover.
        """
        from esper_agents.archive.verification.gate import REVIEWERS, coverage_by

        wanted = paths or await self.files()
        # Those of other agents cover nothing, but one that was modified counts against its files.
        # Certificates of untrusted keys must not displace others, however many there are.
        ways = (True, False) if (await self._project.certificates.published_status()).untrusted else (False,)
        chosen = [(agent, is_trusted) for agent in ("", *REVIEWERS) for is_trusted in ways]
        by_agent = [
            await self.certificates_of(wanted, agent=agent, trusted_only=is_trusted) for agent, is_trusted in chosen
        ]
        candidates = {entry.id: entry for by_path in by_agent for entries in by_path.values() for entry in entries}
        published = {
            entry.id: record
            for entry in candidates.values()
            if (record := self._services.certificates.envelope_path(entry)) is not None
        }
        places = [self._root / path for path in wanted]
        state = state or await self._repository_state()
        known = len(state.new_views)
        result = await coverage_by(tuple(candidates.values()), published, self._place, places, state)
        if len(state.new_views) > known:
            views = frozenset(state.new_views)
            await self._store.run(lambda _: self._services.certificates.keep_views(views))
        return result

    async def coverage_state(self) -> object:
        """Return a value that differs after a change of the archive, its log or the files of the project."""
        files = await self.files()

        def state(_: Store) -> tuple[object, ...]:
            found = [os.stat(self._root / path) for path in files if os.path.exists(self._root / path)]  # noqa: PTH110, PTH116 - thousands
            return files, tuple((each.st_mtime_ns, each.st_size) for each in found)

        newest = await self._project.certificates.list(limit=1)
        log = await self.log(limit=1)
        return await self._store.run_aside(state), [each.id for each in newest], log.size

    async def repository(self) -> RepositoryState:
        """Return the git state of the project now, for the verification of many certificates."""
        state = await self._repository_state()
        await self._store.run_aside(lambda _: state.here)
        return state

    async def _repository_state(self) -> RepositoryState:
        """Return a state that reads git, with what was derived from bytes before."""
        from esper_agents.archive.verification.published_records import PublishedFolder
        from esper_agents.archive.verification.verify import DerivedChecks, RepositoryState

        async def naming(certificate_id: str) -> list[Path]:
            return await self._store.run(self._services.certificates.envelopes_naming, certificate_id)

        self._published = self._published or PublishedFolder(naming)
        if self._derived is None or len(self._derived.views) > _MOST_VIEWS:
            views = await self._store.run(self._services.certificates.verified_views)
            self._derived = DerivedChecks(set(views))
        return RepositoryState(self._root, self._published, self._derived)

    async def verification(self, entry: CertificateSummary, state: RepositoryState) -> VerificationResult:
        """Return the verification of a listed certificate.

        Args:
            entry: The certificate.
            state: Git state of the project; see `repository`.
        """
        record = await self._store.run(lambda _: self._services.certificates.envelope_path(entry))
        return await self._project.certificates.verify(str(record) if record else entry.id, state=state)

    async def files(self) -> tuple[str, ...]:
        """Return the Python files and notebooks of the project, sorted, relative to it."""
        from esper_agents.review.discover import python_files

        return await self._store.run_aside(lambda _: python_files(self._root, most=_MOST_FILES))

    async def log(self, *, before: int | None = None, limit: int = 50) -> LogPage:
        """Return the state of the project's transparency log and its newest entries; see `log_page`."""
        from esper_agents.archive.log_listing import log_page

        return await self._store.run(log_page, self._services.project, before=before, limit=limit)

    async def answers(self, sessions: Sequence[str]) -> tuple[StoredAnswer, ...]:
        """Return the answered questions of some sessions of the project, newest first, with who answered."""
        from esper_agents.storage.questions import answered

        def read(store: Store) -> tuple[StoredAnswer, ...]:
            with store.reading() as connection:
                return answered(connection, sessions)

        return await self._store.run(read)

    async def keys_of(self, entries: Sequence[CertificateSummary]) -> dict[str, str]:
        """Return the fingerprints of the keys that certificates name, by ID; none for one without a log entry."""
        from esper_agents.archive.log_listing import logged_keys

        published = {entry.id: entry.key_id for entry in entries if entry.key_id}
        rest = [entry.id for entry in entries if not entry.key_id]
        return published | (await self._store.run(logged_keys, rest) if rest else {})

    def key_names(self) -> Mapping[str, str]:
        """Return the owners of the signing key and of the trusted keys, by fingerprint."""
        from esper_agents.api.keys import list_keys

        listing = list_keys(self._root)
        own = (listing.own,) if listing.own else ()
        return {key.key_id: key.name for key in (*listing.trusted, *own)}

    async def _read(self, entry: CertificateSummary) -> Certificate | None:
        from esper_agents.certificates.statement import parse

        try:
            return parse(await self._store.run(self._services.certificates.read, entry))
        except EsperError:
            return None


def _file_identity(where: str) -> tuple[int, int] | None:
    """Return device and inode of a database file; None if it is no file."""
    try:
        found = os.stat(where)  # noqa: PTH116 - a URL of a server is no path
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
