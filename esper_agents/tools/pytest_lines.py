"""Pytest plugin that records the outcome of each test and the executed lines of selected files.

It runs inside the project's own tests, in their interpreter: standard library only, no esper modules. An environment
variable names the file that lists the lines to watch; another names the file for the result. Both are removed from the
environment before any code of the project runs. A project can still falsify the results of its own tests.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

ASKED = "ESPER_PYTEST_LINES"
_MOST_NAMED = 50
_LONGEST_WHY = 300
# Line events of one function in one test without a new line; after these the function is no longer traced.
_PATIENCE = 20_000
_NETWORK = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def _hook(**options: bool) -> Callable[[Any], Any]:
    # Same effect as `pytest.hookimpl`; the plugin must be importable without pytest.
    def mark(function: Any) -> Any:
        function.pytest_impl = options
        return function

    return mark


class _Watch:
    """Files to watch and the lines executed in them.

    Attributes:
        files: By real path: for each line, the first line of its statement.
        scripts: Real paths of files without a function: their statements count when they run at import.
        only: Node ids of the tests to run; empty for all.
        passed: Node ids of the tests that passed, if only some are run.
    """

    def __init__(self, asked: dict[str, Any]) -> None:
        self.report = Path(asked["report"])
        self.files: dict[str, dict[int, int]] = {
            path: {int(line): first for line, first in lines.items()} for path, lines in asked["files"].items()
        }
        self.scripts = set(asked["scripts"])
        self.only: set[str] = set(asked.get("only", ()))
        self.passed: list[str] = []
        self.known: dict[str, str] = {}
        self.is_on = False
        self.seen: dict[str, set[int]] = {}
        self.imported: dict[str, dict[str, set[int]]] = {}
        self.executed: dict[str, set[int]] = {}
        self.failing: dict[str, set[int]] = {}
        self.executing: list[str] = []
        self.number_executing = 0
        self.counts = {"passed": 0, "failed": 0, "errors": 0, "skipped": 0}
        self.failures: list[dict[str, Any]] = []
        self.broken: list[dict[str, Any]] = []
        self.ran: set[str] = set()
        self.phases: list[tuple[str, str, bool]] = []
        self.left: dict[CodeType, int] = {}
        self.tool: int | None = _free_tool()
        if self.tool is not None:
            _use(self.tool, self)

    def lines_of(self, name: str) -> tuple[str, dict[int, int] | None]:
        real = self.known.get(name)
        if real is None:
            real = self.known[name] = os.path.realpath(name)
        return real, self.files.get(real)

    def begin(self) -> None:
        self.seen, self.left, self.is_on = {}, {}, True
        if self.tool is not None:
            monitoring = getattr(sys, "monitoring")  # noqa: B009 - not in every version
            monitoring.set_events(self.tool, monitoring.events.PY_START)
            monitoring.restart_events()
        elif self.files:
            self.before = sys.gettrace()
            threading.settrace(self.trace)
            sys.settrace(self.trace)

    def end(self) -> dict[str, set[int]]:
        self.is_on = False
        if self.tool is not None:
            getattr(sys, "monitoring").set_events(self.tool, 0)  # noqa: B009
        elif self.files:
            sys.settrace(self.before)
            threading.settrace(self.before)
        return self.seen

    def note(self, name: str, line: int) -> bool:
        """Record an executed line, and return whether it is new."""
        real, lines = self.lines_of(name)
        first = lines.get(line) if lines else None
        if first is None:
            return False
        seen = self.seen.setdefault(real, set())
        is_new = first not in seen
        seen.add(first)
        return is_new

    def note_failure(self, test: str, seen: dict[str, set[int]]) -> None:
        """Record the lines that a test executed before it failed."""
        for file, lines in seen.items():
            self.failing.setdefault(file, set()).update(lines)
        for failure in self.failures:
            if failure["test"] == test:
                failure["executed"] = {file: sorted(lines) for file, lines in seen.items()}

    def trace(self, frame: FrameType, _event: str, _argument: object) -> Any:
        if not self.is_on or self.lines_of(frame.f_code.co_filename)[1] is None:
            return None
        return self.trace_line if self.left.get(frame.f_code, 1) > 0 else None

    def trace_line(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line" and self.is_on:
            code = frame.f_code
            left = _PATIENCE if self.note(code.co_filename, frame.f_lineno) else self.left.get(code, _PATIENCE) - 1
            self.left[code] = left
            if left <= 0:
                frame.f_trace_lines = False
        return self.trace_line

    def on_start(self, code: CodeType, _offset: int) -> Any:
        monitoring = getattr(sys, "monitoring")  # noqa: B009
        if self.lines_of(code.co_filename)[1] is not None and self.tool is not None:
            monitoring.set_local_events(self.tool, code, monitoring.events.LINE)
        return monitoring.DISABLE

    def on_line(self, code: CodeType, line: int) -> Any:
        if self.is_on:
            self.note(code.co_filename, line)
        return getattr(sys, "monitoring").DISABLE  # noqa: B009

    def write(self, exit_code: int) -> None:
        told = {
            "exit_code": exit_code,
            "counts": self.counts,
            "executed": {path: sorted(lines) for path, lines in self.executed.items()},
            "failing": {path: sorted(lines) for path, lines in self.failing.items()},
            "executing": {"count": self.number_executing, "tests": self.executing},
            "failures": self.failures,
            "broken": self.broken,
            "ran": sorted(self.ran),
            "passed": self.passed,
        }
        half = self.report.with_suffix(".half")
        half.write_text(json.dumps(told), encoding="utf-8")
        half.replace(self.report)


def _free_tool() -> int | None:
    monitoring = getattr(sys, "monitoring", None)
    free = (each for each in (4, 3, 5, 0) if monitoring is not None and monitoring.get_tool(each) is None)
    return next(free, None)


def _use(tool: int, watch: _Watch) -> None:
    monitoring = getattr(sys, "monitoring")  # noqa: B009
    monitoring.use_tool_id(tool, "lines")
    monitoring.register_callback(tool, monitoring.events.PY_START, watch.on_start)
    monitoring.register_callback(tool, monitoring.events.LINE, watch.on_line)


def _begun() -> _Watch | None:
    asked = os.environ.pop(ASKED, "")
    if not asked:
        return None
    file = Path(asked)
    watch = _Watch(json.loads(file.read_text(encoding="utf-8")))
    file.unlink()
    return watch


_watch = _begun()


@_hook(hookwrapper=True)
def pytest_load_initial_conftests(early_config: Any) -> Iterator[None]:
    """Disable tracing by a coverage plugin: a process has only one tracer."""
    options = early_config.known_args_namespace
    if hasattr(options, "no_cov"):
        options.no_cov = True
    yield


@_hook(hookwrapper=True)
def pytest_cmdline_main(config: Any) -> Iterator[None]:
    """Run all tests in this process, so that they are traced."""
    if hasattr(config.option, "numprocesses"):
        config.option.numprocesses, config.option.dist, config.option.tx = None, "no", []
    yield


@_hook(trylast=True)
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep the tests that were asked for."""
    if _watch is not None and _watch.only:
        others = [item for item in items if item.nodeid not in _watch.only]
        items[:] = [item for item in items if item.nodeid in _watch.only]
        config.hook.pytest_deselected(items=others)


@_hook(hookwrapper=True)
def pytest_make_collect_report(collector: Any) -> Iterator[None]:
    """Trace the import of a test file, which runs scripts that it imports; record collection errors."""
    if _watch is None:
        yield
        return
    path = _path_of(collector)
    if _watch.scripts:
        _watch.begin()
    outcome: Any = yield
    if _watch.scripts:
        seen, kept = _watch.end(), _watch.imported.setdefault(path, {})
        for file in seen.keys() & _watch.scripts:
            kept.setdefault(file, set()).update(seen[file])
    report = outcome.get_result()
    if report.failed and len(_watch.broken) < _MOST_NAMED:
        call = getattr(report, "call", None)
        error = call.excinfo.value if call is not None and call.excinfo is not None else None
        _watch.broken.append(_told(report.nodeid, path, 1, error, ""))


@_hook(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    """Trace one test: its lines count if it passes; those of a test that fails are recorded apart."""
    if _watch is None:
        yield
        return
    _watch.phases = []
    _watch.begin()
    yield
    seen = _watch.end()
    path = _path_of(item)
    _watch.ran.add(path)
    failed = next((when for when, outcome, _ in _watch.phases if outcome == "failed"), "")
    called = [(outcome, is_expected) for when, outcome, is_expected in _watch.phases if when == "call"]
    if failed:
        _watch.counts["failed" if failed == "call" else "errors"] += 1
        _watch.note_failure(item.nodeid, seen)
    elif called == [("passed", False)]:
        _watch.counts["passed"] += 1
        if _watch.only:
            _watch.passed.append(item.nodeid)
        for file, lines in _watch.imported.get(path, {}).items():
            seen.setdefault(file, set()).update(lines)
        for file, lines in seen.items():
            _watch.executed.setdefault(file, set()).update(lines)
        if seen:
            _watch.number_executing += 1
            if len(_watch.executing) < _MOST_NAMED:
                _watch.executing.append(item.nodeid)
    else:
        _watch.counts["skipped"] += 1


@_hook(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    """Record the outcome of a phase of a test."""
    outcome: Any = yield
    if _watch is None:
        return
    report = outcome.get_result()
    _watch.phases.append((report.when, report.outcome, hasattr(report, "wasxfail")))
    if report.outcome == "failed" and len(_watch.failures) < _MOST_NAMED:
        crash = getattr(report.longrepr, "reprcrash", None)
        why = crash.message if crash is not None else str(report.longrepr)
        error = call.excinfo.value if call.excinfo is not None else None
        line = (item.location[1] or 0) + 1
        _watch.failures.append(_told(item.nodeid, _path_of(item), line, error, why))


@_hook(trylast=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    """Write the results."""
    if _watch is not None:
        _watch.write(int(exitstatus))


def _path_of(node: Any) -> str:
    return str(getattr(node, "path", "") or getattr(node, "fspath", ""))


def _told(test: str, path: str, line: int, error: BaseException | None, why: str) -> dict[str, Any]:
    chain = list(_chain(error))
    # Pytest wraps the exception of a failed import.
    cause = next((each for each in chain if type(each).__name__ != "CollectError"), error)
    lines = (why or f"{type(cause).__name__}: {cause}").strip().splitlines()
    return {
        "test": test,
        "path": path,
        "line": line,
        "why": next((each for each in lines if each.strip()), "it failed")[:_LONGEST_WHY],
        "missing_file": next((str(each.filename) for each in chain if _is_missing(each)), ""),
        "missing_module": next((str(each.name) for each in chain if isinstance(each, ModuleNotFoundError)), ""),
        "network": any(_is_network(each) for each in chain),
        "forbidden": next((str(each.filename) for each in chain if _is_forbidden(each)), ""),
    }


def _chain(error: BaseException | None) -> Iterator[Any]:
    known: set[int] = set()
    while error is not None and id(error) not in known:
        known.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_missing(error: object) -> bool:
    return isinstance(error, FileNotFoundError) and error.filename is not None


def _is_network(error: object) -> bool:
    if type(error).__name__ in {"gaierror", "herror"}:
        return True
    return isinstance(error, OSError) and (
        error.errno in _NETWORK or (error.errno in _FORBIDDEN and error.filename is None)
    )


def _is_forbidden(error: object) -> bool:
    return isinstance(error, OSError) and error.errno in _FORBIDDEN and error.filename is not None
