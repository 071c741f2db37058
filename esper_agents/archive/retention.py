"""Retention of finished sessions, and removal of unreferenced files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.certificates.policy import rulebook
from esper_agents.errors import StorageError
from esper_agents.storage import pruning
from esper_agents.storage.artifacts import Artifacts
from esper_agents.storage.shared_artifacts import remove_rows, unnamed_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.storage.artifacts import StoredArtifact
    from esper_agents.storage.pruning import Old
    from esper_agents.storage.shared_artifacts import SharedArtifact
    from esper_agents.storage.store import Store

# A file is stored before the event that names it is written; no step takes longer than this.
_YOUNG_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Prunable:
    """Data that can be removed, or was removed.

    Attributes:
        sessions: Finished sessions with their sizes.
        artifacts: Tool artifacts without references, or whose last reference is in these sessions.
        shared: The same for artifacts in a shared database.
    """

    sessions: tuple[Old, ...]
    artifacts: tuple[StoredArtifact, ...]
    shared: tuple[SharedArtifact, ...] = ()

    @property
    def rows(self) -> int:
        """Number of ledger events."""
        return sum(session.rows for session in self.sessions)

    @property
    def size_bytes(self) -> int:
        """Total size; for events, the size of their bodies."""
        files = sum(artifact.size_bytes for artifact in self.artifacts)
        rows = sum(artifact.size_bytes for artifact in self.shared)
        return sum(session.characters for session in self.sessions) + files + rows


def prunable(store: Store, place: ProjectPlace, days: int) -> Prunable:
    """Return the removable data of a project; removes nothing.

    Args:
        store: Where.
        place: Project with the places of its certificates.
        days: Only sessions without events for this number of days.
    """
    found = pruning.old_sessions(store, place.project.key, days=days)
    named = _named(store, place, [each.id for each in found])
    return Prunable(found, _unnamed(place, named), unnamed_rows(store, place.project.key, named, older_than_s=_YOUNG_S))


def prune(store: Store, place: ProjectPlace, chosen: Prunable, *, days: int, by: str) -> Prunable:
    """Remove the chosen data that is still removable, and return it.

    Raises:
        StorageError: A file cannot be removed; the events are removed by then.
    """
    names = [session.id for session in chosen.sessions]
    done = pruning.prune(store, place.project.key, names, days=days, by=by)
    named = _named(store, place, ())
    gone, rows = _unnamed(place, named), unnamed_rows(store, place.project.key, named, older_than_s=_YOUNG_S)
    if rows:
        remove_rows(store, place.project.key, rows)
    for each in gone:
        try:
            each.path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"artifact {each.path.name} cannot be removed: {error.strerror}",
                remedy=f"make {str(each.path.parent)!r} writable",
            ) from error
    return Prunable(done, gone, rows)


def _named(store: Store, place: ProjectPlace, without: Sequence[str]) -> frozenset[str]:
    book = rulebook.shipped()
    ours = {rulebook.digest(book.policy), rulebook.digest(book.kinds)}
    return pruning.named_digests(store, place.project.key, without=without) | ours


def _unnamed(place: ProjectPlace, named: frozenset[str]) -> tuple[StoredArtifact, ...]:
    folder = place.artifacts
    return Artifacts(folder).unnamed(named, older_than_s=_YOUNG_S) if folder.is_dir() else ()
