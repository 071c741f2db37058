"""Run the project's tests in the sandbox and report the lines of the requested files they executed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from esper_agents.domain.change import CHANGE_DIGEST
from esper_agents.domain.codec import plain
from esper_agents.domain.evidence import Risk
from esper_agents.domain.finding import Severity
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import EvidenceError
from esper_agents.review.source import ReviewSource, read
from esper_agents.tools.executed_lines import coverage_of, edit_coverage, edit_summary
from esper_agents.tools.failed_tests import FailureFinding, excuse_of
from esper_agents.tools.model_output import cut, kept_text
from esper_agents.tools.module_imports import imports_any, module_names
from esper_agents.tools.output_comparison import without
from esper_agents.tools.pytest_outcome import PytestOutcome, PytestRequest, report_records, watched_files
from esper_agents.tools.pytest_process import PytestProcess
from esper_agents.tools.repeated_tests import RepeatedTest, repeat, repeated, repetition
from esper_agents.tools.sandbox_programs import run, sandbox_copy
from esper_agents.tools.tests_interpreter import python_for_tests
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.finding import Diagnostic
    from esper_agents.tools.executed_lines import EditCoverage, LineCoverage
    from esper_agents.tools.pytest_report import PytestReport

_MOST_OUTPUT = 8_000
_MOST_TESTS = 20
# Exit codes of pytest: all tests passed, or some failed.
_WITH_RESULT = (0, 1)
# None of these variables may reach unconfined code.
_SECRETS = re.compile(r"ANTHROPIC_|ESPER_|AWS_|.*(TOKEN|SECRET|PASSWORD|CREDENTIAL|API_?KEY)", re.IGNORECASE)
_EXCEPTIONS = {"network": "network", "data": "read=*", "unsandboxed": "unsandboxed"}


def _rerun(arguments: JsonObject) -> str:
    return "python -m pytest -q -p no:cacheprovider " + " ".join(quote(str(each)) for each in arguments["paths"])


@tool(
    "run-tests",
    risk=Risk.MEDIUM,
    repeatable=False,
    rerun=_rerun,
    comparing=without("output", "python", "sandbox", CHANGE_DIGEST),
    exceptions=_EXCEPTIONS,
    stoppable=True,
)
async def run_tests(
    context: ToolContext,
    paths: list[str],
    timeout_s: int = 600,
    *,
    subject: list[str] | None = None,
    since: str = "",
    data: list[str] | None = None,
    network: bool = False,
    unsandboxed: bool = False,
) -> ToolResult:
    """Run pytest in the sandbox, on a copy of the project; each failed test is a finding.

    The copy has no secrets and no ignored files, and there is no network: every exception needs the user's approval.

    Args:
        context: The project.
        paths: Test files or folders, relative to the project.
        timeout_s: Time limit in seconds, up to 600.
        subject: Files or folders under test; their lines executed by passing tests are recorded.
        since: A revision; run the tests in `paths` that reach what changed in the subject since then, record the
            changed lines that they execute, and run those that fail on the old version as well.
        data: Ignored files or folders that the tests read, relative to the project.
        network: Whether the tests may use the network.
        unsandboxed: Whether the tests run in the project itself, without a sandbox.
    """
    for path in (*paths, *(subject or ())):
        context.inside(path)
    asked = PytestRequest(paths, subject or [], data or [], timeout_s, has_network=network)
    if since:
        asked = await asyncio.to_thread(asked.of_change, context, since)
    return await (_unconfined(context, asked) if unsandboxed else _confined(context, asked))


async def _confined(context: ToolContext, asked: PytestRequest) -> ToolResult:
    named = [path for path in asked.subject if context.inside(path).is_file()]
    # A path in an approved exception counts as named by the user.
    context = replace(context, named=(*context.named, *asked.data))
    python = await asyncio.to_thread(python_for_tests, context.installed)
    try:
        async with sandbox_copy(context, [*asked.data, *named], python=python, has_network=asked.has_network) as place:
            watched = watched_files(context, place.tree, asked.subject)
            lines = {path: each.lines for path, each in watched.items()}
            pytest = PytestProcess.prepare(place.folder, place.tree, lines)
            argv = pytest.command(place.python.executable, asked.paths)
            ran = await run(context, place, argv, timeout_s=asked.timeout_s, env=pytest.env)
            version = ".".join(map(str, place.python.version))
            said = pytest.result()
            records = report_records(place.tree, said)
            described = {**place.choice.described(), "network": asked.has_network}
            done = PytestOutcome(
                place.tree, version, described, ran.exit_code, ran.printed, watched, said, records, is_confined=True
            )
            _refuse_stopped(ran.stopped)
            again: dict[str, RepeatedTest] = {}
            if failing := _failing(context, done):
                again = await repeated(
                    context,
                    failing,
                    since=asked.since,
                    also=[*asked.data, *named],
                    python=python,
                    timeout_s=asked.timeout_s,
                    has_network=asked.has_network,
                )
            # Before the copy is deleted.
            return await asyncio.to_thread(_told, context, asked, done, again)
    except EvidenceError as error:
        if "no sandbox works" not in error.problem:
            raise
        remedy = "install bubblewrap, or trust the code: --allow run-tests:unsandboxed"
        raise EvidenceError(error.problem, remedy=remedy) from error


def _refuse_stopped(stopped: str) -> None:
    """Reject a run that reached a limit.

    Raises:
        EvidenceError: It did.
    """
    if stopped:
        raise EvidenceError(f"the tests ran over {stopped}", remedy="name fewer tests")


def _failing(context: ToolContext, ran: PytestOutcome) -> dict[str, str]:
    """Return the tests that failed for a reason in the code, with their files."""
    listed = ran.report.listed if ran.report is not None else ()
    unexcused = [each for each in listed if not excuse_of(context, ran, each).why]
    return {each.test: path for each in unexcused if (path := ran.inside(each.path))}


async def _unconfined(context: ToolContext, asked: PytestRequest) -> ToolResult:
    root = context.root.resolve()
    python = await asyncio.to_thread(python_for_tests, context.installed.resolve())
    with TemporaryDirectory(prefix="esper-tests-") as made:
        folder = Path(made).resolve()
        watched = watched_files(context, root, asked.subject)
        lines = {path: each.lines for path, each in watched.items()}
        pytest = PytestProcess.prepare(folder, root, lines)
        exit_code, text = await _in_project(pytest, python, root, asked.paths, asked.timeout_s)
        said = pytest.result()
        done = PytestOutcome(
            root,
            "",
            {"sandbox": "none", "why_not": ["the user allowed a run without a sandbox"]},
            exit_code,
            text,
            watched,
            said,
            report_records(root, said),
            is_confined=False,
        )

        async def again(only: frozenset[str], files: Sequence[str], limit_s: int) -> PytestReport | None:
            made = PytestProcess.prepare(folder, root, {}, only=only)
            await _in_project(made, python, root, files, limit_s)
            return made.result()

        outcomes: dict[str, list[bool]] = {}
        failing = _failing(context, done)
        with suppress(EvidenceError):
            await repeat(again, root, failing, timeout_s=asked.timeout_s, outcomes=outcomes)
        return _told(context, asked, done, {test: repetition(outcomes.get(test, ())) for test in failing})


async def _in_project(
    pytest: PytestProcess, python: str, root: Path, paths: Sequence[str], timeout_s: int
) -> tuple[int | None, str]:
    """Run pytest in the project itself and return its exit code and its output.

    Raises:
        EvidenceError: It took too long.
    """
    kept = {name: text for name, text in os.environ.items() if not _SECRETS.match(name)}
    search = [pytest.env["PYTHONPATH"], *filter(None, [kept.get("PYTHONPATH")])]
    process = await asyncio.create_subprocess_exec(
        *pytest.command(python, paths),
        cwd=root,
        env={**kept, **pytest.env, "PYTHONPATH": os.pathsep.join(search)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError as error:
        raise EvidenceError(f"the tests ran over {timeout_s} s", remedy="name fewer tests") from error
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return process.returncode, printed.decode("utf-8", "replace")


def _told(
    context: ToolContext, asked: PytestRequest, ran: PytestOutcome, again: Mapping[str, RepeatedTest]
) -> ToolResult:
    report = _checked(context, asked, ran)
    coverage = list(coverage_of(ran, report))
    failures = _sorted_failures(context, asked, ran, report, again)
    if failures.unsettled and not failures.against:
        first = failures.unsettled[0]
        more = f"; and {len(failures.unsettled) - 1} more" if len(failures.unsettled) > 1 else ""
        problem = f"the result of {first.name} is unknown: {first.excuse.why}{more}"
        raise EvidenceError(problem, remedy=first.excuse.remedy)
    kept = kept_text(context, ran.printed, "printed.txt") if len(ran.printed) > _MOST_OUTPUT else ()
    summary = _summary(report, coverage)
    output: dict[str, Any] = {
        "outcome": _outcome(report, failures),
        "exit_code": ran.exit_code,
        "counts": plain(report.counts),
        "coverage": [plain(each) for each in coverage],
        "executing": {
            "count": report.executing.count,
            "tests": [test[:200] for test in report.executing.tests[:_MOST_TESTS]],
        },
        "unsettled": [
            {"test": each.name, "why": each.excuse.why, "remedy": each.excuse.remedy} for each in failures.unsettled
        ],
        "exceptions": [*run_tests.exceptions_of({"network": asked.has_network, "data": asked.data})]
        + ([] if ran.is_confined else ["run-tests:unsandboxed"]),
        "output": cut(ran.printed, _MOST_OUTPUT, kept),
        "python": ran.python,
        "sandbox": ran.sandbox,
    }
    if flaky := failures.flaky:
        output["flaky"] = [{"test": each.name, **asdict(each.again)} for each in flaky]
        summary += f"; {number_of(len(flaky), 'test')} flaky: {flaky[0].name} {flaky[0].again.told}"
    if asked.since:
        edits = edit_coverage(context, asked, ran, report)
        older = [each.name for each in failures.older[:_MOST_TESTS]]
        output["change"] = _change(asked, edits, older)
        output |= context.change_now(asked.since)
        summary += edit_summary(edits, older)
    examined = {**{path: each.record for path, each in ran.watched.items()}, **ran.records}
    ordered = tuple(examined[path] for path in sorted(examined))
    return ToolResult(summary, output, tuple(failures.claims()), ordered, kept)


@dataclass(frozen=True, slots=True)
class _SortedFailures:
    """Failed tests by what they say about the code.

    Attributes:
        against: Those that count against it.
        beside: Files that cannot be collected and do not concern the files under test.
        unsettled: Those with an excuse.
        flaky: Those that failed in some runs only.
        older: Those that fail without the change as well.
    """

    against: list[FailureFinding]
    beside: list[FailureFinding]
    unsettled: list[FailureFinding]
    flaky: list[FailureFinding]
    older: list[FailureFinding]

    def claims(self) -> Iterator[Diagnostic]:
        yield from (each.claim(Severity.CRITICAL) for each in self.against)
        yield from (each.claim(Severity.WARNING) for each in self.beside)
        yield from (each.flaky_claim() for each in self.flaky)


def _sorted_failures(
    context: ToolContext,
    asked: PytestRequest,
    ran: PytestOutcome,
    report: PytestReport,
    again: Mapping[str, RepeatedTest],
) -> _SortedFailures:
    everything = [FailureFinding(context, asked, ran, each, again) for each in report.listed]
    flaky = [each for each in everything if each.again.is_flaky and not each.excuse.why]
    older = [each for each in everything if each.again.is_older and not each.excuse.why]
    failures = [each for each in everything if each not in older and each not in flaky]
    related = _is_related(ran)
    unexcused = [failure for failure in failures if not failure.excuse.why]
    against = [each for each in unexcused if each.test not in report.broken or related(each.path)]
    return _SortedFailures(
        against=against,
        beside=[each for each in unexcused if each not in against],
        unsettled=[failure for failure in failures if failure.excuse.why],
        flaky=flaky,
        older=older,
    )


def _outcome(report: PytestReport, failures: _SortedFailures) -> str:
    if failures.against:
        return "failed"
    if failures.flaky:
        return "flaky"
    unnamed = report.counts.failed + report.counts.errors > len(report.failures)
    return "passed" if report.counts.passed and not (failures.older and unnamed) else "not decided"


def _change(asked: PytestRequest, edits: Sequence[EditCoverage], older: Sequence[str]) -> JsonObject:
    chosen = asked.chosen
    return {
        "since": asked.since,
        "files": [edit.described() for edit in edits],
        "tests": {"chosen": chosen.tests, "all": chosen.all_tests, "omitted_files": chosen.omitted} if chosen else {},
        "failing_before": list(older),
    }


def _no_result(context: ToolContext, asked: PytestRequest, ran: PytestOutcome) -> EvidenceError:
    from esper_agents.tools.pytest_problems import pytest_problem

    found = pytest_problem(
        ran.exit_code,
        ran.printed,
        paths=asked.paths,
        python=python_for_tests(context.installed),
        root=context.root.resolve(),
        rerun=_rerun({"paths": asked.paths}),
    )
    return EvidenceError(found.text, remedy=found.remedy)


def _checked(context: ToolContext, asked: PytestRequest, ran: PytestOutcome) -> PytestReport:
    """Return the plugin's report, if it agrees with pytest's exit code.

    Raises:
        EvidenceError: There is no result, or the report and the exit code contradict each other.
    """
    report = ran.report
    if report is None or ran.exit_code not in _WITH_RESULT:
        raise _no_result(context, asked, ran)
    if report.exit_code != ran.exit_code or report.has_failed is not bool(ran.exit_code):
        raise _no_result(context, asked, ran)
    return report


def _summary(report: PytestReport, coverage: Sequence[LineCoverage]) -> str:
    counts: dict[str, int] = asdict(report.counts)
    told = [f"{number} {name}" for name, number in counts.items() if number or name == "passed"]
    if report.broken:
        told.append(f"{number_of(len(report.broken), 'file')} not collected")
    asked = [each for each in coverage if each.lines]
    if not asked:
        return f"tests: {', '.join(told)}"
    executed, lines = sum(each.executed for each in asked), sum(each.lines for each in asked)
    what = asked[0].path if len(asked) == 1 else number_of(len(asked), "file")
    by = number_of(report.executing.count, "test")
    return f"tests: {', '.join(told)}; {by} executed {executed} of {lines} lines of {what}"


def _is_related(ran: PytestOutcome) -> Callable[[str], bool]:
    """Return a function that tells whether a test file concerns the files under test; without any, all do."""
    modules = {name for path, each in ran.watched.items() if each.lines.count for name in module_names(path)}

    def related(path: str) -> bool:
        if not modules or path in ran.watched:
            return True
        source = read(ran.tree / path, path)
        return not isinstance(source, ReviewSource) or imports_any(source.text, path, modules)

    return related
