"""Retention of finished sessions, and removal of unreferenced files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.certificates.policy import rulebook
from esper_agents.errors import StorageError
from esper_agents.storage import pruning
from esper_agents.storage.artifacts import Artifacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.storage.artifacts import StoredArtifact
    from esper_agents.storage.pruning import Old
    from esper_agents.storage.store import Store

# A file is stored before the event that names it is written; no step takes longer than this.
_YOUNG_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Prunable:
    """Data that can be removed, or was removed.

    Attributes:
        sessions: Finished sessions with their sizes.
        artifacts: Tool artifacts without references, or whose last reference is in these sessions.
    """

    sessions: tuple[Old, ...]
    artifacts: tuple[StoredArtifact, ...]

    @property
    def rows(self) -> int:
        """Number of ledger events."""
        return sum(session.rows for session in self.sessions)

    @property
    def size_bytes(self) -> int:
        """Total size; for events, the size of their bodies."""
        return sum(session.characters for session in self.sessions) + sum(
            artifact.size_bytes for artifact in self.artifacts
        )


def prunable(store: Store, place: ProjectPlace, days: int) -> Prunable:
    """Return the removable data of a project; removes nothing.

    Args:
        store: Where.
        place: Project with the places of its certificates.
        days: Only sessions without events for this number of days.
    """
    found = pruning.old_sessions(store, place.project.key, days=days)
    return Prunable(found, _unnamed(store, place, [each.id for each in found]))


def prune(store: Store, place: ProjectPlace, chosen: Prunable, *, days: int, by: str) -> Prunable:
    """Remove the chosen data that is still removable, and return it.

    Raises:
        StorageError: A file cannot be removed; the events are removed by then.
    """
    names = [session.id for session in chosen.sessions]
    done = pruning.prune(store, place.project.key, names, days=days, by=by)
    gone = _unnamed(store, place, ())
    for each in gone:
        try:
            each.path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"artifact {each.path.name} cannot be removed: {error.strerror}",
                remedy=f"make {str(each.path.parent)!r} writable",
            ) from error
    return Prunable(done, gone)


def _unnamed(store: Store, place: ProjectPlace, without: Sequence[str]) -> tuple[StoredArtifact, ...]:
    folder = place.artifacts
    if not folder.is_dir():
        return ()
    book = rulebook.shipped()
    ours = {rulebook.digest(book.policy), rulebook.digest(book.kinds)}
    named = pruning.named_digests(store, place.project.key, without=without)
    return Artifacts(folder).unnamed(named | ours, older_than_s=_YOUNG_S)
