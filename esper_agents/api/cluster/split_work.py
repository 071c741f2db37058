"""Reviews and verifications in parts on a Ray cluster, with the results of one process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.cluster.connection import connect
from esper_agents.api.cluster.remote_work import run_parts
from esper_agents.api.cluster.worker_actor import WorkerHost, describe_process, refuse_other_database
from esper_agents.api.project import open_project
from esper_agents.api.review import review_files
from esper_agents.api.witnesses import demanded_witnesses
from esper_agents.archive.project_place import has_archive
from esper_agents.archive.verification.verify_all import (
    audit_archive,
    certificate_ids,
    combined,
    verify_named,
)
from esper_agents.certificates.log import pins
from esper_agents.certificates.signing.trusted_keys import trusted
from esper_agents.errors import ClusterError, EsperError, NotFoundError, UsageError
from esper_agents.git.find_project import find_project
from esper_agents.git.project_state import revision
from esper_agents.paths import home, project_home
from esper_agents.review.engine import review_portable
from esper_agents.storage.database_url import database_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.api.review import ReviewOptions
    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.verification.verify_all import ArchiveAudit, ArchiveVerification, NamedVerification
    from esper_agents.certificates.log.cosignature import Witness
    from esper_agents.review.outcome import ReviewOutcome
    from esper_agents.review.report import Progress

_CERTIFICATES = 200


def review_on_ray(
    options: ReviewOptions,
    on_progress: Callable[[Progress], None] | None = None,
    *,
    cluster: str = "",
    allow_open: bool = False,
) -> ReviewOutcome:
    """Return the review of files whose parts the nodes of a Ray cluster review.

    The contents of the files travel to the nodes, which need no checkout. A project of up to 24 MiB is one part.

    Args:
        options: Paths, rules and the baseline file to compare with.
        on_progress: Called before each file is read, and when it was checked.
        cluster: `HOST:PORT` of the head; `RAY_ADDRESS`, else the cluster of this machine if empty.
        allow_open: Whether the cluster may run code for clients without a token.

    Raises:
        UsageError: A change is selected, or additional rules; or the cluster requires no token.
        ClusterError: The cluster cannot be used, or a node has another version of esper-agents.
        InputFileError: A path does not exist, or the baseline file cannot be read.
    """
    from esper_agents.review.catalogue import has_foreign_rules

    if options.is_change:
        raise UsageError("a change is reviewed in one process", remedy="leave out --on ray, or --diff and --staged")
    if options.extra or has_foreign_rules():
        problem = "rules of other packages are not run on a cluster"
        raise UsageError(problem, remedy="leave out --on ray, or uninstall those packages")
    with connect(cluster, allow_open=allow_open) as connected:
        return review_files(options, on_progress, elsewhere=partial(run_parts, connected, review_portable))


@dataclass(frozen=True, slots=True)
class VerificationPart:
    """Certificates to verify, or the audit of the log if there are none.

    Attributes:
        root: The project's folder.
        names: IDs of the certificates; empty for the audit.
        witnesses: Witnesses that must have cosigned.
        host: Process that wants the results.
        view: Digest of everything outside the database that results depend on.
        is_sqlite: Whether the database is a file of one machine.
    """

    root: str
    names: tuple[str, ...]
    witnesses: tuple[Witness, ...]
    host: WorkerHost
    view: str
    is_sqlite: bool


@dataclass(frozen=True, slots=True)
class VerifiedPart:
    """Results of one part.

    Attributes:
        certificates: Results of its certificates.
        audit: The audit, if it was asked for.
    """

    certificates: tuple[NamedVerification, ...]
    audit: ArchiveAudit | None


async def verify_archive_on_ray(
    project: Path, witnesses: Sequence[str] = (), *, cluster: str = "", allow_open: bool = False
) -> ArchiveVerification:
    """Verify all certificates of a project in parts that the nodes of a Ray cluster verify; see `verify_archive`.

    Every node needs the folder of the project under the same path, the database, and the keys and pins of this data
    directory: with others, its results would be others.

    Args:
        project: Path in the project.
        witnesses: Keys of witnesses that must have cosigned, besides those of the settings.
        cluster: `HOST:PORT` of the head; `RAY_ADDRESS`, else the cluster of this machine if empty.
        allow_open: Whether the cluster may run code for clients without a token.

    Raises:
        NotFoundError: The project has no archive.
        UsageError: The cluster requires no token.
        ClusterError: The cluster cannot be used, or a node has another project, other keys or another version.
        StorageError: A node uses another database.
    """
    found = find_project([project], Path.cwd())
    if not has_archive(found):
        raise NotFoundError("archive", found.name, (), listing="esper certificates list")
    demanded = tuple(demanded_witnesses(witnesses, found.root))
    async with open_project(found.root) as opened:
        place = opened.services.place
        names, view = await certificate_ids(place), await place.store.run(lambda _: _view(place))
    host = describe_process(Path(found.root))
    is_sqlite = database_url(project_home(found.key) / "esper.db").get_backend_name() == "sqlite"
    batches = [names[start : start + _CERTIFICATES] for start in range(0, len(names), _CERTIFICATES)]
    parts = [VerificationPart(found.root, part, demanded, host, view, is_sqlite) for part in ((), *batches)]
    with connect(cluster, allow_open=allow_open) as connected:
        done = await asyncio.to_thread(lambda: list(run_parts(connected, verify_part, parts)))
    (audit,) = [part.audit for part in done if part.audit is not None]
    return combined((each for part in done for each in part.certificates), audit)


def verify_part(part: VerificationPart) -> VerifiedPart:
    """Verify a part in a process on a node.

    Args:
        part: The part.

    Raises:
        ClusterError: This node has another project, other keys or another version than the process that wants it.
        StorageError: It uses another database.
    """
    try:
        own = describe_process(Path(part.root))
    except EsperError as error:
        raise _other_view(describe_process(None), part, error.problem) from error
    if own.version != part.host.version:
        raise _other_view(own, part, f"it has esper-agents {own.version}, not {part.host.version}")
    refuse_other_database(own, part.host, is_sqlite=part.is_sqlite)
    return asyncio.run(_verified(part, own))


async def _verified(part: VerificationPart, own: WorkerHost) -> VerifiedPart:
    async with open_project(part.root) as opened:
        place = opened.services.place
        if await place.store.run(lambda _: _view(place)) != part.view:
            raise _other_view(own, part, "its files of the project, its trusted keys or its pin of the log differ")
        if not part.names:
            return VerifiedPart((), await audit_archive(place))
        return VerifiedPart(await verify_named(place, part.names, part.witnesses), None)


def _view(place: ProjectPlace) -> str:
    """Return a digest of everything outside the database that the results of a verification depend on."""
    root = Path(place.project.root)
    # Published files are too many to digest; the same folder has the same inode on every machine that mounts it.
    folder, store = root.stat(), place.store.store
    with store.reading() as connection:
        pin = pins.pinned_note(home(), store.where, pins.pinned_for(connection, place.project.key))
    keys = trusted(home(), root, place.project.key)
    known = (place.project.key, folder.st_ino, folder.st_mtime_ns, revision(root), keys, pin)
    return sha256(repr(known).encode("utf-8", "surrogateescape")).hexdigest()


def _other_view(own: WorkerHost, part: VerificationPart, why: str) -> ClusterError:
    return ClusterError(
        f"{own.node} cannot verify {part.root!r} as {part.host.node} does: {why}",
        remedy="share the folder of the project and ESPER_HOME, or leave out --on ray",
    )
