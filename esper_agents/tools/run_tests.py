"""Run the project's tests in the sandbox and report the lines of the requested files they executed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from esper_agents.domain.evidence import Risk, source_file
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import EvidenceError, InputFileError
from esper_agents.review.discover import discover
from esper_agents.review.leniency import purpose_of
from esper_agents.review.source import ReviewSource, read
from esper_agents.review.tables import Purpose
from esper_agents.tools import pytest_lines
from esper_agents.tools.executable_lines import ExecutableLines, executable_lines
from esper_agents.tools.file_access import is_private
from esper_agents.tools.model_output import cut, kept_text
from esper_agents.tools.output_comparison import without
from esper_agents.tools.related_code import imports_any, module_names
from esper_agents.tools.sandbox_programs import run, sandbox_copy
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import SourceFile

_MOST_OUTPUT = 8_000
_MOST_TESTS = 20
_NO_TESTS = 5
_PLUGIN = "esper_pytest_lines"
_OPTIONS = ("-q", "-rfE", "-p", "no:cacheprovider", "--color=no", "--continue-on-collection-errors", "-p", _PLUGIN)
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
    comparing=without("output", "python", "sandbox"),
    exceptions=_EXCEPTIONS,
)
async def run_tests(
    context: ToolContext,
    paths: list[str],
    timeout_s: int = 600,
    *,
    subject: list[str] | None = None,
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
        data: Ignored files or folders that the tests read, relative to the project.
        network: Whether the tests may use the network.
        unsandboxed: Whether the tests run in the project itself, without a sandbox.
    """
    for path in (*paths, *(subject or ())):
        context.inside(path)
    asked = _Asked(paths, subject or [], data or [], timeout_s, has_network=network)
    return await (_unconfined(context, asked) if unsandboxed else _confined(context, asked))


@dataclass(frozen=True, slots=True)
class _Asked:
    paths: list[str]
    subject: list[str]
    data: list[str]
    timeout_s: int
    has_network: bool


@dataclass(frozen=True, slots=True)
class _Watched:
    """File under test, as the tests found it."""

    record: SourceFile
    lines: ExecutableLines


@dataclass(frozen=True, slots=True)
class _TestRun:
    """Result of a pytest run.

    Attributes:
        tree: Root of the project, as used in `executed` and `failures`.
        python: Version of the interpreter.
        sandbox: Sandbox of the run.
        exit_code: Exit code of pytest.
        printed: Output of pytest.
        watched: Files under test, by path.
        report: Results of the plugin; None if it did not report.
        records: Files named in the report that exist in the tree, by path.
        is_confined: Whether it ran on a copy.
    """

    tree: Path
    python: str
    sandbox: JsonObject
    exit_code: int | None
    printed: str
    watched: dict[str, _Watched]
    report: dict[str, Any] | None
    records: dict[str, SourceFile]
    is_confined: bool


async def _confined(context: ToolContext, asked: _Asked) -> ToolResult:
    named = [path for path in asked.subject if context.inside(path).is_file()]
    # A path in an approved exception counts as named by the user.
    context = replace(context, named=(*context.named, *asked.data))
    python = shutil.which("python") or sys.executable
    try:
        async with sandbox_copy(context, [*asked.data, *named], python=python, has_network=asked.has_network) as place:
            watched = _watched(context, place.tree, asked.subject)
            env, report = _prepared(place.folder, place.tree, watched)
            argv = [place.python.executable, "-m", "pytest", *_OPTIONS, "--", *asked.paths]
            ran = await run(context, place, argv, timeout_s=asked.timeout_s, env=env)
            version = ".".join(map(str, place.python.version))
            said = _said(report)
            records = _records(place.tree, said)
            described = {**place.choice.described(), "network": asked.has_network}
            done = _TestRun(
                place.tree, version, described, ran.exit_code, ran.printed, watched, said, records, is_confined=True
            )
            # Before the copy is deleted.
            return _stopped_or_told(context, asked, done, ran.stopped)
    except EvidenceError as error:
        if "no sandbox works" not in error.problem:
            raise
        remedy = "install bubblewrap, or trust the code: --allow run-tests:unsandboxed"
        raise EvidenceError(error.problem, remedy=remedy) from error


def _stopped_or_told(context: ToolContext, asked: _Asked, ran: _TestRun, stopped: str) -> ToolResult:
    if stopped:
        raise EvidenceError(f"the tests ran over {stopped}", remedy="name fewer tests")
    return _told(context, asked, ran)


async def _unconfined(context: ToolContext, asked: _Asked) -> ToolResult:
    root = context.root.resolve()
    python = shutil.which("python") or sys.executable
    with TemporaryDirectory(prefix="esper-tests-") as made:
        folder = Path(made).resolve()
        watched = _watched(context, root, asked.subject)
        env, report = _prepared(folder, root, watched)
        kept = {name: text for name, text in os.environ.items() if not _SECRETS.match(name)}
        paths = [env["PYTHONPATH"], *filter(None, [kept.get("PYTHONPATH")])]
        process = await asyncio.create_subprocess_exec(
            *(python, "-m", "pytest", *_OPTIONS, "--", *asked.paths),
            cwd=root,
            env={**kept, **env, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            printed, _ = await asyncio.wait_for(process.communicate(), asked.timeout_s)
        except TimeoutError as error:
            raise EvidenceError(f"the tests ran over {asked.timeout_s} s", remedy="name fewer tests") from error
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        text, said = printed.decode("utf-8", "replace"), _said(report)
        done = _TestRun(
            root,
            "",
            {"sandbox": "none", "why_not": ["the user allowed a run without a sandbox"]},
            process.returncode,
            text,
            watched,
            said,
            _records(root, said),
            is_confined=False,
        )
        return _told(context, asked, done)


def _prepared(folder: Path, tree: Path, watched: dict[str, _Watched]) -> tuple[dict[str, str], Path]:
    """Write the plugin and its list of lines, and return its environment and the path of its report.

    The name of the report cannot be guessed. A test can still search for it: see decision 0012.
    """
    private = folder / secrets.token_hex(8)
    private.mkdir(mode=0o700)
    shutil.copyfile(pytest_lines.__file__, private / f"{_PLUGIN}.py")
    report = private / f"{secrets.token_hex(16)}.json"
    files = {str((tree / path).resolve()): each.lines for path, each in watched.items() if each.lines.count}
    asked = private / "asked.json"
    told = {
        "files": {path: each.statements for path, each in files.items()},
        "scripts": [path for path, each in files.items() if each.is_script],
        "report": str(report),
    }
    asked.write_text(json.dumps(told), encoding="utf-8")
    return {pytest_lines.ASKED: str(asked), "PYTHONPATH": str(private)}, report


def _said(report: Path) -> dict[str, Any] | None:
    try:
        said = json.loads(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None


def _watched(context: ToolContext, tree: Path, subject: Sequence[str]) -> dict[str, _Watched]:
    """Return the files under test that exist in the tree, by path; test files only if named directly."""
    found: dict[str, _Watched] = {}
    named = {each.path for each in _python_files(context, subject)}
    for path in sorted(named):
        source = read(tree / path, path)
        if isinstance(source, ReviewSource):
            found[path] = _Watched(source.record, _executable(source.text))
    tests = {path for path in found if purpose_of(path) is Purpose.TEST}
    if tests == found.keys():
        return found
    nothing = ExecutableLines({}, is_script=False)
    return {path: _Watched(each.record, nothing) if path in tests else each for path, each in found.items()}


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


def _records(tree: Path, said: dict[str, Any] | None) -> dict[str, SourceFile]:
    """Return the test files that ran or failed, with their content in the tree."""
    failed = [each.get("path") for name in ("failures", "broken") for each in (said or {}).get(name, ())]
    found: dict[str, SourceFile] = {}
    for each in (*(said or {}).get("ran", ()), *failed):
        path = _inside(tree, each)
        if path and (tree / path).is_file():
            found[path] = source_file(path, (tree / path).read_bytes())
    return found


def _inside(tree: Path, name: object) -> str:
    """Return a path relative to the project; empty if it is not a path or lies elsewhere."""
    try:
        target = (tree / str(name)).resolve()
    except (OSError, ValueError, RuntimeError):
        return ""
    return target.relative_to(tree).as_posix() if target.is_relative_to(tree) else ""


def _told(context: ToolContext, asked: _Asked, ran: _TestRun) -> ToolResult:
    report = _checked(asked, ran)
    counts: dict[str, int] = report["counts"]
    coverage = list(_coverage(ran, report))
    failures = [_Failure(context, ran, each) for each in (*report["failures"], *report["broken"])]
    unsettled = [each for each in failures if each.excuse]
    related = _is_related(ran)
    against = [each for each in failures if not each.excuse and (not each.is_broken(report) or related(each.path))]
    beside = [each for each in failures if not each.excuse and each not in against]
    if unsettled and not against:
        first = unsettled[0]
        more = f"; and {len(unsettled) - 1} more" if len(unsettled) > 1 else ""
        raise EvidenceError(f"the result of {first.test} is unknown: {first.excuse}{more}", remedy=first.remedy)
    outcome = "failed" if against else "passed" if counts["passed"] else "not decided"
    kept = kept_text(context, ran.printed, "printed.txt") if len(ran.printed) > _MOST_OUTPUT else ()
    output: JsonObject = {
        "outcome": outcome,
        "exit_code": ran.exit_code,
        "counts": counts,
        "coverage": coverage,
        "executing": {
            "count": report["executing"]["count"],
            "tests": [str(each)[:200] for each in report["executing"]["tests"][:_MOST_TESTS]],
        },
        "unsettled": [{"test": each.test, "why": each.excuse, "remedy": each.remedy} for each in unsettled],
        "exceptions": [*run_tests.exceptions_of({"network": asked.has_network, "data": asked.data})]
        + ([] if ran.is_confined else ["run-tests:unsandboxed"]),
        "output": cut(ran.printed, _MOST_OUTPUT, kept),
        "python": ran.python,
        "sandbox": ran.sandbox,
    }
    claims = [*(each.claim(Severity.CRITICAL) for each in against), *(each.claim(Severity.WARNING) for each in beside)]
    examined = {**{path: each.record for path, each in ran.watched.items()}, **ran.records}
    ordered = tuple(examined[path] for path in sorted(examined))
    return ToolResult(_summary(counts, coverage, report), output, tuple(claims), ordered, kept)


def _checked(asked: _Asked, ran: _TestRun) -> dict[str, Any]:
    """Return the plugin's report, if it agrees with pytest's exit code.

    Raises:
        EvidenceError: There is no result, or the report and the exit code contradict each other.
    """
    where, remedy = ", ".join(asked.paths), _rerun({"paths": asked.paths})
    last = ran.printed.strip().splitlines()[-1][:200] if ran.printed.strip() else "no output"
    if "No module named pytest" in ran.printed[-_MOST_OUTPUT:] and ran.report is None:
        problem = f"pytest is not installed for {shutil.which('python') or sys.executable}"
        raise EvidenceError(problem, remedy="install it there, or start esper in the project's environment")
    if ran.exit_code == _NO_TESTS:
        raise EvidenceError(f"pytest found no tests in {where}", remedy=remedy)
    if ran.report is None:
        raise EvidenceError(f"pytest exited with {ran.exit_code} and without a result: {last}", remedy=remedy)
    try:
        report = ran.report
        counts = {name: int(report["counts"][name]) for name in ("passed", "failed", "errors", "skipped")}
        has_failed = bool(counts["failed"] or counts["errors"] or report["broken"])
        told = {**report, "counts": counts}
        is_whole = (
            report["exit_code"] == ran.exit_code and ran.exit_code in (0, 1) and has_failed is bool(ran.exit_code)
        )
        # The fields read below.
        _ = report["executed"], report["executing"]["count"], report["executing"]["tests"], report["failures"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EvidenceError("the report of the tests cannot be read", remedy=remedy) from error
    if not is_whole:
        raise EvidenceError(f"pytest exited with {ran.exit_code}: {last}", remedy=remedy)
    return told


def _coverage(ran: _TestRun, report: dict[str, Any]) -> Iterator[JsonObject]:
    for path, each in ran.watched.items():
        executed = report["executed"].get(str((ran.tree / path).resolve()), ())
        hit = len(set(each.lines.statements.values()) & {line for line in executed if isinstance(line, int)})
        yield {"path": path, "lines": each.lines.count, "executed": hit}


def _summary(counts: dict[str, int], coverage: Sequence[JsonObject], report: dict[str, Any]) -> str:
    told = [f"{number} {name}" for name, number in counts.items() if number or name == "passed"]
    if report["broken"]:
        told.append(f"{number_of(len(report['broken']), 'file')} not collected")
    asked = [each for each in coverage if each["lines"]]
    if not asked:
        return f"tests: {', '.join(told)}"
    executed, lines = (sum(each[name] for each in asked) for name in ("executed", "lines"))
    what = str(asked[0]["path"]) if len(asked) == 1 else number_of(len(asked), "file")
    by = number_of(int(report["executing"]["count"]), "test")
    return f"tests: {', '.join(told)}; {by} executed {executed} of {lines} lines of {what}"


def _is_related(ran: _TestRun) -> Any:
    """Return a function that tells whether a test file concerns the files under test; without any, all do."""
    modules = {name for path, each in ran.watched.items() if each.lines.count for name in module_names(path)}

    def related(path: str) -> bool:
        if not modules or path in ran.watched:
            return True
        source = read(ran.tree / path, path)
        return not isinstance(source, ReviewSource) or imports_any(source.text, path, modules)

    return related


class _Failure:
    """A failed test, or a file that could not be collected, with a possible excuse."""

    def __init__(self, context: ToolContext, ran: _TestRun, told: Any) -> None:
        told = told if isinstance(told, dict) else {}
        self.test = str(told.get("test") or told.get("path") or "a test")[:200]
        self.path = _inside(ran.tree, told.get("path"))
        self.record = ran.records.get(self.path)
        self.line = told["line"] if isinstance(told.get("line"), int) else 1
        self.why = str(told.get("why", ""))[:300]
        self.told = told
        self.lines = _text(ran, self.path)
        self.excuse, self.remedy = _excuse(context, ran, told)

    def is_broken(self, report: dict[str, Any]) -> bool:
        return any(self.told is each for each in report["broken"])

    def claim(self, severity: Severity) -> Diagnostic:
        last = len(self.lines)
        line = min(max(self.line, 1), max(last, 1))
        path = self.path or "."
        how = (
            "fails"
            if severity is Severity.CRITICAL
            else "cannot be collected, and does not import the files under test"
        )
        return Diagnostic(
            rule="TESTS",
            name="test-fails",
            severity=severity,
            category=Category.CORRECTNESS,
            location=Location(path, line, 1, line),
            message=f"the test {self.test.rpartition('::')[2] or path} {how}: {self.why}",
            remedy=f"run python -m pytest {quote(path)} and fix the failure",
            confidence=Confidence.HIGH,
            basis="it was run",
            excerpt=self.lines[line - 1] if self.lines else "",
            fingerprint=fingerprint("TESTS", path, self.test, 0),
        )


def _text(ran: _TestRun, path: str) -> list[str]:
    source = read(ran.tree / path, path) if path else None
    return source.text.splitlines() if isinstance(source, ReviewSource) else []


def _excuse(context: ToolContext, ran: _TestRun, told: dict[str, Any]) -> tuple[str, str]:
    """Return a reason why a failure proves nothing about the code, and a remedy; empty texts without a reason."""
    module = str(told.get("missing_module") or "").partition(".")[0]
    root = context.root.resolve()
    if module and not any(
        (root / place / name).exists() for place in (".", "src") for name in (module, f"{module}.py")
    ):
        python = shutil.which("python") or sys.executable
        return f"{module!r} is not installed for {python}", f"install {module} there, then run the tests again"
    return _excused_by_the_sandbox(root, ran.tree, told) if ran.is_confined else ("", "")


def _excused_by_the_sandbox(root: Path, tree: Path, told: dict[str, Any]) -> tuple[str, str]:
    missing = _inside(tree, told["missing_file"]) if told.get("missing_file") else ""
    if missing and (root / missing).exists() and not (tree / missing).exists():
        if is_private(missing):
            return (
                f"it reads {missing!r}, which is withheld from the sandbox",
                "change the test so that it does not need that file",
            )
        return f"it reads {missing!r}, which git ignores", f"--allow {quote(f'run-tests:read={missing}')}"
    if told.get("network"):
        return "it uses the network, and the sandbox has none", "--allow run-tests:network"
    if (forbidden := told.get("forbidden")) and not _inside(tree, forbidden):
        return f"the sandbox keeps it from {str(forbidden)[:100]!r}", "--allow run-tests:unsandboxed"
    return "", ""
