"""Git queries on a project that run nothing from the project's own configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from esper_agents.domain.evidence import Risk
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.project import GitRevision
from esper_agents.safe_git import configured, git
from esper_agents.tools.projects import find_project
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["PUBLISHED", "find_project", "git_state", "revision"]

PUBLISHED = "docs/ai/agents"
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
    about = dict(each[2:].split(" ", 1) for each in entries if each.startswith("# "))
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


@tool("git-state", risk=Risk.LOW, repeatable=True, rerun=lambda _: "git rev-parse HEAD && git status --short")
async def git_state(context: ToolContext) -> ToolResult:
    """Show the current commit of the project and the files that differ from it."""
    now = revision(context.root)
    output = {"commit": now.commit, "tree": now.tree, "branch": now.branch, "dirty": list(now.dirty)}
    if not now.is_git:
        return ToolResult("not under git", output)
    dirt = number_of(len(now.dirty), "changed file") if now.dirty else "clean"
    return ToolResult(f"commit {now.commit[:12] or 'none yet'}, {dirt}", output)
