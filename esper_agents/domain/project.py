"""Projects: the git work tree, or else the folder, that contains the paths of a task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GitRevision:
    """State of the project's git repository at one moment.

    Attributes:
        commit: Object id of the commit, or empty outside git or before the first commit.
        tree: Object id of its tree, or empty as for `commit`.
        branch: The branch, or empty.
        remote: URL of `origin` without credentials, or empty.
        is_git: Whether the project is in a git repository.
        dirty: Paths that differ from the commit, except files published by this program.
    """

    commit: str
    tree: str
    branch: str
    remote: str
    is_git: bool
    dirty: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """A project on this machine.

    Attributes:
        root: Absolute path of its folder.
        name: The folder's name.
        key: Key of the project in the store: a digest of the root.
        is_git: Whether the root is a git work tree.
    """

    root: str
    name: str
    key: str
    is_git: bool
