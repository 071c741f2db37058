"""Lines of the files under test, and edits of a change, that tests executed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.codec import plain
from esper_agents.domain.pluralize import number_of
from esper_agents.review.leniency import purpose_of
from esper_agents.review.tables import Purpose
from esper_agents.tools.change_tests import importers
from esper_agents.tools.pytest_report import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.tools.change_tests import ChangedFile
    from esper_agents.tools.pytest_outcome import PytestOutcome, PytestRequest
    from esper_agents.tools.pytest_report import FailedTest, PytestReport
    from esper_agents.tools.tool import ToolContext

_MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class LineCoverage:
    """Lines of a file under test.

    Attributes:
        path: The file.
        lines: Number of executable lines.
        executed: Number of those that passing tests executed.
        failing: Number of those that failing tests executed.
    """

    path: str
    lines: int
    executed: int
    failing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCoverage:
    """Edits of a changed file.

    Attributes:
        path: The file.
        lines: Number of changed lines.
        executed: Number of those that passing tests executed.
        blocks: Number of edits.
        executed_blocks: Number of edits of which passing tests executed a line.
        test: Whether it is a test file, whose edits do not count.
        deleted: Whether it is gone.
        imported_by: Files that import a deleted one; None for another one.
        missed: First lines of the edits that no passing test executed; None if they are not counted.
        failing: First lines of those that only failing tests executed.
    """

    path: str
    lines: int = 0
    executed: int = 0
    blocks: int = 0
    executed_blocks: int = 0
    test: bool = False
    deleted: bool = False
    imported_by: tuple[str, ...] | None = None
    missed: tuple[int, ...] | None = None
    failing: tuple[int, ...] = ()

    def described(self) -> JsonObject:
        """Return it as stored in the output of the tool, with its counts even if they are 0."""
        counts = {name: getattr(self, name) for name in ("lines", "executed", "blocks", "executed_blocks")}
        return {**counts, **plain(self)}


def coverage_of(ran: PytestOutcome, report: PytestReport) -> Iterator[LineCoverage]:
    """Yield the coverage of each file under test."""
    for path, each in ran.watched.items():
        statements = set(each.lines.statements.values())
        executed, failing = (
            statements & lines_of(lines, ran.tree / path) for lines in (report.executed, report.failing)
        )
        yield LineCoverage(path, each.lines.count, len(executed), len(failing))


def edit_coverage(
    context: ToolContext, asked: PytestRequest, ran: PytestOutcome, report: PytestReport
) -> list[EditCoverage]:
    """Return what tests executed of a change: for each changed source, its edited lines and blocks.

    Passing tests count; the edits that only failing tests executed are listed apart.
    """
    return [_edits_of(context, each, ran, report) for each in asked.changed]


def _edits_of(context: ToolContext, changed: ChangedFile, ran: PytestOutcome, report: PytestReport) -> EditCoverage:
    if purpose_of(changed.path) is Purpose.TEST:
        return EditCoverage(path=changed.path, test=True)
    if changed.after is None:
        users = importers(context, changed.path)
        return EditCoverage(
            path=changed.path, deleted=True, imported_by=tuple(users[:_MOST_LISTED]), blocks=int(bool(users))
        )
    if changed.lines is None:
        return EditCoverage(path=changed.path, blocks=1, missed=(1,))
    blocks, statements = changed.lines.blocks, changed.lines.statements
    executed, by_failing = (lines_of(lines, ran.tree / changed.path) for lines in (report.executed, report.failing))
    missed = [block.line for block in blocks if not block.statements & executed]
    failing = [block.line for block in blocks if block.statements & by_failing - executed]
    return EditCoverage(
        path=changed.path,
        lines=len(statements),
        executed=len(statements & executed),
        blocks=len(blocks),
        executed_blocks=len(blocks) - len(missed),
        missed=tuple(missed[:_MOST_LISTED]),
        failing=tuple(failing[:_MOST_LISTED]),
    )


def edit_summary(files: Sequence[EditCoverage], older: Sequence[str]) -> str:
    """Return the coverage of a change in words.

    Args:
        files: The changed files.
        older: Tests that fail without the change as well.
    """
    blocks, done = sum(file.blocks for file in files), sum(file.executed_blocks for file in files)
    lines, executed = sum(file.lines for file in files), sum(file.executed for file in files)
    told = f"; passing tests executed {done} of {number_of(blocks, 'edit')}"
    told += f" ({executed} of {number_of(lines, 'changed line')})"
    if failing := [f"{file.path}:{line}" for file in files for line in file.failing]:
        more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
        told += f"; a failing test executed {failing[0]}{more}"
    if older:
        fail = "1 test fails" if len(older) == 1 else f"{len(older)} tests fail"
        told += f"; {fail} without the change as well"
    return told


def edits_executed_by(test: FailedTest, asked: PytestRequest, ran: PytestOutcome) -> list[str]:
    """Return the places of the edits that a failing test executed."""
    return [
        f"{each.path}:{block.line}"
        for each in asked.changed
        for block in (each.lines.blocks if each.lines else ())
        if block.statements & lines_of(test.executed, ran.tree / each.path)
    ]
