"""Request for a run of tests, and its outcome: pytest's output, the report and the watched files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import SourceFile, source_file
from esper_agents.domain.text_lines import text_lines
from esper_agents.errors import EvidenceError, InputFileError
from esper_agents.review.discover import discover
from esper_agents.review.leniency import purpose_of
from esper_agents.review.source import ReviewSource, read
from esper_agents.review.tables import Purpose
from esper_agents.tools.change_tests import changed_files, choose_tests
from esper_agents.tools.executable_lines import ExecutableLines, executable_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from esper_agents.domain.codec import JsonObject
    from esper_agents.tools.change_tests import ChangedFile, ChangeTests
    from esper_agents.tools.pytest_report import PytestReport
    from esper_agents.tools.tool import ToolContext


@dataclass(frozen=True, slots=True)
class PytestRequest:
    """Request for a run of tests.

    Attributes:
        paths: Test files and folders.
        subject: Files and folders under test.
        data: Ignored files and folders that the tests read.
        timeout_s: Time limit in seconds.
        has_network: Whether the tests may use the network.
        since: Revision of the change; empty without one.
        changed: Files of the change.
        chosen: Tests that were chosen for the change; None if none were.
    """

    paths: list[str]
    subject: list[str]
    data: list[str]
    timeout_s: int
    has_network: bool
    since: str = ""
    changed: tuple[ChangedFile, ...] = ()
    chosen: ChangeTests | None = None

    def of_change(self, context: ToolContext, since: str) -> PytestRequest:
        """Return the request with the tests that reach a change in place of folders of tests.

        Raises:
            EvidenceError: There are no tests to choose from.
        """
        changed = changed_files(context, since, self.subject)
        folders = [path for path in self.paths if context.inside(path).is_dir()]
        chosen = choose_tests(context, changed, folders) if folders else None
        paths = [path for path in self.paths if path not in folders]
        paths = list(dict.fromkeys([*paths, *(chosen.files if chosen else ())]))
        if not paths:
            where = ", ".join(self.paths)
            raise EvidenceError(f"there are no test files in {where}", remedy="add tests that call what changed")
        here = [each.path for each in changed if each.after is not None]
        subject = list(dict.fromkeys([*self.subject, *here]))
        return replace(self, paths=paths, subject=subject, since=since, changed=changed, chosen=chosen)


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """File under test, as the tests found it."""

    record: SourceFile
    lines: ExecutableLines


@dataclass(frozen=True, slots=True)
class PytestOutcome:
    """Outcome of a run of tests.

    Attributes:
        tree: Root of the project, as used in the report.
        python: Version of the interpreter.
        sandbox: Sandbox of the run.
        exit_code: Exit code of pytest.
        printed: Output of pytest.
        watched: Files under test, by path.
        report: Report of the plugin; None if it did not report.
        records: Files named in the report that exist in the tree, by path.
        is_confined: Whether it ran on a copy.
    """

    tree: Path
    python: str
    sandbox: JsonObject
    exit_code: int | None
    printed: str
    watched: dict[str, WatchedFile]
    report: PytestReport | None
    records: dict[str, SourceFile]
    is_confined: bool

    def inside(self, name: str) -> str:
        """Return a path relative to the project; empty if it is not a path or lies elsewhere."""
        return _inside(self.tree, name)

    def text(self, path: str) -> list[str]:
        """Return the lines of a file of the project; none if it cannot be read."""
        source = read(self.tree / path, path) if path else None
        return text_lines(source.text) if isinstance(source, ReviewSource) else []


def watched_files(context: ToolContext, tree: Path, subject: Sequence[str]) -> dict[str, WatchedFile]:
    """Return the files under test that exist in a tree, by path; test files only if named directly."""
    found: dict[str, WatchedFile] = {}
    named = {python_file.path for python_file in _python_files(context, subject)}
    for path in sorted(named):
        source = read(tree / path, path)
        if isinstance(source, ReviewSource):
            found[path] = WatchedFile(source.record, _executable(source.text))
    tests = {path for path in found if purpose_of(path) is Purpose.TEST}
    if tests == found.keys():
        return found
    nothing = ExecutableLines({}, is_script=False)
    return {path: WatchedFile(each.record, nothing) if path in tests else each for path, each in found.items()}


def _python_files(context: ToolContext, paths: Sequence[str]) -> Iterator[Any]:
    for path in paths:
        try:
            yield from discover(context.root, [context.inside(path)])
        except InputFileError:
            continue


def _executable(text: str) -> ExecutableLines:
    try:
        return executable_lines(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Not parsable: counted as one line that never ran.
        return ExecutableLines({1: 1}, is_script=False)


def report_records(tree: Path, report: PytestReport | None) -> dict[str, SourceFile]:
    """Return the test files that ran or failed, with their content in a tree."""
    named = () if report is None else (*report.ran, *(each.path for each in report.listed))
    paths = [path for each in named if (path := _inside(tree, each)) and (tree / path).is_file()]
    return {path: source_file(path, (tree / path).read_bytes()) for path in paths}


def _inside(tree: Path, name: str) -> str:
    try:
        target = (tree / name).resolve()
    except (OSError, ValueError, RuntimeError):
        return ""
    return target.relative_to(tree).as_posix() if target.is_relative_to(tree) else ""
