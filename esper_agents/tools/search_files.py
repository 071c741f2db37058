"""Search the project's text files with a regular expression, in a process that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.codec import decode
from esper_agents.domain.evidence import Risk, SourceFile
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.tools.file_access import shown_withheld, told_withheld
from esper_agents.tools.find_files import is_like, parts_of
from esper_agents.tools.output_comparison import without
from esper_agents.tools.project_files import project_files, withheld_in
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

# An expression may take exponential time.
_PATIENCE_S = 20.0
_LONGEST = 1_000
_MOST_AROUND = 20
_ANY = "**/*"


def _rerun(arguments: JsonObject) -> str:
    cases = " -i" if arguments.get("ignore_case") else ""
    if around := int(arguments.get("lines_around", 0)):
        cases += f" -C {around}"
    files = str(arguments.get("files", _ANY))
    base = str(arguments.get("path", ".")).rstrip("/")
    glob = files if base in {"", "."} else f"{base}/{files}"
    found = "git ls-files -z --cached --others --exclude-standard -- " + quote(f":(glob){glob}")
    return f"{found} | xargs -0 grep -nIP{cases} -e {quote(str(arguments['pattern']))} --"


@tool("search-files", risk=Risk.LOW, repeatable=True, concurrent=True, rerun=_rerun, comparing=without("withheld"))
async def search_files(
    context: ToolContext,
    pattern: str,
    path: str = ".",
    files: str = _ANY,
    *,
    ignore_case: bool = False,
    lines_around: int = 0,
) -> ToolResult:
    """Find every line of text files that matches a regular expression, at most 200, without secrets and ignored files.

    Args:
        context: The project.
        pattern: Python regular expression, matched against each line separately.
        path: A file or a folder, relative to the project.
        files: Only files of that folder whose path matches, such as `**/*.py`.
        ignore_case: Ignore case.
        lines_around: Lines before and after each match to show, numbered, up to 20.
    """
    if len(pattern) > _LONGEST:
        raise UsageError(f"a pattern has up to {_LONGEST} characters", remedy="write a shorter one")
    if not 0 <= lines_around <= _MOST_AROUND:
        raise UsageError(f"lines_around is {lines_around}", remedy=f"give 0 to {_MOST_AROUND} lines")
    wanted = parts_of(files)
    names = await asyncio.to_thread(project_files, context, path)
    root = context.within(path).relative_to(context.root.resolve()).as_posix()
    chosen = [name for name in names if name == root or is_like(PurePosixPath(name).relative_to(root).parts, wanted)]
    asked = {
        "root": str(context.root.resolve()),
        "files": chosen,
        "pattern": pattern,
        "ignore_case": ignore_case,
        "around": lines_around,
    }
    told = json.loads(await _searched(json.dumps(asked, ensure_ascii=True).encode()))
    if problem := told.get("problem"):
        raise UsageError(f"invalid regular expression {pattern!r}: {problem}", remedy="escape what is meant literally")
    hits = told["hits"]
    examined = decode(tuple[SourceFile, ...], json.dumps(told["examined"]))
    withheld = {**told["withheld"], **await asyncio.to_thread(withheld_in, context, path)}
    output = {
        "hits": hits,
        "files_searched": told["searched"],
        "is_cut": told["is_cut"],
        "withheld": shown_withheld(withheld),
    }
    summary = _summary(pattern, hits, is_cut=told["is_cut"]) + told_withheld(withheld)
    return ToolResult(summary, output, examined=examined)


def _summary(pattern: str, hits: list[JsonObject], *, is_cut: bool) -> str:
    if not hits:
        return f"no line matches {pattern!r}"
    most = "at least " if is_cut else ""
    lines = "1 line fits" if len(hits) == 1 else f"{most}{len(hits)} lines fit"
    return f"{lines} {pattern!r}, first at {hits[0]['path']}:{hits[0]['line']}"


async def _searched(asked: bytes) -> bytes:
    """Return the results of a separate process: an expression in this process could not be stopped."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "esper_agents.tools.regex_search_process"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: text for name, text in os.environ.items() if name in {"PATH", "LANG", "LC_ALL"}},
        start_new_session=True,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(asked), _PATIENCE_S)
    except TimeoutError as error:
        problem = f"the search took over {_PATIENCE_S:.0f} s"
        raise EvidenceError(problem, remedy="write a simpler expression, or search in fewer files") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise EvidenceError("the search ended without a result", remedy="search in fewer files")
    return said
