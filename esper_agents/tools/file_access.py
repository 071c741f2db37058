"""Access rules for project files: models read and write no secrets, git internals or settings.

`file_access.toml` lists the names; `secret_stores` recognizes secret stores by content. Files that git ignores are
readable only if the user named them, or a folder of ignored files that contains them, as a path of the task.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates.signing.signing_key import secret_places
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import EvidenceError
from esper_agents.git.process import git
from esper_agents.paths import home
from esper_agents.tools.secret_stores import secret_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.tools.tool import ToolContext

_GIT = ".git"
_IGNORED = "git ignores it"
# Paths per command line.
_MOST_ASKED = 500
_MOST_TOLD = 50


def readable(context: ToolContext, path: str) -> Path:
    """Return the absolute path of a project file or folder that a model may read.

    Raises:
        EvidenceError: It does not exist, lies outside the project, or is withheld from models.
    """
    target = context.inside(path)
    _refuse(context, path, target, "shown to")
    relative = _relative(context, target)
    if relative != "." and not _is_named(context, relative) and _is_ignored(context.root, relative):
        problem = f"{path!r} is not shown to models: git ignores it"
        raise EvidenceError(
            problem, remedy=f"continue without it, or ask the user to name {relative!r} in the task's paths"
        )
    return target


def readable_bytes(context: ToolContext, path: str, *, largest: int) -> bytes:
    """Return a file's content, if a model may read it.

    Raises:
        EvidenceError: As for `readable`; or it is not a regular file, is too large, or its content is a secret store.
    """
    target = readable(context, path)
    if not target.is_file() or target.stat().st_size > largest:
        raise EvidenceError(f"{path!r} is not a file of at most {largest} bytes", remedy="read another file")
    data = target.read_bytes()
    if why := secret_store(data, path):
        problem = f"{path!r} is not shown to models: it holds {why}"
        raise EvidenceError(problem, remedy="continue without it, or ask the user")
    return data


def writable(context: ToolContext, path: str) -> Path:
    """Return the absolute path of a project file that a model may write, existing or not.

    Raises:
        EvidenceError: It lies outside the project, is not a file, is withheld, or controls the rights of agents; or
            the task is about a commit that is not checked out.
    """
    if context.checkout is not None:
        problem = f"{path!r} cannot be written: the task is judged from a private copy of its commit or snapshot"
        raise EvidenceError(problem, remedy="recommend the edit instead")
    target = context.within(path)
    _refuse(context, path, target, "written by")
    place = f"/{_relative(context, target).casefold()}/"
    # At any depth: a folder of the project may be a project of its own.
    for settled in _table().settled:
        if f"/{settled}/" in place:
            raise EvidenceError(
                f"{path!r} cannot be written by a tool: {settled!r} is protected", remedy="edit it yourself"
            )
    if target.exists() and not target.is_file():
        raise EvidenceError(f"{path!r} is not a file", remedy="name a file")
    return target


def is_private(path: str) -> bool:
    """Return whether a path is withheld from models independently of git."""
    return bool(_why_by_name(path))


def withheld_among(context: ToolContext, paths: Sequence[str]) -> dict[str, str]:
    """Return the files withheld from models by path, each with the reason.

    Args:
        context: The project.
        paths: Files, relative to the project, with forward slashes.
    """
    why = {path: reason for path in paths if (reason := _why(context.root, path))}
    left = [path for path in paths if path not in why and not _is_named(context, path)]
    return why | dict.fromkeys(_ignored_among(context.root, left), _IGNORED)


def shown_withheld(withheld: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the withheld files for the output of a tool, at most 50."""
    return [{"path": path, "why": why} for path, why in sorted(withheld.items())[:_MOST_TOLD]]


def told_withheld(withheld: Mapping[str, str]) -> str:
    """Return the summary of withheld files for a tool; empty if there are none."""
    return f"; {number_of(len(withheld), 'file')} withheld: secret, or ignored by git" if withheld else ""


def _is_named(context: ToolContext, path: str) -> bool:
    """Return whether the user named a file, or an ignored folder that contains it."""
    return any(
        path == each or (path.startswith(f"{each}/") and _is_ignored(context.root, each)) for each in context.named
    )


def _refuse(context: ToolContext, path: str, target: Path, done: str) -> None:
    relative = _relative(context, target)
    # A link is also checked by its own name.
    if why := _why(context.root, relative) or _why_by_name(path):
        raise EvidenceError(f"{path!r} is not {done} models: {why}", remedy="continue without it, or ask the user")
    if any(target.is_relative_to(secret_place.resolve()) for secret_place in secret_places(home())):
        raise EvidenceError(f"{path!r} is not {done} models: it is the program's own", remedy="continue without it")


def _relative(context: ToolContext, target: Path) -> str:
    return target.relative_to(context.root.resolve()).as_posix()


def _why(root: Path, path: str) -> str:
    if why := _why_by_name(path):
        return why
    name = path.rpartition("/")[2].casefold()
    if _table().ignored.fullmatch(name) and _is_ignored(root, path):
        return "git ignores it, and its name suggests a secret"
    return ""


def _why_by_name(path: str) -> str:
    # Some file systems ignore a trailing dot or space in a name.
    parts = [each.rstrip(". ") or each for each in path.casefold().split("/")]
    if _GIT in parts:
        return "it is git's own"
    table = _table()
    if folder := next((part for part in parts if part in table.folders), ""):
        return f"keys are kept in {folder!r}"
    if table.secret.fullmatch(parts[-1]) and not table.example.fullmatch(parts[-1]):
        return "it is a file that holds secrets"
    return ""


def named_ignored(context: ToolContext) -> tuple[Path, ...]:
    """Return the ignored files and folders that the user named, without secrets."""
    named = (each for each in context.named if not is_private(each) and is_ignored(context, each))
    return tuple((context.root / each).resolve() for each in named)


def is_ignored(context: ToolContext, path: str) -> bool:
    """Return whether git ignores a project path; tracked files are not ignored, whatever the rules."""
    return path != "." and _is_ignored(context.root, path)


def _is_ignored(root: Path, path: str) -> bool:
    is_listed = git(root, "check-ignore", "-q", "--", f"./{path}") is not None
    return is_listed and not _is_all_ignored(root)


def _ignored_among(root: Path, files: Sequence[str]) -> list[str]:
    """Return the files that git ignores."""
    found: list[str] = []
    for start in range(0, len(files), _MOST_ASKED):
        some = [f":(literal){file}" for file in files[start : start + _MOST_ASKED]]
        said = git(root, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", *some)
        found += [each for each in (said or "").split("\0") if each]
    return [] if found and _is_all_ignored(root) else found


def _is_all_ignored(root: Path) -> bool:
    """Return whether a repository around the project ignores all of the project, and so does not know its files."""
    return git(root, "check-ignore", "-q", "--", ".") is not None


@dataclass(frozen=True, slots=True)
class _Table:
    secret: re.Pattern[str]
    example: re.Pattern[str]
    ignored: re.Pattern[str]
    folders: frozenset[str]
    settled: tuple[str, ...]


@cache
def _table() -> _Table:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    patterns = {name: re.compile("|".join(map(translate, table[name]))) for name in ("secret", "example", "ignored")}
    return _Table(**patterns, folders=frozenset(table["folders"]), settled=tuple(table["settled"]))
