"""Report of the pytest plugin: outcomes of tests and the lines that they executed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from esper_agents.domain.codec import decode

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class PytestCounts:
    """Number of tests by outcome; `errors` are failures outside the test itself."""

    passed: int
    failed: int
    errors: int
    skipped: int


@dataclass(frozen=True, slots=True)
class ExecutingTests:
    """Number of passing tests that executed a watched line, and the first of them."""

    count: int
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailedTest:
    """Failed test, or a file that could not be collected.

    Attributes:
        test: Node id.
        path: Its file, as pytest names it.
        line: Its line.
        why: The exception.
        missing_file: File that was not found; empty if none.
        missing_module: Module that was not found; empty if none.
        network: Whether a connection failed.
        forbidden: File that it may not use; empty if none.
        executed: Watched lines that it executed, by real path.
    """

    test: str
    path: str
    line: int = 1
    why: str = ""
    missing_file: str = ""
    missing_module: str = ""
    network: bool = False
    forbidden: str = ""
    executed: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The node id, else the file."""
        return (self.test or self.path or "a test")[:200]


@dataclass(frozen=True, slots=True)
class PytestReport:
    """Report of the plugin.

    Attributes:
        exit_code: Exit code of pytest.
        counts: Number of tests by outcome.
        executed: Lines that passing tests executed, by real path.
        failing: Lines that failing tests executed, by real path.
        executing: Tests that executed a watched line.
        failures: Failed tests.
        broken: Files that could not be collected.
        ran: Files of the tests that ran.
        passed: Node ids of the tests that passed, if only some were run.
    """

    exit_code: int
    counts: PytestCounts
    executed: dict[str, tuple[int, ...]]
    failing: dict[str, tuple[int, ...]]
    executing: ExecutingTests
    failures: tuple[FailedTest, ...]
    broken: tuple[FailedTest, ...]
    ran: tuple[str, ...]
    passed: tuple[str, ...]

    @property
    def listed(self) -> tuple[FailedTest, ...]:
        """Failed tests, and files that could not be collected."""
        return (*self.failures, *self.broken)

    @property
    def has_failed(self) -> bool:
        """Whether a test failed or a file could not be collected."""
        return bool(self.counts.failed or self.counts.errors or self.broken)


def lines_of(executed: dict[str, tuple[int, ...]], file: Path) -> set[int]:
    """Return the executed lines of a file."""
    return set(executed.get(str(file.resolve()), ()))


def read_report(path: Path) -> PytestReport | None:
    """Return the report in a file; None if there is no such file or it is not JSON.

    Raises:
        ValueError: It is not a report.
    """
    try:
        text = json.dumps(json.loads(path.read_text(encoding="utf-8")), ensure_ascii=False)
    except (OSError, ValueError, RecursionError):
        return None
    # The tests of the project write it: their texts may hold halves of surrogate pairs.
    return decode(PytestReport, text.encode("utf-8", "replace"))
