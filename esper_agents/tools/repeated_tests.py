"""Further runs of failing tests, with a change and without it, which tell flaky tests apart."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from esper_agents.domain.pluralize import number_of
from esper_agents.errors import EsperError
from esper_agents.git.diffs import diff_since
from esper_agents.git.trees import contents
from esper_agents.tools.pytest_process import PytestProcess
from esper_agents.tools.sandbox_programs import run, sandbox_copy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import TypeAlias

    from esper_agents.tools.pytest_report import PytestReport
    from esper_agents.tools.tool import ToolContext

    # Runs some tests of some files and returns the report of the plugin; None if there is none.
    PytestRun: TypeAlias = Callable[[frozenset[str], Sequence[str], int], Awaitable[PytestReport | None]]

REPEATS = 3
_LEAST_S = 5


@dataclass(frozen=True, slots=True)
class RepeatedTest:
    """Outcomes of a test that failed once, in further runs.

    Attributes:
        runs: Further runs with the change.
        failed: Those in which it failed.
        runs_before: Runs without the change; 0 if there was none, or the test did not exist.
        failed_before: Those in which it failed.
    """

    runs: int = 0
    failed: int = 0
    runs_before: int = 0
    failed_before: int = 0

    @property
    def is_flaky(self) -> bool:
        """Whether it failed in some runs of the same code and passed in others."""
        return self.failed < self.runs or 0 < self.failed_before < self.runs_before

    @property
    def is_older(self) -> bool:
        """Whether it fails in every run, with the change and without it."""
        return not self.is_flaky and 0 < self.failed_before == self.runs_before

    @property
    def passes_before(self) -> bool:
        """Whether it passes in every run without the change."""
        return self.failed_before < self.runs_before and not self.is_flaky

    @property
    def told(self) -> str:
        """The runs in words, the first failure included, such as `fails in 2 of 4 runs`."""
        first = f"fails in {self.failed + 1} of {number_of(self.runs + 1, 'run')}"
        if not self.runs_before:
            return first
        return f"{first} with the change and in {self.failed_before} of {self.runs_before} without it"


async def repeated(
    context: ToolContext,
    failing: Mapping[str, str],
    *,
    since: str,
    also: Sequence[str],
    python: str,
    timeout_s: int,
    has_network: bool,
) -> dict[str, RepeatedTest]:
    """Return the outcomes of failing tests in further runs on fresh copies of the project.

    Without a change there are only runs of the current code. A side that cannot be run, such as a base without the
    test, has no runs.

    Args:
        context: The project.
        failing: Node ids of the tests, with the path of each one's file.
        since: The change: a revision or a range; empty if there is none.
        also: Further files and folders to copy.
        python: The interpreter.
        timeout_s: Time limit of each side in seconds.
        has_network: Whether the tests may use the network.
    """
    sides: list[dict[str, list[bool]]] = []
    for old in ("", since) if since else ("",):
        outcomes: dict[str, list[bool]] = {}
        sides.append(outcomes)
        try:
            async with sandbox_copy(context, also, python=python, has_network=has_network) as place:
                if old:
                    await asyncio.to_thread(_restore, context.root.resolve(), old, place.tree)

                async def pytest(
                    only: frozenset[str], files: Sequence[str], limit_s: int, place: Any = place
                ) -> PytestReport | None:
                    made = PytestProcess.prepare(place.folder, place.tree, {}, only=only)
                    argv = made.command(place.python.executable, files)
                    ran = await run(context, place, argv, timeout_s=limit_s, env=made.env)
                    return None if ran.stopped else made.result()

                await repeat(pytest, place.tree, failing, timeout_s=timeout_s, outcomes=outcomes, has_failed=not old)
        except EsperError:
            # The first run has a result: those of further runs are only unknown.
            continue
    now, before = sides[0], sides[1] if since else {}
    return {test: repetition(now.get(test, []), before.get(test, [])) for test in failing}


def repetition(now: Sequence[bool], before: Sequence[bool] = ()) -> RepeatedTest:
    """Return the repetition of a test from its outcomes: True for a run in which it failed."""
    return RepeatedTest(len(now), sum(now), len(before), sum(before))


async def repeat(
    pytest: PytestRun,
    tree: Path,
    tests: Mapping[str, str],
    *,
    timeout_s: int,
    outcomes: dict[str, list[bool]],
    has_failed: bool = True,
) -> None:
    """Run tests up to three times, each one until it has both failed and passed, and append their outcomes.

    Args:
        pytest: Runs some of them.
        tree: Root of the project to run.
        tests: Node ids of the tests, with the path of each one's file.
        timeout_s: Time limit in seconds for all runs together; the first one may use all of it.
        outcomes: Receives the outcomes by test, in order; True for a failure, nothing for a test that did not run.
        has_failed: Whether each of them has failed before on the same code.
    """
    began = time.monotonic()
    for _ in range(REPEATS):
        earlier = {True} if has_failed else set()
        only = {test: path for test, path in tests.items() if len(earlier.union(outcomes.get(test, ()))) <= 1}
        files = sorted({path for path in only.values() if (tree / path).is_file()})
        left = int(timeout_s - (time.monotonic() - began))
        if not files or left < min(timeout_s, _LEAST_S):
            return
        report = await pytest(frozenset(only), files, left)
        if report is None:
            return
        for test, path in only.items():
            failed = _has_failed(test, path, files, report)
            if failed is not None:
                outcomes.setdefault(test, []).append(failed)


def _has_failed(test: str, path: str, files: Sequence[str], report: PytestReport) -> bool | None:
    """Return whether a test failed in a run; None if it did not run."""
    if path not in files:
        return None
    if any(each.test in {test, path} for each in report.listed):
        return True
    # The id of a file that could not be collected is its path.
    return False if test in report.passed or test == path else None


def _restore(root: Path, since: str, tree: Path) -> None:
    """Put the old versions of all changed files into a copy of the project, and remove the new ones."""
    diff = diff_since(root, since)
    with contents(root) as held:
        for path in diff.paths:
            parts = PurePosixPath(path).parts
            if not parts or path.startswith("/") or {"..", ".git"} & {part.lower() for part in parts}:
                continue
            target = tree / path
            if target.is_symlink() or target.is_file():
                target.unlink()
            object_id = diff.before.get(path)
            if object_id is None or held.size(object_id) is None:
                continue
            _write(target, held.chunks())


def _write(target: Path, chunks: Any) -> None:
    if target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(target, flags, 0o600), "wb") as opened:  # noqa: PTH123 - a descriptor
        opened.writelines(chunks)
