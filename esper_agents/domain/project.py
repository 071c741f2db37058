"""Projects: the git work tree, or else the folder, that contains the paths of a task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GitRevision:
    """What git knew of the project at one moment.

    Attributes:
        commit: Object id of the commit, or empty outside git or before the first commit.
        tree: Object id of its tree, or empty likewise.
        branch: The branch, or empty.
        remote: Where it comes from, without credentials, or empty.
        is_git: Whether git knows the project at all.
        dirty: Paths that differ from the commit, our own published files left out.
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
        key: What names it in the store: a digest of the root.
        is_git: Whether the root is a git work tree.
    """

    root: str
    name: str
    key: str
    is_git: bool
