"""What git knows of a project, asked so that nothing in the project's own configuration runs."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from esper_agents.domain.codec import carried
from esper_agents.domain.evidence import Risk
from esper_agents.domain.project import Project, Revision
from esper_agents.errors import InputFileError, UsageError
from esper_agents.inert_git import git, repository_filters, toplevel
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from pathlib import Path

PUBLISHED = "docs/ai/agents"
# Submodules are not looked into: they have settings of their own.
_STATUS = (
    *("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=dirty"),
    *("--", ".", f":(exclude){PUBLISHED}"),
)


def find_project(paths: list[Path], here: Path) -> Project:
    """Return the one project that holds all paths: the git work tree, else the folder.

    Args:
        paths: What a task is about; where empty, the project of `here`.
        here: The working folder.

    Raises:
        InputFileError: A path does not exist, or its name is not UTF-8.
        UsageError: The paths belong to two projects.
    """
    for path in paths:
        if not (here / path).exists():
            raise InputFileError(str(path), "no such file or folder", remedy="correct the path")
    for path in paths or [here]:
        if carried(whole := str((here / path).resolve())) != whole:
            raise InputFileError(str(path), "its name is not UTF-8", remedy="rename it, or the folder that is not")
    roots = {_root_of((here / path).resolve(), here.resolve()) for path in paths or [here]}
    outermost = min(roots, key=lambda each: len(each.parts))
    strangers = sorted(str(each) for each in roots if not each.is_relative_to(outermost))
    if strangers:
        raise UsageError(
            f"the paths belong to two projects, {str(outermost)!r} and {strangers[0]!r}",
            remedy="submit one task for each project",
        )
    key = re.sub(r"[^A-Za-z0-9._-]+", "-", outermost.name)[:40] or "root"
    digest = sha256(str(outermost).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return Project(str(outermost), outermost.name or "/", f"{key}-{digest}", toplevel(outermost) == outermost)


def _root_of(path: Path, here: Path) -> Path:
    folder = path if path.is_dir() else path.parent
    top = toplevel(folder)
    # An installed package inside an ignored virtual environment is no part of the project around it.
    if top is not None and (path == top or git(top, "check-ignore", "-q", str(path)) is None):
        return top
    return here if top is None and path.is_relative_to(here) else folder


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
