"""Git state and history of the project: commits, their changes, and the last author of a line."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from shlex import join, quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk, source_file
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.git.process import configured, git
from esper_agents.git.project_state import revision as project_revision
from esper_agents.git.revisions import commit_of, repository
from esper_agents.paths import PUBLISHED
from esper_agents.tools.file_access import is_private, readable
from esper_agents.tools.model_output import cut, kept_text
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.codec import JsonObject

_MOST_COMMITS = 200
_MOST_LINES = 400
_MOST_SHOWN = 12_000
_MOST_NAMED = 500
# One line per commit; only the last field may span lines. No message contains the null byte that separates commits.
_FORMAT = "%H%n%aI%n%an%n%s%n%b"
# Blocks signature checkers, and programs that a repository configures for displaying files.
_QUIET = ("--no-show-signature", "--no-notes", "--no-color")
_DIFF = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/"),
    *("--submodule=short", "--ignore-submodules=all"),
)
# Larger files count as binary.
_BOUNDED = ("-c", "core.bigFileThreshold=1m", "-c", "core.quotePath=false", "-c", "log.showSignature=false")


@tool(
    "git-state",
    risk=Risk.LOW,
    repeatable=True,
    concurrent=True,
    rerun=lambda _: f"git rev-parse HEAD && git status --short -- . ':(exclude){PUBLISHED}'",
)
async def git_state(context: ToolContext) -> ToolResult:
    """Show the current commit of the project and the files that differ from it, without published certificates."""
    now = project_revision(context.root)
    output = {"commit": now.commit, "tree": now.tree, "branch": now.branch, "dirty": list(now.dirty)}
    if not now.is_git:
        return ToolResult("not under git", output)
    has_certificates = bool(git(context.root, "status", "--porcelain", "--", PUBLISHED))
    clean = "clean but for certificates" if has_certificates else "clean"
    dirt = number_of(len(now.dirty), "changed file") if now.dirty else clean
    return ToolResult(f"commit {now.commit[:12] or 'none yet'}, {dirt}", output)


def _paths(arguments: JsonObject) -> str:
    named = [str(each) for each in arguments.get("paths") or ()]
    return f" -- {join(named)}" if named else ""


def _rerun_log(arguments: JsonObject) -> str:
    most, revision = int(arguments.get("most", 20)), str(arguments.get("revision", "HEAD"))
    return f"git log -n {most} {quote(revision)}{_paths(arguments)}"


@tool("git-log", risk=Risk.LOW, repeatable=True, concurrent=True, rerun=_rerun_log)
async def git_log(
    context: ToolContext, revision: str = "HEAD", paths: list[str] | None = None, most: int = 20
) -> ToolResult:
    """List the project's commits, newest first: identifier, time, author and message.

    Args:
        context: The project.
        revision: A commit, a branch, or a range such as `main..HEAD`.
        paths: Only commits that changed these files or folders.
        most: Maximum number of commits, up to 200.
    """
    number = max(1, min(most, _MOST_COMMITS))
    meant = await asyncio.to_thread(_commits, context, revision)
    asked = ("log", "-z", f"-n{number}", f"--format={_FORMAT}", *_QUIET, meant, "--", *_literally(paths))
    said = await _said(context, asked)
    commits = [_commit(each) for each in said.split("\0") if each.strip()]
    first = f", the newest {commits[0]['commit'][:12]} of {commits[0]['at']}" if commits else ""
    return ToolResult(f"{number_of(len(commits), 'commit')} of {revision}{first}", {"commits": commits})


def _commit(record: str) -> dict[str, str]:
    commit, at, author, subject, body = record.split("\n", 4)
    return {"commit": commit, "at": at, "author": author, "subject": subject, "body": cut(body.strip(), 2_000)}


def _rerun_show(arguments: JsonObject) -> str:
    revision, since = str(arguments.get("revision", "")), str(arguments.get("since", ""))
    if since:
        return f"git diff {quote(since)}{_paths(arguments)}"
    shown = "diff HEAD" if not revision else f"{'diff' if '..' in revision else 'show'} {quote(revision)}"
    return f"git {shown}{_paths(arguments)}"


@tool("git-show", risk=Risk.LOW, repeatable=True, concurrent=True, rerun=_rerun_show)
async def git_show(
    context: ToolContext, revision: str = "", paths: list[str] | None = None, since: str = ""
) -> ToolResult:
    """Show the changes of a commit, between two commits (`A..B`), or not yet committed, as a unified diff.

    Args:
        context: The project.
        revision: A commit or a range; if omitted, the work tree against the last commit.
        paths: Only these files or folders.
        since: A commit; shows the work tree against it, instead of a revision.
    """
    if revision and since:
        raise UsageError("git-show takes either a revision or since", remedy="give one of them")
    meant = await asyncio.to_thread(_commits, context, revision or since or "HEAD")
    is_one = revision and ".." not in revision
    asked = ("show", "--format=", "--first-parent", "-m", *_QUIET, *_DIFF) if is_one else ("diff", *_DIFF)
    named = _literally(paths)
    listed = await _said(context, (*asked, "--name-only", "-z", meant, "--", *named))
    names = sorted({each for each in listed.split("\0") if each})
    withheld = [name for name in names if is_private(name)]
    text = ""
    if len(withheld) < len(names):
        others = [f":(exclude,top,literal){each}" for each in withheld]
        text = await _said(context, (*asked, meant, "--", *named, *others))
    kept = kept_text(context, text, "difference.diff") if len(text) > _MOST_SHOWN else ()
    output = {"files": names[:_MOST_NAMED], "withheld": withheld, "diff": cut(text.strip("\n"), _MOST_SHOWN, kept)}
    number = number_of(len(names), "changed file")
    return ToolResult(
        f"{revision or (since and f'since {since}') or 'not committed yet'}: {number}", output, artifacts=kept
    )


def _commits(context: ToolContext, revision: str) -> str:
    """Return the commit identifiers of a revision or a range of two: never an option, never a path in a commit."""
    top = repository(context.root)
    first, dots, second = revision.partition("..." if "..." in revision else "..")
    if not dots:
        return commit_of(top, first)
    return f"{commit_of(top, first or 'HEAD')}{dots}{commit_of(top, second or 'HEAD')}"


def _literally(paths: Sequence[str] | None) -> list[str]:
    return [f":(literal){path}" for path in paths or () if path]


@tool(
    "git-blame",
    risk=Risk.LOW,
    repeatable=True,
    concurrent=True,
    rerun=lambda arguments: (
        f"git blame -L {int(arguments.get('first_line', 1))},+{_MOST_LINES} -- {quote(str(arguments['path']))}"
    ),
)
async def git_blame(context: ToolContext, path: str, first_line: int = 1, last_line: int = 0) -> ToolResult:
    """Show for each line of a file the last commit that changed it, with time and author; at most 400 lines.

    Args:
        context: The project.
        path: A file, relative to the project.
        first_line: Line, from 1.
        last_line: The last line; 0 reads up to the limit.
    """
    target = readable(context, path)
    data = target.read_bytes() if target.is_file() else b""
    lines = len(data.splitlines())
    first = max(1, first_line)
    last = min(lines, last_line or lines, first + _MOST_LINES - 1)
    if first > last:
        raise EvidenceError(f"{path!r} has {lines} lines", remedy="name existing lines")
    inside = target.relative_to(context.root.resolve()).as_posix()
    asked = ("blame", "--line-porcelain", "--no-textconv", f"-L{first},{last}", "--", inside)
    said = await _said(context, asked)
    told = _blamed(said)
    return ToolResult(f"{path}:{first}-{last}", {"lines": told}, examined=(source_file(inside, data),))


def _blamed(said: str) -> list[dict[str, str | int]]:
    told: list[dict[str, str | int]] = []
    about: dict[str, str] = {}
    for line in said.split("\n"):
        if line.startswith("\t"):
            commit, _, number = about["head"].split(" ")[:3]
            who = {"author": about.get("author", ""), "subject": about.get("summary", ""), "text": line[1:]}
            told.append({"line": int(number), "commit": commit, "at": _moment(about.get("author-time", "0")), **who})
            about = {}
        elif "head" not in about:
            about["head"] = line
        else:
            name, _, text = line.partition(" ")
            about[name] = text
    return told


def _moment(seconds: str) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).isoformat()


async def _said(context: ToolContext, asked: Sequence[str]) -> str:
    """Return the output of git.

    Raises:
        UsageError: The project is not under git.
        EvidenceError: Git fails.
    """

    def run() -> str | None:
        repository(context.root)
        return git(context.root, *_BOUNDED, *asked, emptied=configured(context.root).filters)

    said = await asyncio.to_thread(run)
    if said is None:
        raise EvidenceError(f"git {asked[0]} fails here", remedy="name a file that git knows, or run `git fsck`")
    return said
