"""Selection of the published certificates that decide the coverage of files."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive.published import index
from esper_agents.archive.published.index import FileStanding
from esper_agents.archive.published.scan import own_envelopes_naming, published_by_others
from esper_agents.archive.published.sync import Synchronization
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.published.index import Examination
    from esper_agents.archive.verification.coverage import CoveringCertificate
    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Store

# With fewer envelopes, all are verified.
FEW_ENVELOPES = 100
_MOST_REFUSED = 200


@dataclass(frozen=True, slots=True)
class IndexedPublications:
    """Published certificates about some files, as far as the index knows them.

    Attributes:
        examinations: What they examined, newest certificate first.
        refused: Paths of envelopes that are altered, of another repository, or no envelopes.
        irregular: Links, FIFOs and folders instead of envelopes, each with the reason.
        total: Number of published envelopes.
    """

    examinations: tuple[Examination, ...]
    refused: tuple[str, ...]
    irregular: tuple[tuple[str, str], ...]
    total: int


def read_index(local: Store | None, project: Project, home: Path, paths: Collection[str]) -> IndexedPublications:
    """Bring the index of published certificates up to date and return those about some files.

    Args:
        local: The local archive; None if there is none.
        project: The project.
        home: Folder of the project in the data directory.
        paths: Paths relative to the project.

    Raises:
        StorageError: The data directory cannot be written.
    """
    files = published_by_others(local, project)
    irregular = tuple((each.path, each.why) for each in files.refused)
    indexed = index.open_index(home)
    try:
        Synchronization(local, indexed, project, files).run(lambda _: None)
        with indexed.reading() as connection:
            known = index.indexed_files(connection)
            refused = [
                path
                for path, file in known.items()
                if file.why and file.standing in {FileStanding.REFUSED, FileStanding.FOREIGN}
            ]
            found = index.examinations(connection, paths)
    finally:
        indexed.close()
    return IndexedPublications(tuple(found), tuple(sorted(refused)[:_MOST_REFUSED]), irregular, len(known))


class NamingEnvelopes:
    """Envelopes that name a certificate, from the index."""

    def __init__(self, project: Project, home: Path, place: ProjectPlace | None) -> None:
        """Open the index; `read_index` has brought it up to date.

        Args:
            project: The project.
            home: Folder of the project in the data directory.
            place: Archive of the project; None if it has no database.
        """
        self._project, self._place = project, place
        self._index = index.open_index(home)

    async def __call__(self, certificate_id: str) -> list[Path]:
        """Return the envelopes that may supersede or revoke a certificate."""
        own = []
        if self._place is not None:
            own = await self._place.store.run(own_envelopes_naming, self._project, certificate_id)
        with self._index.reading() as connection:
            others = index.envelopes_naming(connection, certificate_id)
        return [*own, *(Path(self._project.root, path) for path in others)]

    def verified_views(self) -> frozenset[str]:
        """Return the digests of views that were found to match their statements before."""
        with self._index.reading() as connection:
            return index.verified_views(connection)

    def keep_views(self, digests: Collection[str]) -> None:
        """Store the digests of views that match their statements."""
        if digests:
            with self._index.writing() as transaction:
                index.keep_views(transaction.connection, digests)

    def close(self) -> None:
        """Close the index."""
        self._index.close()


@dataclass(slots=True)
class _Selection:
    """Certificates that were verified, by envelope; None for one that cannot be read."""

    verify: Callable[[str], Awaitable[CoveringCertificate | None]]
    found: dict[str, CoveringCertificate | None] = field(default_factory=dict)

    async def get(self, envelope: str) -> CoveringCertificate | None:
        if envelope not in self.found:
            self.found[envelope] = await self.verify(envelope)
        return self.found[envelope]


async def select(
    rows: Sequence[Examination],
    wanted: Mapping[str, str],
    *,
    usable: Callable[[Examination], bool],
    closes: Callable[[CoveringCertificate, str], bool],
    verify: Callable[[str], Awaitable[CoveringCertificate | None]],
    whole: Collection[str] = (),
) -> dict[str, CoveringCertificate | None]:
    """Verify the certificates that can decide the coverage of files, and return them by envelope.

    For each file and agent: the newest ones about the current content until one is valid, counts and is about the whole
    file, so that older ones decide nothing; the newest with a test run; the newest of an untrusted key; and the newest
    about other content, which is the reason if nothing covers the file. All about a file of which a change was judged.

    Args:
        rows: Examinations, newest first.
        wanted: Digests of the current content by path.
        usable: Returns whether the key of an envelope is accepted.
        closes: Returns whether a certificate leaves older ones of its agent about a file without effect.
        verify: Verifies the certificate of an envelope.
        whole: Paths about which all certificates are verified.
    """
    selection = _Selection(verify)
    by_path: dict[str, list[Examination]] = defaultdict(list)
    for row in rows:
        by_path[row.path].append(row)
    for path, about in by_path.items():
        if path in whole or any(row.is_about_change for row in about):
            await _all(selection, about)
            continue
        same = [row for row in about if row.sha256 == wanted.get(path)]
        await _all(selection, _newest_by_agent(row for row in about if row.sha256 != wanted.get(path)))
        await _all(selection, _newest_by_agent(row for row in same if not usable(row)))
        same = [row for row in same if usable(row)]
        await _until(selection, [row for row in same if row.ran_tests], _is_sound)
        for agent in dict.fromkeys(row.agent for row in same):
            of_agent = [row for row in same if row.agent == agent]
            await _until(selection, of_agent, partial(_closes, closes, path))
    return selection.found


def _closes(closes: Callable[[CoveringCertificate, str], bool], path: str, found: CoveringCertificate) -> bool:
    return closes(found, path)


async def _all(selection: _Selection, rows: Iterable[Examination]) -> None:
    for row in rows:
        await selection.get(row.envelope)


async def _until(
    selection: _Selection, rows: Iterable[Examination], is_last: Callable[[CoveringCertificate], bool]
) -> None:
    for row in rows:
        found = await selection.get(row.envelope)
        if found is not None and is_last(found):
            return


def _newest_by_agent(rows: Iterable[Examination]) -> list[Examination]:
    found: dict[str, Examination] = {}
    for row in rows:
        found.setdefault(row.agent, row)
    return list(found.values())


def _is_sound(found: CoveringCertificate) -> bool:
    return found.verified.own_exit_code is ExitCode.DONE
