"""Which files of a project a model may be shown, and which it may write: no secrets, nothing of git's, no settings.

The names stand in `private.toml`. What a file's text looks like is looked at elsewhere, when a call is recorded.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates.sealing.keys import secret_places
from esper_agents.errors import EvidenceError
from esper_agents.inert_git import git
from esper_agents.paths import home

if TYPE_CHECKING:
    from esper_agents.tools.tool import ToolContext

_GIT = ".git"


def readable(context: ToolContext, path: str) -> Path:
    """Return the absolute path of something in the project that a model may be shown.

    Raises:
        EvidenceError: It is not there, lies outside the project, or is kept from models.
    """
    target = context.inside(path)
    _refuse(context, path, target, "shown to")
    return target


def line_of(context: ToolContext, path: str, number: int) -> str:
    """Return a line of a file that a model may be shown, without its line end; empty where there is none."""
    try:
        lines = readable(context, path).read_text(encoding="utf-8", errors="replace").splitlines()
    except (EvidenceError, OSError):
        return ""
    return lines[number - 1] if 0 < number <= len(lines) else ""


def writable(context: ToolContext, path: str) -> Path:
    """Return the absolute path of a file in the project that a model may write, be it there or not.

    Raises:
        EvidenceError: It lies outside the project, is no file, is kept from models, or says what they may do.
    """
    target = context.within(path)
    _refuse(context, path, target, "written by")
    place = f"/{_relative(context, target).casefold()}/"
    # Wherever they lie: a folder of the project may be a project of its own.
    for settled in _table().settled:
        if f"/{settled}/" in place:
            raise EvidenceError(
                f"{path!r} is not written by a tool: {settled!r} is not theirs", remedy="edit it yourself"
            )
    if target.exists() and not target.is_file():
        raise EvidenceError(f"{path!r} is no file", remedy="name a file")
    return target


def is_private(path: str) -> bool:
    """Return whether a path is kept from models whatever git says of it."""
    return bool(_why_by_name(path))


def is_kept_back(root: Path, path: str) -> bool:
    """Return whether a file is kept from models by its path, or by its name where git ignores it.

    Args:
        root: The project's folder.
        path: Relative to it, with forward slashes.
    """
    return bool(_why(root, path))


def _refuse(context: ToolContext, path: str, target: Path, done: str) -> None:
    relative = _relative(context, target)
    # A link is looked at by its own name as well.
    if why := _why(context.root, relative) or _why_by_name(path):
        raise EvidenceError(f"{path!r} is not {done} models: {why}", remedy="go on without it, or ask the person")
    if any(target.is_relative_to(each.resolve()) for each in secret_places(home())):
        raise EvidenceError(f"{path!r} is not {done} models: it is the program's own", remedy="go on without it")


def _relative(context: ToolContext, target: Path) -> str:
    return target.relative_to(context.root.resolve()).as_posix()


def _why(root: Path, path: str) -> str:
    if why := _why_by_name(path):
        return why
    name = path.rpartition("/")[2].casefold()
    if _table().ignored.fullmatch(name) and _is_ignored(root, path):
        return "git ignores it, and its name speaks of a secret"
    return ""


def _why_by_name(path: str) -> str:
    # Some file systems take a name with a dot or a space behind it for the same.
    parts = [each.rstrip(". ") or each for each in path.casefold().split("/")]
    if _GIT in parts:
        return "it is git's own"
    table = _table()
    if folder := next((each for each in parts if each in table.folders), ""):
        return f"keys are kept in {folder!r}"
    if table.secret.fullmatch(parts[-1]) and not table.example.fullmatch(parts[-1]):
        return "it is a file that holds secrets"
    return ""


def _is_ignored(root: Path, path: str) -> bool:
    return git(root, "check-ignore", "-q", "--", path) is not None


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
