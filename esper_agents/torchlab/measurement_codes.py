"""Diagnostic codes of measurements, separate from those of the lint rules."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.finding import Category, Severity


@dataclass(frozen=True, slots=True)
class LabRule:
    """Kind of diagnostic that is based on a measurement.

    Attributes:
        code: LAB1xx compare, LAB2xx compile and export, LAB3xx time, LAB4xx memory, LAB5xx numbers.
        name: Name of the pattern, in words joined by hyphens.
        severity: Severity.
        category: Category of the review checklist.
    """

    code: str
    name: str
    severity: Severity
    category: Category


CANDIDATE_WRONG = LabRule("LAB101", "candidate-is-wrong", Severity.CRITICAL, Category.CORRECTNESS)
NOT_AS_FAST = LabRule("LAB102", "candidate-not-as-fast", Severity.WARNING, Category.PERFORMANCE)
GRAPH_BROKEN = LabRule("LAB201", "graph-broken-here", Severity.WARNING, Category.COMPILE)
RECOMPILED = LabRule("LAB202", "compiled-again-here", Severity.WARNING, Category.COMPILE)
GAVE_UP = LabRule("LAB203", "compiler-gave-up", Severity.WARNING, Category.COMPILE)
NEVER_COMPILED = LabRule("LAB204", "nothing-was-compiled", Severity.WARNING, Category.COMPILE)
COMPILE_FAILED = LabRule("LAB205", "compiled-run-fails", Severity.WARNING, Category.COMPILE)
EXPORT_FAILED = LabRule("LAB206", "export-fails-here", Severity.WARNING, Category.COMPILE)
BOTTLENECK = LabRule("LAB301", "time-goes-here", Severity.SUGGESTION, Category.PERFORMANCE)
HOST_WAITS = LabRule("LAB302", "host-waits-here", Severity.SUGGESTION, Category.PERFORMANCE)
DATA_WAITS = LabRule("LAB303", "step-waits-for-data", Severity.WARNING, Category.PERFORMANCE)
MEMORY_GROWS = LabRule("LAB401", "memory-grows-here", Severity.WARNING, Category.MEMORY)
OUT_OF_MEMORY = LabRule("LAB402", "out-of-memory-here", Severity.CRITICAL, Category.MEMORY)
MEMORY_PEAK = LabRule("LAB403", "memory-peaks-here", Severity.SUGGESTION, Category.MEMORY)
NON_FINITE = LabRule("LAB501", "first-non-finite", Severity.CRITICAL, Category.CORRECTNESS)
