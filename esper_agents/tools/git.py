"""What git knows of a project, asked so that nothing in the project's own configuration runs."""

from __future__ import annotations

import os
import re
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from esper_agents.domain.codec import carried
from esper_agents.domain.evidence import Risk
from esper_agents.domain.project import Project, Revision
from esper_agents.errors import InputFileError, UsageError
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Sequence

PUBLISHED = "docs/ai/agents"
_TIMEOUT_S = 30
# Submodules are not looked into: they have settings of their own.
_STATUS = (
    *("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=dirty"),
    *("--", ".", f":(exclude){PUBLISHED}"),
)
# A reviewed repository may carry configuration of its own; none of it may start a program.
_INERT = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat")


# What makes git look at another repository than the one it is asked about; hooks of git set these.
_ELSEWHERE = frozenset(("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"))
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"


def _git(root: Path, *arguments: str, emptied: Sequence[str] = ()) -> str | None:
    """Return what git prints, or None where it fails or is not installed; settings that are emptied do nothing."""
    command = ["git", *_INERT, "--no-optional-locks", "-C", str(root), *arguments]
    try:
        # A session of its own: Ctrl-C is for us, and a git that died of it would be taken for "not under git".
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            start_new_session=True,
            env=_environment(emptied),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # What is not UTF-8 is shown escaped: it goes into the ledger, and no path of a project may be so.
    return done.stdout.decode("utf-8", "backslashreplace") if done.returncode == 0 else None


def _environment(emptied: Sequence[str]) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if name not in _ELSEWHERE}
    first = int(kept.get("GIT_CONFIG_COUNT") or 0)
    # Not `-c`: the name of a filter may hold `=`.
    for number, name in enumerate(emptied, first):
        kept |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": ""}
    return kept | {"GIT_CONFIG_COUNT": str(first + len(emptied))}


def _filters(root: Path) -> list[str]:
    """Return the settings by which the repository itself names programs to run on its files; the user's own stand."""
    said = (_git(root, "config", "-z", "--show-scope", "--name-only", "--get-regexp", _FILTERS) or "").split("\0")
    return [name for scope, name in zip(said[::2], said[1::2], strict=False) if scope in {"local", "worktree"}]


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
    return Project(str(outermost), outermost.name or "/", f"{key}-{digest}", _toplevel(outermost) == outermost)


def _toplevel(folder: Path) -> Path | None:
    found = _git(folder, "rev-parse", "--show-toplevel")
    top = Path(found.rstrip("\n")).resolve() if found and found.strip() else None
    # A repository may claim any folder for its work tree; only one that we are in is ours.
    return top if top is not None and folder.resolve().is_relative_to(top) else None


def _root_of(path: Path, here: Path) -> Path:
    folder = path if path.is_dir() else path.parent
    top = _toplevel(folder)
    # An installed package inside an ignored virtual environment is no part of the project around it.
    if top is not None and (path == top or _git(top, "check-ignore", "-q", str(path)) is None):
        return top
    return here if top is None and path.is_relative_to(here) else folder


def revision(root: Path) -> Revision:
    """Return what git knows of a project now; our own published files do not count as changes."""
    status = _git(root, *_STATUS, emptied=_filters(root))
    if status is None or _toplevel(root) != root.resolve():
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
    return (_git(root, *arguments) or "").strip()


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
