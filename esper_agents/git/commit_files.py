"""Files of a project at a commit, read from git without a checkout."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.git.revisions import commit_of, repository, tree_of
from esper_agents.git.trees import LINK, SUBMODULE, contents, entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class CommitFiles:
    """Files of a project at a commit, without links and submodules.

    Attributes:
        commit: Full object id of the commit.
    """

    def __init__(self, project: Path, revision: str) -> None:
        """List the files.

        Args:
            project: The folder of the project, inside a git work tree.
            revision: A commit, branch or tag.

        Raises:
            UsageError: There is no git, no repository or no such revision.
            EvidenceError: git cannot read the revision.
        """
        self._top = repository(project)
        self.commit = commit_of(self._top, revision)
        tree = tree_of(self._top, project, self.commit, revision)
        self._objects = {
            entry.path: entry.object_id for entry in entries(self._top, tree) if entry.mode not in {LINK, SUBMODULE}
        }

    def __contains__(self, path: object) -> bool:
        """Return whether the commit has a file."""
        return path in self._objects

    def __iter__(self) -> Iterator[str]:
        """Yield the path of every file, relative to the project."""
        return iter(self._objects)

    def is_folder(self, path: str) -> bool:
        """Return whether the commit has files in a folder."""
        return any(PurePosixPath(each).is_relative_to(path) for each in self._objects)

    def read(self, paths: Iterable[str], most_bytes: int) -> dict[str, bytes | None]:
        """Return the contents of files by path; None for one that is too large or that this clone does not have.

        Args:
            paths: Relative to the project; a path that the commit does not have is skipped.
            most_bytes: Size of the largest file to read.

        Raises:
            EvidenceError: git cannot read a file.
        """
        found: dict[str, bytes | None] = {}
        with contents(self._top) as held:
            for path in paths:
                if path in self._objects:
                    size = held.size(self._objects[path])
                    is_read = size is not None and size <= most_bytes
                    found[path] = b"".join(held.chunks()) if is_read else None
        return found
