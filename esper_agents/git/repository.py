"""Identity of a repository: address of its remote, and the commits that it contains."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.git.process import configured, git

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_AT_ONCE = 500


def repository_address(remote: str) -> str:
    """Return host and path of a repository URL, independent of the protocol."""
    bare = remote.partition("://")[2] or remote.replace(":", "/", 1)
    return bare.rpartition("@")[2].removesuffix("/").removesuffix(".git").lower()


def known_commits(root: Path, commits: Iterable[str]) -> frozenset[str]:
    """Return those of the given commits that a repository contains.

    Args:
        root: A folder of the repository.
        commits: Full object IDs; other texts are not commits.
    """
    wanted = sorted({each for each in commits if _OBJECT_ID.fullmatch(each)})
    found: set[str] = set()
    for start in range(0, len(wanted), _AT_ONCE):
        known = git(root, "rev-list", "--no-walk", "--ignore-missing", *wanted[start : start + _AT_ONCE])
        found |= set((known or "").split())
    return frozenset(found)


def root_commits(root: Path) -> frozenset[str]:
    """Return the first commits of a repository; empty for a shallow clone, whose first commits are unknown."""
    if is_shallow(root):
        return frozenset()
    return frozenset((git(root, "rev-list", "--max-parents=0", "HEAD") or "").split())


def is_same_repository(root: Path, other: Path) -> bool:
    """Return whether two checkouts share a first commit and, if both have a remote, its address."""
    remotes = [configured(each).origin.strip() for each in (root, other)]
    if all(remotes) and len({repository_address(remote) for remote in remotes}) > 1:
        return False
    return bool(root_commits(root) & root_commits(other))


def is_shallow(root: Path) -> bool:
    """Return whether a repository is a shallow clone, which lacks older commits."""
    return (git(root, "rev-parse", "--is-shallow-repository") or "").strip() == "true"
