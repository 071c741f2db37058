"""What a file is there for, and how far tests and benchmarks are let off.

Tests and benchmarks are read like all code, with two differences: memory and performance rules do not run there,
because a test that waits for the device or keeps a graph for one step costs nobody anything; and every other claim
counts one severity less. Examples are judged in full: people copy them.
"""

from __future__ import annotations

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.tables import Purpose

_FOLDERS = {
    "test": Purpose.TEST,
    "tests": Purpose.TEST,
    "testing": Purpose.TEST,
    "benchmark": Purpose.BENCHMARK,
    "benchmarks": Purpose.BENCHMARK,
    "example": Purpose.EXAMPLE,
    "examples": Purpose.EXAMPLE,
}


def purpose_of(path: str) -> Purpose:
    """Return what a file is there for, by its name and the folders it stands in; the nearest folder decides."""
    *folders, name = path.split("/")
    stem = name.removesuffix(".py")
    if stem.startswith("test_") or stem.endswith("_test") or stem == "conftest":
        return Purpose.TEST
    if stem.startswith(("bench_", "benchmark")) or stem.endswith("_benchmark"):
        return Purpose.BENCHMARK
    return next((_FOLDERS[each] for each in reversed(folders) if each in _FOLDERS), Purpose.CODE)


def applies(category: Category, purpose: Purpose) -> bool:
    """Return whether rules of a category run in files of a purpose."""
    match purpose:
        case Purpose.CODE | Purpose.EXAMPLE:
            return True
        case Purpose.TEST | Purpose.BENCHMARK:
            return category not in {Category.MEMORY, Category.PERFORMANCE}


def severity_in(purpose: Purpose, severity: Severity) -> Severity:
    """Return how much a claim matters in files of a purpose."""
    match purpose:
        case Purpose.CODE | Purpose.EXAMPLE:
            return severity
        case Purpose.TEST | Purpose.BENCHMARK:
            return Severity.WARNING if severity is Severity.CRITICAL else Severity.SUGGESTION
