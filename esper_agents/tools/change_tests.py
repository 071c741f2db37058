"""Tests that reach a change, by imports and by the names that they mention."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.domain.task import is_about
from esper_agents.errors import InputFileError
from esper_agents.git.diffs import diff_since
from esper_agents.git.trees import contents
from esper_agents.review.discover import discover
from esper_agents.review.leniency import purpose_of
from esper_agents.review.source import LARGEST_BYTES, ReviewSource, from_bytes, read
from esper_agents.review.tables import Purpose
from esper_agents.tools.changed_lines import ChangedLines, changed_lines
from esper_agents.tools.file_access import withheld_among
from esper_agents.tools.module_imports import imported_names, imports_any, module_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from esper_agents.tools.tool import ToolContext

MOST_FILES = 40
_MOST_STEPS = 8
# Pytest's default patterns for test files.
TEST_FILE = re.compile(r"test_.*\.py|.*_test\.py")
_TEST = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+test", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*(?:from|import)\b[^\n]*", re.MULTILINE)
# An open bracket: the imported names are on the next lines.
_WORD = re.compile(r"\w+|\(")
# Names that are too common to connect a test with a change.
_LEAST_NAME = 4


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """Changed Python source.

    Attributes:
        path: Relative to the project.
        before: Old text; empty if the file is new or was not readable.
        after: Text in the work tree; None if the file was deleted, or cannot be read.
        lines: What the change brings; None if the new text does not parse.
    """

    path: str
    before: str
    after: str | None
    lines: ChangedLines | None


@dataclass(frozen=True, slots=True)
class ChangeTests:
    """Test files chosen for a change.

    Attributes:
        files: The chosen files, those that name what changed first.
        tests: Number of test functions in them.
        all_tests: Number of test functions of the project.
        reaching: Number of test files that reach the change; if 0, tests are chosen from all files.
        omitted: Number of test files that reach the change, or could, and were not chosen because of the limit.
    """

    files: tuple[str, ...]
    tests: int
    all_tests: int
    reaching: int
    omitted: int


def changed_files(context: ToolContext, since: str, within: Collection[str] = ()) -> tuple[ChangedFile, ...]:
    """Return the changed Python sources, with what the change brings to each.

    Args:
        context: The project.
        since: A revision, compared with the work tree, or `A..B`, whose new side is in the work tree.
        within: Files and folders; empty for all.

    Raises:
        UsageError: The revision does not exist, or the project is not under git.
    """
    root = context.root.resolve()
    diff = diff_since(root, since)
    wanted = [path for path in diff.paths if path.endswith(".py") and is_about(within, path)]
    found = []
    with contents(root) as held:
        for path in wanted:
            before = ""
            size = held.size(diff.before[path]) if path in diff.before else None
            if size is not None and size <= LARGEST_BYTES:
                old = from_bytes(b"".join(held.chunks()), path)
                before = old.text if isinstance(old, ReviewSource) else ""
            new = read(root / path, path) if (root / path).is_file() else None
            after = new.text if isinstance(new, ReviewSource) else None
            found.append(ChangedFile(path, before, after, _lines(before, after)))
    return tuple(found)


def _lines(before: str, after: str | None) -> ChangedLines | None:
    if after is None:
        return None
    try:
        return changed_lines(before, after)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def choose_tests(context: ToolContext, changed: Sequence[ChangedFile], within: Sequence[str] = ()) -> ChangeTests:
    """Return the test files to run for a change; runs none of the code.

    A test file reaches the change if it changed itself, or if it imports a changed file, directly or through other
    files of the project, `conftest.py` included. Without such a file, all tests are candidates. Test files that name
    what changed come first, then those with fewer imports in between.

    Args:
        context: The project.
        changed: Result of `changed_files`.
        within: Test files and folders to choose from; empty for all.
    """
    texts = dict(_sources(context))
    tests = {
        path: len(_TEST.findall(text)) for path, text in texts.items() if _is_test(path) and is_about(within, path)
    }
    touched = {each.path for each in changed}
    start = [each.path for each in changed if purpose_of(each.path) is not Purpose.TEST]
    steps = _steps(texts, start) if tests else {}
    for path in tests:
        for folder in PurePosixPath(path).parents:
            near = (folder / "conftest.py").as_posix()
            if near in steps or near in touched:
                steps[path] = min(steps.get(path, _MOST_STEPS), steps.get(near, 0) + 1)
    names = {name for each in changed if each.lines for name in each.lines.names if len(name) >= _LEAST_NAME}
    words = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b") if names else None
    reaching = [path for path in tests if path in steps or path in touched]
    candidates = reaching or list(tests)
    candidates.sort(
        key=lambda path: (
            path not in touched,
            not (words and words.search(texts[path])),
            steps.get(path, _MOST_STEPS),
            path,
        )
    )
    chosen = candidates[:MOST_FILES]
    return ChangeTests(
        tuple(chosen),
        sum(tests[path] for path in chosen),
        sum(tests.values()),
        len(reaching),
        len(candidates) - len(chosen),
    )


def importers(context: ToolContext, path: str) -> tuple[str, ...]:
    """Return the files that still import a deleted source by its full name."""
    full = next(module_names(path))
    names = {full, full.removeprefix("src.")}
    return tuple(each for each, text in _sources(context) if imports_any(text, each, names))


def _is_test(path: str) -> bool:
    return bool(TEST_FILE.fullmatch(PurePosixPath(path).name))


def _sources(context: ToolContext) -> Iterator[tuple[str, str]]:
    try:
        found = [each for each in discover(context.root, [context.root]) if each.path.endswith(".py")]
    except InputFileError:
        return
    withheld = withheld_among(context, [each.path for each in found])
    for each in found:
        source = read(each.file, each.path) if each.path not in withheld else None
        if isinstance(source, ReviewSource):
            yield each.path, source.text


def _steps(texts: Mapping[str, str], start: Sequence[str]) -> dict[str, int]:
    """Return the files that import the given ones, directly or not, with the number of imports in between."""
    found: dict[str, int] = {}
    imported: dict[str, set[str]] = {}
    frontier = list(start)
    left = texts.keys() - set(start)
    words = {path: {word for line in _IMPORT.findall(texts[path]) for word in _WORD.findall(line)} for path in left}
    for step in range(1, _MOST_STEPS):
        modules = {name for path in frontier for name in module_names(path)}
        if not modules:
            break
        # Parsing is slow: only files in which an import line mentions one of the names are parsed, once.
        stems = {name.rpartition(".")[2] for name in modules}
        frontier = []
        for path in sorted(left):
            if path not in imported and not (words[path].isdisjoint(stems) and "(" not in words[path]):
                imported[path] = imported_names(texts[path], path)
            if not modules.isdisjoint(imported.get(path, ())):
                frontier.append(path)
                found[path] = step
        left -= set(frontier)
    return found
