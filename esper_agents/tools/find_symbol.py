"""Find the definition of a function or class, its callers, and the functions that it calls."""

from __future__ import annotations

import ast
import asyncio
import re
from shlex import quote
from typing import TYPE_CHECKING, Any

from esper_agents.domain.evidence import Risk
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.text_lines import text_lines
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.review.discover import discover
from esper_agents.review.index import ProjectIndex
from esper_agents.review.parsing import tables_of
from esper_agents.review.parts import size_of
from esper_agents.review.project_context import MOST_CONTEXT_BYTES
from esper_agents.review.source import ReviewSource, read
from esper_agents.review.tables import Class, FileTables
from esper_agents.tools.file_access import shown_withheld, told_withheld, withheld_among
from esper_agents.tools.output_comparison import without
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import SourceFile
    from esper_agents.review.tables import Call, Function

_MOST_DEFINITIONS = 10
_MOST_CALLS = 50
# Methods of one name that a call of an unknown object may mean.
_MOST_NAMESAKES = 2
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_LONGEST_LINE = 300


def _rerun(arguments: JsonObject) -> str:
    last = str(arguments["symbol"]).rpartition(".")[2]
    return f"grep -rnw --include='*.py' -e {quote(last)} -- {quote(str(arguments.get('path', '.')))}"


@tool(
    "find-symbol", risk=Risk.LOW, repeatable=True, concurrent=True, rerun=_rerun, comparing=without("withheld", "files")
)
async def find_symbol(context: ToolContext, symbol: str, path: str = ".") -> ToolResult:
    """Find where a function, method or class is defined, which calls reach it, and which functions it calls.

    Calls are followed through imports, objects and `self`, without running the code. A call of an object of unknown
    class is listed as possible.

    Args:
        context: The project.
        symbol: Name, such as `train_epoch`, `Trainer.step` or `Trainer`.
        path: Folder or file to search, relative to the project.
    """
    named = symbol.strip().removesuffix("()")
    if not _NAME.fullmatch(named):
        raise UsageError(
            f"{symbol!r} is not the name of a function or class", remedy="give a name such as Trainer.step"
        )
    return await asyncio.to_thread(_look, context, named, path)


def _look(context: ToolContext, name: str, path: str) -> ToolResult:
    tables, records, withheld = _files(context, name, path)
    index = ProjectIndex(tables)
    try:
        found = list(_definitions(index, name))
        if not found:
            problem = f"no Python file under {path!r} defines {name!r}"
            raise EvidenceError(problem, remedy="search for the text with search-files")
        told = [_told(index, each) for each in found[:_MOST_DEFINITIONS]]
    finally:
        # Tables refer to each other in circles.
        vars(index).clear()
    shown = {place["path"] for each in told for place in (each, *each["called_by"])}
    output = {
        "definitions": told,
        "left_out": max(0, len(found) - _MOST_DEFINITIONS),
        "files": len(tables),
        "withheld": shown_withheld(withheld),
    }
    callers = sum(each["callers"] for each in told)
    summary = f"{name} is defined at {told[0]['path']}:{told[0]['line']}"
    summary += f" and in {number_of(len(found) - 1, 'other place')}" if len(found) > 1 else ""
    summary += f"; {number_of(callers, 'call')} found"
    return ToolResult(
        summary + told_withheld(withheld), output, examined=tuple(records[each] for each in sorted(shown))
    )


def _files(
    context: ToolContext, name: str, path: str
) -> tuple[list[FileTables], dict[str, SourceFile], dict[str, str]]:
    """Return the tables and records of the files to search; of a large project only those that mention the name."""
    candidates = discover(context.root, [context.inside(path)])
    withheld = withheld_among(context, [candidate.path for candidate in candidates])
    readable = [candidate for candidate in candidates if candidate.path not in withheld]
    is_large = sum(map(size_of, readable)) > MOST_CONTEXT_BYTES
    last = name.rpartition(".")[2]
    tables: list[FileTables] = []
    records: dict[str, SourceFile] = {}
    for each in readable:
        source = read(each.file, each.path)
        if not isinstance(source, ReviewSource) or (is_large and last not in source.text):
            continue
        parsed = tables_of(source)
        if isinstance(parsed, FileTables):
            tables.append(parsed)
            records[parsed.path] = source.record
    return sorted(tables, key=lambda each: each.path), records, withheld


def _definitions(index: ProjectIndex, name: str) -> Iterator[Function | Class]:
    """Yield the functions and classes that a name means, by file and line."""
    last = name.rpartition(".")[2]
    functions = [each for each in index.functions.get(last, ()) if _is_named(each.qualname, name)]
    classes = [each for each in index.classes.get(last, ()) if "." not in name]
    everything: list[Function | Class] = [*classes, *functions]
    yield from sorted(everything, key=lambda each: (each.file.path, *_ends(each)))


def _is_named(qualname: str, name: str) -> bool:
    return qualname == name or qualname.endswith(f".{name}")


def _told(index: ProjectIndex, found: Function | Class) -> dict[str, Any]:
    line, last = _ends(found)
    decorators = [] if isinstance(found.node, ast.Module) else [each.lineno for each in found.node.decorator_list]
    told = {"path": found.file.path, "line": line, "text": _text(found.file, line)}
    told |= {"first_line": min((line, *decorators)), "last_line": last}
    if isinstance(found, Class):
        calls = [
            each for each in index.calls_ending(found.name) if index.class_called(each.node, each.function) is found
        ]
        inner = [call for method in found.methods.values() for call in method.calls]
        about = {"name": found.name, "kind": "class", "bases": list(found.bases), "methods": list(found.methods)}
    else:
        calls = list(index.callers(found))
        inner = list(found.calls)
        about = {"name": found.qualname, "kind": "method" if found.owner else "function"}
    callers = [_caller(index, call, found) for call in calls[:_MOST_CALLS]]
    return {**about, **told, "callers": len(calls), "called_by": callers, "calls": _callees(index, inner)}


def _ends(found: Function | Class) -> tuple[int, int]:
    """Return the line of a definition and its last line."""
    node = found.node
    return (1, 1) if isinstance(node, ast.Module) else (node.lineno, node.end_lineno or node.lineno)


def _text(file: FileTables, line: int) -> str:
    lines = text_lines(file.text)
    return lines[line - 1].strip()[:_LONGEST_LINE] if 0 < line <= len(lines) else ""


def _caller(index: ProjectIndex, call: Call, target: Function | Class) -> dict[str, Any]:
    file = call.function.file
    told = {"path": file.path, "line": call.line, "in": call.function.qualname, "text": _text(file, call.line)}
    is_sure = isinstance(target, Class) or target in index.callees(call)
    return told if is_sure else {**told, "is_possible": True}


def _callees(index: ProjectIndex, calls: Iterable[Call]) -> list[dict[str, Any]]:
    """Return the functions of the project that calls reach, each once: those that they surely reach first."""
    sure: dict[tuple[str, str], dict[str, Any]] = {}
    possible: dict[tuple[str, str], dict[str, Any]] = {}
    for call in calls:
        known = index.callees(call)
        guessed = () if known else index.possible_callees(call)
        for each in (*known, *(guessed if len(guessed) <= _MOST_NAMESAKES else ())):
            told = {"name": each.qualname, "place": f"{each.file.path}:{_ends(each)[0]}", "called_at": call.line}
            key = (each.file.path, each.qualname)
            if known:
                sure.setdefault(key, told)
            else:
                possible.setdefault(key, {**told, "is_possible": True})
    others = [told for key, told in possible.items() if key not in sure]
    return [*sure.values(), *others][:_MOST_CALLS]
