"""Read lines or definitions of files in the project."""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.redaction import without_keys
from esper_agents.domain.evidence import Risk, source_file
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.text_lines import text_lines
from esper_agents.errors import EsperError, EvidenceError, UsageError
from esper_agents.tools.file_access import readable_bytes
from esper_agents.tools.secret_stores import decoded
from esper_agents.tools.symbol_lines import symbol_lines
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import SourceFile
    from esper_agents.tools.symbol_lines import SymbolLines

_LARGEST_BYTES = 5_000_000
_MOST_LINES = 400
_MOST_PLACES = 20
_RANGE = re.compile(r"(?P<path>.+?):(?P<first>\d{1,7})(?:-(?P<last>\d{1,7}))?")
_SYMBOL = re.compile(r"(?P<path>.+?\.pyi?)::?(?P<symbol>[A-Za-z_][\w.]*)")


def _rerun(arguments: JsonObject) -> str:
    if places := arguments.get("places"):
        # Definitions are found by name; outside, their files are shown.
        files = dict.fromkeys(_taken_apart(str(place))[0] for place in places)
        return "cat -n -- " + " ".join(map(quote, files))
    first = int(arguments.get("first_line", 1))
    last = int(arguments.get("last_line", 0)) or first + _MOST_LINES - 1
    return f"sed -n {first},{last}p -- {quote(str(arguments['path']))}"


@tool("read-file", risk=Risk.LOW, repeatable=True, rerun=_rerun, concurrent=True)
async def read_file(
    context: ToolContext, path: str = "", first_line: int = 1, last_line: int = 0, places: list[str] | None = None
) -> ToolResult:
    """Read numbered lines of text files in the project, at most 400 of each; secrets and ignored files are refused.

    Args:
        context: The project.
        path: Relative to the project; omit it if you give `places`.
        first_line: Line, from 1.
        last_line: The last line to read; 0 reads up to the limit.
        places: Up to 20 places at once: `FILE`, `FILE:10-40` or `FILE.py:Class.method`.
    """
    if bool(path) is bool(places):
        raise UsageError("read-file takes either a path or places", remedy="give one of them")
    if path:
        part, record = _part(context, path, first_line, last_line)
        return ToolResult(f"{path}:{part['first_line']}-{part['last_line']}", part, examined=(record,))
    return _read_places(context, places or [])


def _read_places(context: ToolContext, places: Sequence[str]) -> ToolResult:
    """Return several places; one that cannot be read has a problem instead of lines."""
    if len(places) > _MOST_PLACES:
        raise UsageError(f"{len(places)} places, of at most {_MOST_PLACES}", remedy="read the rest in another call")
    parts: list[dict[str, Any]] = []
    examined: dict[str, SourceFile] = {}
    for place in places:
        try:
            path, first, last, symbol = _taken_apart(place)
            part, record = _part(context, path, first, last, symbol)
        except EsperError as error:
            parts.append({"place": place, "problem": error.problem, "remedy": error.remedy})
        else:
            parts.append(part)
            examined[record.path] = record
    read = [each for each in parts if "problem" not in each]
    if not read:
        raise EvidenceError(parts[0]["problem"], remedy=parts[0]["remedy"])
    told = [f"{each['path']}:{each['first_line']}-{each['last_line']}" for each in read]
    failed = f"; {number_of(len(parts) - len(read), 'place')} not read" if len(read) < len(parts) else ""
    return ToolResult(", ".join(told) + failed, {"parts": parts}, examined=tuple(examined.values()))


def _taken_apart(place: str) -> tuple[str, int, int, str]:
    """Return path, first line, last line and symbol of a place."""
    if found := _RANGE.fullmatch(place):
        return found["path"], int(found["first"]), int(found["last"] or found["first"]), ""
    if found := _SYMBOL.fullmatch(place):
        return found["path"], 1, 0, found["symbol"]
    return place, 1, 0, ""


def _part(
    context: ToolContext, path: str, first: int, last: int, symbol: str = ""
) -> tuple[dict[str, Any], SourceFile]:
    """Return the lines of a place, and the record of its file."""
    data = readable_bytes(context, path, largest=_LARGEST_BYTES)
    text = without_keys(decoded(data))
    lines = text_lines(text)
    if symbol:
        first, last = _lines_of(symbol, path, symbol_lines(text))
    first = max(1, first)
    last = min(len(lines), last or len(lines), first + _MOST_LINES - 1)
    part = {"path": path, "first_line": first, "last_line": last, "lines": lines[first - 1 : last]}
    more: Mapping[str, Any] = {"symbol": symbol} if symbol else {}
    return {**part, **more}, source_file(path, data)


def _lines_of(symbol: str, path: str, known: Sequence[SymbolLines]) -> tuple[int, int]:
    """Return the lines of a definition; one that is named without its class must be unmistakable.

    Raises:
        EvidenceError: There is no such definition, or several.
    """
    exact = [each for each in known if each.name == symbol]
    found = exact[-1:] or [each for each in known if each.name.endswith(f".{symbol}")]
    if len(found) == 1:
        return found[0].first, found[0].last
    if found:
        problem = f"{path!r} defines {symbol!r} more than once"
        raise EvidenceError(problem, remedy="name one of " + ", ".join(each.name for each in found[:_MOST_PLACES]))
    names = ", ".join(each.name for each in known[:_MOST_PLACES]) or "none"
    raise EvidenceError(f"{path!r} does not define {symbol!r}", remedy=f"it defines {names}")
