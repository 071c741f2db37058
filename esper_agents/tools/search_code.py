"""Find occurrences of a string in the project's Python files."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.certificates.redaction import without_keys
from esper_agents.domain.evidence import Risk
from esper_agents.domain.text_lines import text_lines
from esper_agents.review.discover import discover
from esper_agents.review.source import ReviewSource, read
from esper_agents.tools.file_access import shown_withheld, told_withheld, withheld_among
from esper_agents.tools.output_comparison import without
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.evidence import SourceFile

_MOST_HITS = 50
_LONGEST_LINE = 300


@tool(
    "search-code",
    risk=Risk.LOW,
    repeatable=True,
    concurrent=True,
    comparing=without("withheld"),
    rerun=lambda arguments: " ".join(
        (
            *("grep -rnF --include='*.py' -e", quote(str(arguments["text"])), "--"),
            *(quote(str(each)) for each in arguments["paths"]),
        )
    ),
)
async def search_code(context: ToolContext, text: str, paths: list[str]) -> ToolResult:
    """Count the lines of Python files that contain a string, and list the first 50; secrets are withheld.

    Args:
        context: The project.
        text: Literal text to find; not a pattern.
        paths: Files or folders, relative to the project.
    """
    hits: list[dict[str, str | int]] = []
    count = 0
    examined: list[SourceFile] = []
    candidates = discover(context.root, [context.inside(path) for path in paths])
    withheld = withheld_among(context, [each.path for each in candidates])
    for candidate in candidates:
        if candidate.path in withheld:
            continue
        source = read(candidate.file, candidate.path)
        if not isinstance(source, ReviewSource) or text not in source.text:
            continue
        examined.append(source.record)
        for number, line in enumerate(text_lines(without_keys(source.text)), 1):
            if text not in line:
                continue
            count += 1
            if len(hits) < _MOST_HITS:
                hits.append({"path": candidate.path, "line": number, "text": line.strip()[:_LONGEST_LINE]})
    summary = f"no line contains {text!r}"
    if hits:
        found = "1 line holds" if count == 1 else f"{count} lines hold"
        summary = f"{found} {text!r}, first at {hits[0]['path']}:{hits[0]['line']}"
    output = {"hits": hits, "withheld": shown_withheld(withheld)}
    return ToolResult(summary + told_withheld(withheld), output, examined=tuple(examined))
