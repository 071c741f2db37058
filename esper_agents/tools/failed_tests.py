"""Failed tests as findings, with the excuses that the environment gives them."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.tools.executed_lines import edits_executed_by
from esper_agents.tools.file_access import is_private
from esper_agents.tools.repeated_tests import RepeatedTest
from esper_agents.tools.tests_interpreter import python_for_tests

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from esper_agents.tools.pytest_outcome import PytestOutcome, PytestRequest
    from esper_agents.tools.pytest_report import FailedTest
    from esper_agents.tools.tool import ToolContext

_MOST_WHY = 300


class FailureExcuse(NamedTuple):
    """Reason why a failure proves nothing about the code, and a remedy; empty texts without a reason."""

    why: str = ""
    remedy: str = ""


class FailureFinding:
    """A failed test, or a file that could not be collected, with a possible excuse.

    Attributes:
        test: The test in the report.
        again: Its outcomes in further runs.
        edits: Places of the edits that it executed.
        name: Its node id, else its file.
        path: Its file, relative to the project; empty if it lies elsewhere.
        excuse: The excuse.
    """

    def __init__(
        self,
        context: ToolContext,
        asked: PytestRequest,
        ran: PytestOutcome,
        test: FailedTest,
        again: Mapping[str, RepeatedTest],
    ) -> None:
        """Look at a failed test of a run."""
        self.test = test
        self.again = again.get(test.test, RepeatedTest())
        self.edits = edits_executed_by(test, asked, ran)
        self.name = test.name
        self.path = ran.inside(test.path)
        self.excuse = excuse_of(context, ran, test)
        self._why = test.why[:_MOST_WHY]
        self._first = f"git switch --detach {context.change.head[:12]}, " if context.checkout and context.change else ""
        self._lines = ran.text(self.path)

    def claim(self, severity: Severity) -> Diagnostic:
        """Return the finding of a failure."""
        how = (
            "fails"
            if severity is Severity.CRITICAL
            else "cannot be collected, and does not import the files under test"
        )
        how += " and passes without the change" if self.again.passes_before else ""
        by = f"; it executes the edit at {self.edits[0]}" if self.edits else ""
        more = f" and {len(self.edits) - 1} more" if len(self.edits) > 1 else ""
        return self._diagnostic("test-fails", severity, f"{how}: {self._why}{by}{more}", "and fix the failure")

    def flaky_claim(self) -> Diagnostic:
        """Return the finding of a flaky test."""
        message = f"is flaky, so its result decides nothing: it {self.again.told}: {self._why}"
        return self._diagnostic("test-flaky", Severity.WARNING, message, "several times, and make the test repeatable")

    def _diagnostic(self, name: str, severity: Severity, message: str, remedy: str) -> Diagnostic:
        line = min(max(self.test.line, 1), max(len(self._lines), 1))
        path = self.path or "."
        return Diagnostic(
            rule="TESTS",
            name=name,
            severity=severity,
            category=Category.CORRECTNESS,
            location=Location(path, line, 1, line),
            message=f"the test {self.name.rpartition('::')[2] or path} {message}",
            remedy=f"run {self._first}python -m pytest {quote(path)} {remedy}",
            confidence=Confidence.HIGH,
            basis="it was run",
            excerpt=self._lines[line - 1] if self._lines else "",
            fingerprint=fingerprint("TESTS", path, self.name, 0),
        )


def excuse_of(context: ToolContext, ran: PytestOutcome, test: FailedTest) -> FailureExcuse:
    """Return the excuse of a failure: a missing package, or what the sandbox withholds."""
    module = test.missing_module.partition(".")[0]
    root = context.root.resolve()
    if module and not any(
        (root / place / name).exists() for place in (".", "src") for name in (module, f"{module}.py")
    ):
        why = f"{module!r} is not installed for {python_for_tests(root)}"
        return FailureExcuse(why, f"install {module} there, then run the tests again")
    return _excused_by_the_sandbox(root, ran, test) if ran.is_confined else FailureExcuse()


def _excused_by_the_sandbox(root: Path, ran: PytestOutcome, test: FailedTest) -> FailureExcuse:
    missing = ran.inside(test.missing_file) if test.missing_file else ""
    if missing and (root / missing).exists() and not (ran.tree / missing).exists():
        if is_private(missing):
            why = f"it reads {missing!r}, which is withheld from the sandbox"
            return FailureExcuse(why, "change the test so that it does not need that file")
        why = f"it reads {missing!r}, which git ignores"
        return FailureExcuse(why, f"--allow {quote(f'run-tests:read={missing}')}")
    if test.network:
        return FailureExcuse("it uses the network, and the sandbox has none", "--allow run-tests:network")
    if test.forbidden and not ran.inside(test.forbidden):
        why = f"the sandbox keeps it from {test.forbidden[:100]!r}"
        return FailureExcuse(why, "--allow run-tests:unsandboxed")
    return FailureExcuse()
