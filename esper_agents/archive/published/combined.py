"""Certificates of the local archive together with published ones, as one listing."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.search.filter_conditions import LOGGED, SignatureTable
from esper_agents.archive.search.filters import Filter
from esper_agents.archive.search.posting_lists import ABOVE_ALL
from esper_agents.archive.store import CertificateOrigin
from esper_agents.errors import EsperError, NoCertificatesError, NotFoundError, StorageError
from esper_agents.paths import PUBLISHED

_PUBLISHED_SIGNATURES = SignatureTable("published_file", "certificate_id")
# Index of the published certificates of others, in the folder of the project in the data directory.
INDEX_FILE = "published-2.db"

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.published.scan import RefusedFile
    from esper_agents.archive.published_notices import NoticeFolders
    from esper_agents.archive.search.search import SearchHit
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.archive.value_counts import ValueCounts
    from esper_agents.archive.verification.supersession import Override, SupersedingEntry
    from esper_agents.storage.store import Store

# In a process that asks many times, such as a server, a file that changed in place is noticed after this time, or
# after this multiple of the time that the comparison takes: 10 s for 10,000 files.
_FRESH_S, _FRESH_SHARE = 5.0, 50
_TRUSTED, _UNTRUSTED = "trusted", "untrusted"


@dataclass(frozen=True, slots=True)
class UntrustedKey:
    """Key that signed published certificates and is not trusted.

    Attributes:
        key_id: Fingerprint of the key.
        certificates: Number of published certificates that name it.
    """

    key_id: str
    certificates: int


@dataclass(frozen=True, slots=True)
class PublishedStatus:
    """Published certificates of a project that the local archive did not issue.

    Attributes:
        trusted: Number of certificates that a trusted key signed.
        untrusted: Keys that signed the other ones, most certificates first.
        refused: Files that are not read as certificates of the project.
    """

    trusted: int = 0
    untrusted: tuple[UntrustedKey, ...] = ()
    refused: tuple[RefusedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class _Source:
    """Archive with some of the certificates; on equal times, those of the first source come first."""

    store: Store
    key: str
    number: int

    def newest(
        self, wanted: Filter, limit: int, before: tuple[str, int] | None = None
    ) -> tuple[CertificateSummary, ...]:
        """Return the newest certificates by time of issue; see `archive.listing_by_time`."""
        signatures = _PUBLISHED_SIGNATURES if self.number else LOGGED
        return archive.listing_by_time(
            self.store, self.key, wanted=wanted, before=before, limit=limit, signatures=signatures
        )


class CombinedArchive:
    """Local archive and published certificates of a project; the methods run on the thread of the local store."""

    def __init__(self, place: ProjectPlace) -> None:
        """Open nothing; the index is opened if there are published certificates of others.

        Args:
            place: The project with the places of its certificates.
        """
        self._place = place
        self._index: Store | None = None
        self._refused: tuple[RefusedFile, ...] = ()
        self._status: PublishedStatus | None = None
        self._fresh_until = 0.0
        self._notices: NoticeFolders | None = None
        self._read_for: tuple[tuple[str, int], ...] = ()
        self.on_begin: Callable[[int], None] = lambda _: None

    def close(self) -> None:
        """Close the index."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def listing(
        self, local: Store, *, wanted: Filter, before: str = "", limit: int = 50, trusted_only: bool = False
    ) -> tuple[CertificateSummary, ...]:
        """Return certificates, newest first; by time of issue if there are published ones.

        Args:
            local: The local archive.
            wanted: Filter.
            before: Cursor: return only certificates after this one.
            limit: Maximum number of certificates.
            trusted_only: Whether certificates of untrusted keys are omitted.

        Raises:
            NotFoundError: No certificate matches `before`.
        """
        sources = self._sources(local, trusted_only=trusted_only)
        if len(sources) == 1:
            return archive.listing(local, self._place.project.key, wanted=wanted, before=before, limit=limit)
        cursor = self._find(sources, before) if before else None
        listings = [
            [(entry, source.number) for entry in source.newest(wanted, limit, _start(cursor, source))]
            for source in sources
        ]
        # Each listing is sorted; `merge` keeps the order of sources on equal times.
        merged = list(islice(merge(*listings, key=lambda one: one[0].issued_at, reverse=True), limit))
        described = self._described({entry for entry, number in merged if number})
        return tuple(described.get(entry.id, entry) if number else entry for entry, number in merged)

    def search(
        self, local: Store, *, wanted: Filter, before: str = "", limit: int = 20, trusted_only: bool = False
    ) -> tuple[SearchHit, ...]:
        """Return certificates that contain all words of a filter, with the passages; see `listing`."""
        entries = self.listing(local, wanted=wanted, before=before, limit=limit, trusted_only=trusted_only)
        from esper_agents.archive.search.search import hits

        own = [each for each in entries if each.origin is CertificateOrigin.LOCAL]
        found = {hit.entry.id: hit for hit in hits(local, own, wanted)}
        if self._index is not None:
            rest = [each for each in entries if each.origin is CertificateOrigin.PUBLISHED]
            found |= {hit.entry.id: hit for hit in hits(self._index, rest, wanted)}
        return tuple(found[each.id] for each in entries)

    def find(self, local: Store, wanted: str, missing: NotFoundError) -> CertificateSummary:
        """Return one published certificate by ID, unique end of an ID, or `latest`; a trusted one first.

        The caller has looked in the local archive: `latest` is the newest local certificate if there is any, because a
        published one may be dated at will.

        Args:
            local: The local archive.
            wanted: ID, unique end of an ID, or `latest`.
            missing: Error of the local archive.

        Raises:
            NotFoundError: No certificate matches, or more than one does.
        """
        sources = self._sources(local)[1:]
        try:
            found = _newest(sources) if wanted == "latest" else self._find(sources, wanted)[0]
        except NotFoundError:
            raise missing from None
        return self._described({found})[found.id]

    def read(self, local: Store, entry: CertificateSummary) -> bytes:
        """Return the statement of a certificate of a listing.

        Raises:
            IntegrityError: The bytes differ from those that were issued or indexed.
        """
        if entry.origin is CertificateOrigin.LOCAL or self._index is None:
            return archive.read(local, entry.id)
        return archive.read(self._index, entry.id)

    def envelope_path(self, entry: CertificateSummary) -> Path | None:
        """Return the published envelope of a certificate of a listing; None for a local certificate."""
        if entry.origin is CertificateOrigin.LOCAL or self._index is None:
            return None
        from esper_agents.archive.published import index

        with self._index.reading() as connection:
            file = index.file_of(connection, entry.id)
        return Path(self._place.project.root, file.path) if file else None

    def envelopes_naming(self, local: Store, certificate_id: str) -> list[Path]:
        """Return the published envelopes that may supersede or revoke a certificate."""
        from esper_agents.archive.published import index
        from esper_agents.archive.published.scan import own_envelopes_naming
        from esper_agents.archive.verification.listed_endings import named_by_others

        self._refresh(local)
        # Most certificates are named by none: that is known at once.
        with local.reading() as connection:
            is_named = bool(named_by_others(connection, (certificate_id,)))
        found = own_envelopes_naming(local, self._place.project, certificate_id) if is_named else []
        if self._index is None:
            return found
        with self._index.reading() as connection:
            is_named = bool(named_by_others(connection, (certificate_id,)))
            others = index.envelopes_naming(connection, certificate_id) if is_named else ()
        return [*found, *(Path(self._place.project.root, path) for path in others)]

    def verified_views(self, local: Store) -> frozenset[str]:
        """Return the digests of published views that were found to match their statements."""
        self._refresh(local)
        if self._index is None:
            return frozenset()
        from esper_agents.archive.published import index

        with self._index.reading() as connection:
            return index.verified_views(connection)

    def keep_views(self, digests: Collection[str]) -> None:
        """Store digests of views that match their statements, for later processes; there may be no index."""
        if self._index is None or not digests:
            return
        from esper_agents.archive.published import index

        with suppress(StorageError), self._index.writing() as transaction:
            index.keep_views(transaction.connection, digests)

    def overrides(self, entries: Sequence[CertificateSummary]) -> dict[str, Override]:
        """Return the overrides of published certificates by notices next to their views, by ID."""
        shown = {each.id: path for each in entries if (path := self.envelope_path(each)) is not None}
        if not shown or self._index is None:
            return {}
        from esper_agents.archive.inspection import keyring
        from esper_agents.archive.published_notices import notice_files
        from esper_agents.archive.publishing import view_of
        from esper_agents.archive.verification.published_records import published_override

        keys, folders = keyring(self._place.project), self._notice_folders()
        found = {}
        for certificate_id, path in shown.items():
            if not notice_files(view_of(path), folders):
                continue
            # Newer or changed notices are reported by verification.
            with suppress(EsperError):
                data = archive.read(self._index, certificate_id)
                found[certificate_id] = published_override(data, view_of(path), keys, folders)
        return {certificate_id: each for certificate_id, each in found.items() if each is not None}

    def endings(self, local: Store, entries: Sequence[CertificateSummary]) -> dict[str, SupersedingEntry]:
        """Return the last published entry that ends each published certificate of a listing, by ID."""
        shown = {each.id: path for each in entries if (path := self.envelope_path(each)) is not None}
        if not shown:
            return {}
        from esper_agents.archive.inspection import keyring
        from esper_agents.archive.published_notices import notice_files, sealed_files
        from esper_agents.archive.publishing import view_of
        from esper_agents.archive.verification.listed_endings import named_by_others
        from esper_agents.archive.verification.published_records import published_endings

        named: set[str] = set()
        for store in filter(None, (local, self._index)):
            with store.reading() as connection:
                named |= named_by_others(connection, list(shown))
        keys, folders, found = keyring(self._place.project), self._notice_folders(), {}
        for certificate_id, path in shown.items():
            view = view_of(path)
            if certificate_id not in named and not notice_files(view, folders):
                continue
            naming = self.envelopes_naming(local, certificate_id)
            with suppress(EsperError):
                for file in sealed_files((path,), certificate_id):
                    ended = published_endings(file.envelope, view, keys, (), records=naming, folders=folders)
                    found[certificate_id] = sorted(ended.later, key=lambda each: each.at)[-1:]
        return {certificate_id: later[0] for certificate_id, later in found.items() if later}

    def _notice_folders(self) -> NoticeFolders:
        from esper_agents.archive.published_notices import NoticeFolders

        self._notices = self._notices or NoticeFolders()
        return self._notices

    def counts(self, local: Store, wanted: Filter) -> ValueCounts:
        """Return the counts over the newest certificates that match a filter; see `value_counts`.

        Certificates of untrusted keys are counted apart.

        Args:
            local: The local archive.
            wanted: Filter.

        Raises:
            UsageError: The search words contain neither a letter nor a digit.
        """
        from esper_agents.archive import value_counts as counting

        sources = self._sources(local)
        if len(sources) == 1:
            return counting.value_counts(local, self._place.project.key, wanted)
        most = counting.MOST_COUNTED
        own, trusted, untrusted = (source.newest(wanted, most + 1) for source in sources)
        newest = sorted((*own, *trusted), key=lambda entry: entry.issued_at, reverse=True)
        counted = {entry.id for entry in newest[:most]}
        tallies = []
        for source, entries in zip(sources, (own, trusted), strict=False):
            places = [entry.position for entry in entries if entry.id in counted]
            signatures = _PUBLISHED_SIGNATURES if source.number else LOGGED
            with source.store.reading() as connection:
                tallies.append(counting.tally(connection, places, signatures))
        return counting.most_frequent(tallies, is_complete=len(newest) <= most, untrusted=min(len(untrusted), most))

    def status(self, local: Store) -> PublishedStatus:
        """Return the number of published certificates, the untrusted keys and the refused files."""
        if len(self._sources(local)) == 1 or self._index is None:
            return PublishedStatus(refused=self._refused)
        if self._status is None:
            self._status = self._status_of(self._index)
        return self._status

    def _status_of(self, indexed: Store) -> PublishedStatus:
        from esper_agents.archive.published import index
        from esper_agents.archive.published.scan import RefusedFile
        from esper_agents.domain.plain_text import plain

        with indexed.reading() as connection:
            files = index.indexed_files(connection).values()
        shown = {each.certificate_id: each for each in files if each.standing == _UNTRUSTED}
        trusted = {each.certificate_id for each in files if each.standing == _TRUSTED}
        counts: dict[str, int] = {}
        for certificate_id, file in shown.items():
            if certificate_id not in trusted:
                counts[file.key_id] = counts.get(file.key_id, 0) + 1
        keys = sorted(
            (UntrustedKey(*count) for count in counts.items()), key=lambda key: (-key.certificates, key.key_id)
        )
        refused = (RefusedFile(each.path, plain(each.why)) for each in files if each.why)
        return PublishedStatus(
            len(trusted), tuple(keys), (*self._refused, *sorted(refused, key=lambda each: each.path))
        )

    def _sources(self, local: Store, *, trusted_only: bool = False) -> tuple[_Source, ...]:
        self._refresh(local)
        own = _Source(local, self._place.project.key, 0)
        if self._index is None:
            return (own,)
        parts = (_TRUSTED,) if trusted_only else (_TRUSTED, _UNTRUSTED)
        return own, *(_Source(self._index, part, number) for number, part in enumerate(parts, 1))

    def _refresh(self, local: Store) -> None:
        """Compare the index with the published files, unless the folders are as they were a moment ago."""
        stamp = tuple(_folder_stamps(Path(self._place.project.root)))
        began = time.monotonic()
        if stamp and stamp == self._read_for and began < self._fresh_until:
            return
        self._status = None
        if not stamp:
            self.close()
            self._refused = ()
            return
        from esper_agents.archive.published.scan import published_by_others

        files = published_by_others(local, self._place.project)
        self._refused = files.refused
        if files.stamps or (self._place.home / INDEX_FILE).is_file():
            # Deferred: most projects have no published certificates of others.
            from esper_agents.archive.published import index, sync

            self._index = self._index or index.open_index(self._place.home)
            sync.Synchronization(local, self._index, self._place.project, files).run(self.on_begin)
        ended = time.monotonic()
        self._fresh_until, self._read_for = ended + max(_FRESH_S, _FRESH_SHARE * (ended - began)), stamp

    def _find(self, sources: Sequence[_Source], wanted: str) -> tuple[CertificateSummary, int]:
        """Return the certificate that a text names in the first source that has one, and the number of the source."""
        error: NotFoundError | None = None
        for source in sources:
            try:
                return archive.find(source.store, source.key, wanted), source.number
            except NotFoundError as problem:
                error = error or problem
        raise error or NotFoundError("certificate", wanted, (), listing="esper certificates list")

    def _described(self, entries: Iterable[CertificateSummary]) -> dict[str, CertificateSummary]:
        """Return published certificates with their origin, file name and signer."""
        if self._index is None:
            return {}
        from esper_agents.archive.inspection import keyring
        from esper_agents.archive.published import index

        found, accepted = {}, keyring(self._place.project)
        keys, trusted = accepted.history.spans, accepted.trusted
        with self._index.reading() as connection:
            for entry in entries:
                file = index.file_of(connection, entry.id)
                if file is None:
                    continue
                span = keys.get(file.key_id)
                found[entry.id] = replace(
                    entry,
                    view_name=PurePosixPath(file.path).name.removesuffix(".dsse.json") + ".md",
                    origin=CertificateOrigin.PUBLISHED,
                    is_trusted=file.standing == _TRUSTED,
                    signer=(trusted.who(span.public_key) or "") if span else "",
                    key_id=file.key_id,
                )
        return found


def _start(cursor: tuple[CertificateSummary, int] | None, source: _Source) -> tuple[str, int] | None:
    """Return the time and position that the rest of a source precedes, given the last certificate of a page."""
    if cursor is None:
        return None
    entry, number = cursor
    if number == source.number:
        return entry.issued_at, entry.position
    return entry.issued_at, ABOVE_ALL if source.number > number else 0


def _newest(sources: Sequence[_Source]) -> CertificateSummary:
    for source in sources:
        if found := source.newest(Filter(), 1):
            return found[0]
    raise NoCertificatesError


def _folder_stamps(root: Path) -> Iterable[tuple[str, int]]:
    """Return the times of the folders with published certificates; none if there are none."""
    found = []
    try:
        with os.scandir(root / PUBLISHED) as agents:
            for agent in agents:
                try:
                    found.append((agent.name, os.lstat(f"{agent.path}/certificates").st_mtime_ns))
                except OSError:
                    continue
    except OSError:
        return ()
    return sorted(found)
