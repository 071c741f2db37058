"""Finds where a string stands in the project's Python files."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.review.discover import discover
from esper_agents.review.source import Source, read
from esper_agents.tools.private import is_kept_back
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.evidence import SourceFile

_MOST_HITS = 200
_LONGEST_LINE = 300


@tool(
    "search-code",
    risk=Risk.LOW,
    repeatable=True,
    rerun=lambda arguments: " ".join(
        (
            *("grep -rnF --include='*.py' -e", quote(str(arguments["text"])), "--"),
            *(quote(str(each)) for each in arguments["paths"]),
        )
    ),
)
async def search_code(context: ToolContext, text: str, paths: list[str]) -> ToolResult:
    """Find every line of Python files that holds a string, at most 200.

    Args:
        context: The project.
        text: What to look for, as it stands; no pattern.
        paths: Files or folders, relative to the project.
    """
    hits: list[dict[str, str | int]] = []
    examined: list[SourceFile] = []
    for candidate in discover(context.root, [context.inside(path) for path in paths]):
        if is_kept_back(context.root, candidate.path):
            continue
        source = read(candidate.file, candidate.path)
        if not isinstance(source, Source) or text not in source.text:
            continue
        examined.append(source.record)
        for number, line in enumerate(source.text.splitlines(), 1):
            if text in line and len(hits) < _MOST_HITS:
                hits.append({"path": candidate.path, "line": number, "text": line.strip()[:_LONGEST_LINE]})
    summary = f"no line holds {text!r}"
    if hits:
        found = "1 line holds" if len(hits) == 1 else f"{len(hits)} lines hold"
        summary = f"{found} {text!r}, first at {hits[0]['path']}:{hits[0]['line']}"
    return ToolResult(summary, {"hits": hits}, examined=tuple(examined))
