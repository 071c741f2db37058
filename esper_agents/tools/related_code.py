"""Find code related to files: their importers, their tests, and the project's configuration."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict
from pathlib import PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING, Any

from esper_agents.domain.evidence import Risk
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import InputFileError
from esper_agents.review.discover import discover
from esper_agents.review.leniency import purpose_of
from esper_agents.review.source import ReviewSource, read
from esper_agents.review.tables import Purpose
from esper_agents.tools.change_tests import TEST_FILE, changed_files, choose_tests
from esper_agents.tools.file_access import shown_withheld, told_withheld, withheld_among
from esper_agents.tools.module_imports import imports_any, module_names
from esper_agents.tools.output_comparison import without
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import SourceFile
    from esper_agents.review.discover import DiscoveredFile

_MOST = 40
_CONFIGURATION = ("pyproject.toml", "setup.cfg", "setup.py", "requirements.txt", "environment.yml", "tox.ini")
_CONFIGURED = re.compile(r"(?:conf|configs?|hparams|cfg)(?:/|$)|config", re.IGNORECASE)
_SETTINGS = (".yaml", ".yml", ".toml", ".json")


def _rerun(arguments: JsonObject) -> str:
    stems = "|".join(re.escape(PurePosixPath(str(each)).stem) for each in arguments["paths"])
    return f"grep -rnE --include='*.py' {quote(f'^[[:space:]]*(from|import) .*({stems})')} ."


# Configuration files are listed and not read: whether git ignores them, or a commit lacks them, is not recorded.
@tool(
    "related-code",
    risk=Risk.LOW,
    repeatable=True,
    concurrent=True,
    rerun=_rerun,
    comparing=without("configuration", "withheld", "own_tests", "other_tests", "change_tests"),
)
async def related_code(context: ToolContext, paths: list[str], since: str = "") -> ToolResult:
    """Find files that import the given ones, their tests, and the project configuration, without running code.

    Args:
        context: The project.
        paths: Files or folders, relative to the project.
        since: A revision; also choose the tests that reach what changed in the files since then.
    """
    return await asyncio.to_thread(_look, context, paths, since)


def _look(context: ToolContext, paths: list[str], since: str) -> ToolResult:
    own = {each.path for each in discover(context.root, [context.inside(path) for path in paths])}
    modules = {name for path in own for name in module_names(path)}
    # Parsing is slow: only files in which an import line mentions one of the names are parsed.
    stems = "|".join(sorted({re.escape(name.rpartition(".")[2]) for name in modules}))
    imports = re.compile(rf"^[ \t]*(?:from|import)\b.*\b(?:{stems})\b|^[ \t]*from\b.*\($", re.MULTILINE)
    callers: list[str] = []
    tests: list[str] = []
    examined: list[SourceFile] = []
    others = tuple(_others(context, own))
    withheld = withheld_among(context, [each.path for each in others])
    for candidate in others:
        if candidate.path in withheld:
            continue
        source = read(candidate.file, candidate.path)
        if not isinstance(source, ReviewSource) or not imports.search(source.text):
            continue
        if not imports_any(source.text, candidate.path, modules):
            continue
        examined.append(source.record)
        (tests if purpose_of(candidate.path) is Purpose.TEST else callers).append(candidate.path)
    settings = list(_settings(context))
    hidden = withheld_among(context, settings)
    withheld |= hidden
    settings = [setting for setting in settings if setting not in hidden]
    other_tests = {each.path for each in others if TEST_FILE.fullmatch(each.file.name)}
    output: dict[str, Any] = {
        "callers": callers[:_MOST],
        "tests": tests[:_MOST],
        "configuration": settings[:_MOST],
        "own": len(own),
        "withheld": shown_withheld(withheld),
        "own_tests": sorted(path for path in own if TEST_FILE.fullmatch(PurePosixPath(path).name))[:_MOST],
        "other_tests": len(other_tests),
    }
    if since:
        chosen = choose_tests(context, changed_files(context, since))
        output["change_tests"] = {**asdict(chosen), "files": list(chosen.files)}
    importing = "1 file imports" if len(callers) == 1 else f"{len(callers)} files import"
    configuration = number_of(len(settings), "file of configuration", "files of configuration")
    summary = f"{importing} them, {number_of(len(tests), 'test')}, {configuration}"
    return ToolResult(summary + told_withheld(withheld), output, examined=tuple(examined[: 2 * _MOST]))


def _others(context: ToolContext, own: set[str]) -> Iterator[DiscoveredFile]:
    try:
        found = discover(context.root, [context.root])
    except InputFileError:
        return
    yield from (each for each in found if each.path not in own and each.path.endswith(".py"))


def _settings(context: ToolContext) -> Iterator[str]:
    """Yield the files that configure the project: at its root, and in configuration folders."""
    try:
        entries = sorted(context.root.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.is_file() and (
            entry.name in _CONFIGURATION or (entry.suffix in _SETTINGS and _CONFIGURED.search(entry.name))
        ):
            yield entry.name
        elif entry.is_dir() and not entry.is_symlink() and _CONFIGURED.fullmatch(f"{entry.name}/"):
            inside = (one for one in sorted(entry.iterdir()) if one.is_file() and one.suffix in _SETTINGS)
            yield from (one.relative_to(context.root).as_posix() for one in inside)
