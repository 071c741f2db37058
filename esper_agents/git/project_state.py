"""Git state of a project: commit, tree, branch, remote and changed files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from esper_agents.domain.project import GitRevision
from esper_agents.git.process import configured, git
from esper_agents.paths import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Submodules are skipped: they have settings of their own.
_STATUS = (
    *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=dirty"),
    *("--", ".", f":(exclude){PUBLISHED}"),
)
# Number of words before the path, by the first character of a status entry.
_BEFORE_PATH = {"1": 8, "2": 9, "u": 10, "?": 1}
_NOT_UNDER_GIT = GitRevision("", "", "", "", is_git=False, dirty=())
_NO_COMMIT, _NO_BRANCH = "(initial)", "(detached)"


def revision(root: Path) -> GitRevision:
    """Return the git state of a project; published certificates do not count as changes."""
    known = configured(root)
    status = git(root, *_STATUS, emptied=known.filters)
    where = (git(root, "rev-parse", "--show-toplevel", "--revs-only", "HEAD^{tree}") or "").rstrip("\n")
    if status is None or not where:
        return _NOT_UNDER_GIT
    entries = status.split("\0")
    about = dict(entry[2:].split(" ", 1) for entry in entries if entry.startswith("# "))
    commit = about["branch.oid"].replace(_NO_COMMIT, "")
    # Before the first commit there is no tree; a folder name may contain any character.
    top, _, tree = where.rpartition("\n") if commit else (where, "", "")
    if Path(top).resolve() != root.resolve():
        return _NOT_UNDER_GIT
    return GitRevision(
        commit=commit,
        tree=tree,
        branch=about["branch.head"].replace(_NO_BRANCH, ""),
        remote=_without_credentials(known.origin.strip()),
        is_git=True,
        dirty=tuple(sorted(_changed(entries))),
    )


def _changed(entries: Iterable[str]) -> Iterator[str]:
    """Yield the paths of a status; a renamed path is followed by its old name in a separate entry."""
    left = iter(entries)
    for entry in left:
        kind = entry[:1]
        if kind in _BEFORE_PATH:
            yield entry.split(" ", _BEFORE_PATH[kind])[-1]
        if kind == "2":
            next(left, None)


def _without_credentials(remote: str) -> str:
    parts = urlsplit(remote)
    if not parts.netloc:
        return remote
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
