"""Find files of the project by name."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.errors import UsageError
from esper_agents.tools.file_access import shown_withheld, told_withheld
from esper_agents.tools.output_comparison import without
from esper_agents.tools.project_files import project_files, withheld_in
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.codec import JsonObject

_MOST = 500
_MOST_DEPTHS = 4
_LONGEST = 300
_ANY_DEPTH = "**"


def _rerun(arguments: JsonObject) -> str:
    base = str(arguments.get("path", ".")).rstrip("/")
    pattern = str(arguments["pattern"])
    glob = quote(f":(glob){pattern if base in {'', '.'} else f'{base}/{pattern}'}")
    return f"git ls-files --cached --others --exclude-standard -- {glob}"


@tool("find-files", risk=Risk.LOW, repeatable=True, concurrent=True, rerun=_rerun, comparing=without("withheld"))
async def find_files(context: ToolContext, pattern: str, path: str = ".") -> ToolResult:
    """Find up to 500 files and folders by a glob such as `**/*.py`; ignored files and secrets are omitted.

    Args:
        context: The project.
        pattern: `*` and `?` match within a name, `**` matches any folders; `*` alone lists one folder.
        path: Folder to search, relative to the project.
    """
    parts = parts_of(pattern)
    files = await asyncio.to_thread(project_files, context, path)
    base = PurePosixPath(path)
    named = {PurePosixPath(file): file for file in files}
    for each in tuple(named):
        named |= {folder: f"{folder}/" for folder in each.parents if folder.parts}
    root = context.within(path).relative_to(context.root.resolve())
    found = sorted(
        shown
        for place, shown in named.items()
        if place.is_relative_to(root) and is_like(place.relative_to(root).parts, parts)
    )
    more = f", first {_MOST} shown" if len(found) > _MOST else ""
    withheld = await asyncio.to_thread(withheld_in, context, path)
    output = {"paths": found[:_MOST], "found": len(found), "withheld": shown_withheld(withheld)}
    number = "1 path matches" if len(found) == 1 else f"{len(found)} paths match"
    return ToolResult(f"{number} {pattern!r} in {base.as_posix()!r}{more}{told_withheld(withheld)}", output)


def is_like(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern."""
    match pattern:
        case []:
            return not parts
        case [first, *rest] if first == _ANY_DEPTH:
            return any(is_like(parts[start:], rest) for start in range(len(parts) + 1))
        case [first, *rest]:
            return bool(parts) and fnmatchcase(parts[0], first) and is_like(parts[1:], rest)
        case _:
            return False


def parts_of(pattern: str) -> list[str]:
    """Return the parts of a pattern.

    Raises:
        UsageError: The pattern points outside the folder, or is too long to try on every file.
    """
    parts = [each for each in pattern.split("/") if each not in {"", "."}]
    if pattern.startswith("/") or ".." in parts or not parts:
        raise UsageError(f"{pattern!r} is not a valid pattern inside a folder", remedy="write one such as **/*.py")
    if len(pattern) > _LONGEST or parts.count(_ANY_DEPTH) > _MOST_DEPTHS:
        problem = f"a pattern has up to {_LONGEST} characters, and ** up to {_MOST_DEPTHS} times"
        raise UsageError(problem, remedy="write a shorter one")
    return parts
