"""From a source that was read to its tables, or why there are none."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.review.builder import fill
from esper_agents.review.leniency import purpose_of, severity_in
from esper_agents.review.source import Unreadable
from esper_agents.review.suppress import find_suppressions, with_functions
from esper_agents.review.tables import FileTables

if TYPE_CHECKING:
    from esper_agents.review.source import ReviewSource
    from esper_agents.review.syntax import SyntaxDiagnosis
    from esper_agents.review.versions import PythonVersion

# Code and name of the rule that reports what the parser says.
SYNTAX_ERROR = ("ESP109", "syntax-error")


def tables_of(source: ReviewSource, python: PythonVersion | None = None) -> FileTables | Diagnostic | Unreadable:
    """Return the tables of a source, the syntax error in it, or why it cannot be parsed here.

    Args:
        source: The source.
        python: The project's own Python; None if the project does not say.
    """
    path = source.record.path
    try:
        with warnings.catch_warnings():
            # Reviewed code may hold invalid escapes; they are not ours to warn about.
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text, feature_version=None if python is None else python.minor)
        purpose = purpose_of(path, source.text)
        file = FileTables(path, _module_name(path), source.text, tree, purpose, find_suppressions(source.text))
        fill(file)
        file.suppressions = with_functions(file)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _unparsed(error, source, python)
    return file


def _unparsed(error: Exception, source: ReviewSource, python: PythonVersion | None) -> Diagnostic | Unreadable:
    from esper_agents.review.syntax import why_not_parsed

    path = source.record.path
    why = why_not_parsed(error, source.text)
    line: int | None = getattr(error, "lineno", None)
    if line is not None and source.notebook is not None:
        line = source.notebook.line(line)
    if isinstance(error, SyntaxError) and source.notebook is None and _is_error_for(why, python):
        return _syntax_error(error, why, source, python)
    return Unreadable(path, why.problem, why.remedy or f"run `python -m py_compile {path}`", line)


def _is_error_for(why: SyntaxDiagnosis, python: PythonVersion | None) -> bool:
    """Return whether a source is wrong for the project's Python, and not only for an older one that runs the review."""
    if python is None:
        return not why.needs
    if python.is_newer_than_running:
        return bool(why.needs) and why.needs > python.version
    return True


def _syntax_error(
    error: SyntaxError, why: SyntaxDiagnosis, source: ReviewSource, python: PythonVersion | None
) -> Diagnostic:
    path = source.record.path
    lines = source.text.split("\n")
    line = min(max(error.lineno or 1, 1), max(source.record.lines, 1))
    excerpt = lines[line - 1]
    column = min(max(error.offset or 1, 1), len(excerpt) + 1)
    known = f" (the project's Python is {python})" if python is not None else ""
    needed = ".".join(map(str, why.needs))
    problem = f"needs Python {needed}" if needed else why.problem
    return Diagnostic(
        rule=SYNTAX_ERROR[0],
        name=SYNTAX_ERROR[1],
        severity=severity_in(purpose_of(path, source.text), Severity.CRITICAL),
        category=Category.CORRECTNESS,
        location=Location(path, line, column, line),
        message=f"this file {problem}{known}, so that nothing in it can be imported or reviewed",
        remedy=f"correct the syntax; `python -m py_compile {path}` shows the error",
        confidence=Confidence.HIGH,
        basis="reported by the parser",
        excerpt=excerpt,
        fingerprint=fingerprint(SYNTAX_ERROR[0], path, excerpt, 0),
    )


def _module_name(path: str) -> str:
    parts = path.removesuffix(".ipynb").removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
