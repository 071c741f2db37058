"""Sessions that read a snapshot of their project, so that they run on machines without its checkout."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.domain.project import Project
from esper_agents.errors import EvidenceError, NotFoundError, UsageError
from esper_agents.orchestration.project_services import services_of
from esper_agents.storage.artifacts import Artifacts
from esper_agents.storage.shared_artifacts import MOST_DATABASE_BYTES, VARIABLE, shared_folder
from esper_agents.tools.certified_tree import own_folder
from esper_agents.tools.project_snapshot import restore_snapshot, take_snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from esper_agents.domain.session import Submission
    from esper_agents.orchestration.project_services import ProjectServices, ServiceOverrides
    from esper_agents.storage.store import AsyncStore

_MEDIA_TYPE = "application/vnd.esper.snapshot"


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """Snapshot of a project in the artifacts of a database.

    Attributes:
        key: Key of the project.
        root: Folder of the project on the machine that made the snapshot.
        sha256: Digest of the artifact.
    """

    key: str
    root: str
    sha256: str


async def with_snapshot(services: ProjectServices, begun: Submission) -> Submission:
    """Store a snapshot of the project, and return the submission of a session that reads it.

    Args:
        services: The project.
        begun: The submission.

    Raises:
        UsageError: The task is about a change, names a file that does not travel, or the snapshot is too large.
        EvidenceError: A file cannot be read.
    """
    if begun.task.change is not None:
        problem = "a change is judged where its commits are, not from a snapshot"
        raise UsageError(problem, remedy="leave out --snapshot")
    taken = await asyncio.to_thread(take_snapshot, Path(services.project.root))
    if taken.commit != begun.revision.commit:
        raise UsageError("the project was changed while it was read", remedy="submit the task again")
    for path in begun.task.paths:
        inside = "" if path == "." else f"{path}/"
        if path not in taken.files and not any(name.startswith(inside) for name in taken.files):
            problem = f"{path!r} does not travel: it is secret, or git ignores it"
            raise UsageError(problem, remedy="name other paths, or run the worker on this machine")
    size = len(taken.data)
    if services.store.store.is_shared and size > MOST_DATABASE_BYTES and shared_folder() is None:
        problem = f"the snapshot has {size / 2**20:.1f} MiB, and the database takes {MOST_DATABASE_BYTES // 2**20}"
        raise UsageError(problem, remedy=f"set {VARIABLE} to a folder that all machines share")
    kept = Artifacts(services.place.artifacts).keep_text(taken.data, "snapshot", _MEDIA_TYPE)
    return replace(begun, snapshot=kept.sha256)


@asynccontextmanager
async def snapshot_services(
    source: SnapshotSource, store: AsyncStore, additions: ServiceOverrides
) -> AsyncIterator[ProjectServices]:
    """Yield the services of a project whose files are those of a snapshot, in a private folder.

    Certificates are published in the data directory.

    Args:
        source: The snapshot.
        store: Database of the project's ledgers and certificates.
        additions: Services added by the calling program.

    Raises:
        UsageError: The snapshot is not on this machine, nor shared.
        IntegrityError: It is damaged.
        EvidenceError: There is no space for it.
    """
    name = Path(source.root).name or "project"
    with ExitStack() as stack:
        folder = await asyncio.to_thread(stack.enter_context, own_folder())
        project = Project(str(folder.resolve() / "project"), name, source.key, is_git=True)
        services = replace(services_of(project, store, additions, publish=False), checkout=Path(source.root))
        try:
            await asyncio.to_thread(_restore, services, source.sha256)
            yield services
        finally:
            await services.close()


def _restore(services: ProjectServices, sha256: str) -> None:
    try:
        data = Artifacts(services.place.artifacts).path(sha256).read_bytes()
    except NotFoundError as error:
        problem = f"the snapshot {sha256[:12]} of {services.project.name!r} is not shared with this machine"
        raise UsageError(
            problem, remedy=f"set the same {VARIABLE} on both machines, and submit the task again"
        ) from error
    except OSError as error:
        raise EvidenceError(f"the snapshot cannot be read: {error.strerror}", remedy="esper doctor") from error
    restore_snapshot(data, Path(services.project.root))
