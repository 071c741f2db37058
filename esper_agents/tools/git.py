"""What git knows of a project, asked so that nothing in the project's own configuration runs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from esper_agents.domain.evidence import Risk
from esper_agents.domain.project import Revision
from esper_agents.inert_git import git, repository_filters, toplevel
from esper_agents.tools.projects import find_project
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PUBLISHED", "find_project", "git_state", "revision"]

PUBLISHED = "docs/ai/agents"
# Submodules are not looked into: they have settings of their own.
_STATUS = (
    *("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=dirty"),
    *("--", ".", f":(exclude){PUBLISHED}"),
)


def revision(root: Path) -> Revision:
    """Return what git knows of a project now; our own published files do not count as changes."""
    status = git(root, *_STATUS, emptied=repository_filters(root))
    if status is None or toplevel(root) != root.resolve():
        return Revision("", "", "", "", is_git=False, dirty=())
    return Revision(
        commit=_word(root, "rev-parse", "--verify", "-q", "HEAD"),
        tree=_word(root, "rev-parse", "--verify", "-q", "HEAD^{tree}"),
        branch=_word(root, "symbolic-ref", "--short", "-q", "HEAD"),
        remote=_without_credentials(_word(root, "config", "--get", "remote.origin.url")),
        is_git=True,
        dirty=tuple(sorted(_changed(status))),
    )


def _word(root: Path, *arguments: str) -> str:
    return (git(root, *arguments) or "").strip()


def _changed(status: str) -> list[str]:
    """Return the paths of `git status -z`; a renamed one is followed by its old name in a field of its own."""
    fields = iter(status.split("\0"))
    paths = []
    for entry in fields:
        if not entry:
            continue
        paths.append(entry[3:])
        if entry[0] in "RC":
            next(fields, None)
    return paths


def _without_credentials(remote: str) -> str:
    parts = urlsplit(remote)
    if not parts.netloc:
        return remote
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@tool("git-state", risk=Risk.LOW, repeatable=True, rerun=lambda _: "git rev-parse HEAD && git status --short")
async def git_state(context: ToolContext) -> ToolResult:
    """Tell which commit the project is at and which files differ from it."""
    now = revision(context.root)
    output = {"commit": now.commit, "tree": now.tree, "branch": now.branch, "dirty": list(now.dirty)}
    if not now.is_git:
        return ToolResult("not under git", output)
    dirt = f"{len(now.dirty)} changed files" if now.dirty else "clean"
    return ToolResult(f"commit {now.commit[:12] or 'none yet'}, {dirt}", output)
