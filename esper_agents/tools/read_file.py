"""Read lines of a file in the project."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.certificates.redaction import without_keys
from esper_agents.domain.evidence import Risk, source_file
from esper_agents.tools.file_access import readable_bytes
from esper_agents.tools.secret_stores import decoded
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

_LARGEST_BYTES = 5_000_000
_MOST_LINES = 400


def _rerun(arguments: JsonObject) -> str:
    first = int(arguments.get("first_line", 1))
    last = int(arguments.get("last_line", 0)) or first + _MOST_LINES - 1
    return f"sed -n {first},{last}p -- {quote(str(arguments['path']))}"


@tool("read-file", risk=Risk.LOW, repeatable=True, rerun=_rerun)
async def read_file(context: ToolContext, path: str, first_line: int = 1, last_line: int = 0) -> ToolResult:
    """Read lines of a text file in the project, at most 400; secret stores and ignored files are refused.

    Args:
        context: The project.
        path: Relative to the project.
        first_line: Line, from 1.
        last_line: The last line to read; 0 reads up to the limit.
    """
    data = readable_bytes(context, path, largest=_LARGEST_BYTES)
    lines = without_keys(decoded(data)).splitlines()
    first = max(1, first_line)
    last = min(len(lines), last_line or len(lines), first + _MOST_LINES - 1)
    output = {"path": path, "first_line": first, "last_line": last, "lines": lines[first - 1 : last]}
    return ToolResult(f"{path}:{first}-{last}", output, examined=(source_file(path, data),))
