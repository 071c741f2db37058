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
        measured_by: Commands that report it.
        meaning: What was measured.
        remedy: What to do about it, in general.
    """

    code: str
    name: str
    severity: Severity
    category: Category
    measured_by: str
    meaning: str
    remedy: str


CANDIDATE_WRONG = LabRule(
    "LAB101",
    "candidate-is-wrong",
    Severity.CRITICAL,
    Category.CORRECTNESS,
    "esper torch compare",
    "The results of the candidate differ from those of the baseline by more than the tolerance, on an "
    "input that both accept: outputs, gradients, changed inputs, state or side effects.",
    "Look at the input that the finding names, and repair the candidate. If the difference is intended, "
    "state a tolerance (`--rtol`, `--atol`) or a metric (`--metric`).",
)
NOT_AS_FAST = LabRule(
    "LAB102",
    "candidate-not-as-fast",
    Severity.WARNING,
    Category.PERFORMANCE,
    "esper torch compare",
    "The results are equal, but the confidence interval of the speedup does not reach the claimed ratio.",
    "Claim at most the lower bound of the interval, or profile the candidate to see what its time is spent on.",
)
VERSIONS_DIFFER = LabRule(
    "LAB103",
    "versions-differ",
    Severity.WARNING,
    Category.CORRECTNESS,
    "esper submit --diff",
    "Before and after a change, a definition that it edits does not do the same on an input that both versions "
    "accept: outputs, gradients, changed inputs, state, side effects or exceptions. The program chose the inputs. It "
    "is critical if the request calls the change harmless, and a suggestion if only extreme numbers show it.",
    "If the change is to keep the behaviour, restore it here; otherwise say in the commit what changes.",
)
GRAPH_BROKEN = LabRule(
    "LAB201",
    "graph-broken-here",
    Severity.WARNING,
    Category.COMPILE,
    "esper torch explain",
    "`torch.compile` ends a graph at this line and runs it in Python. Code on both sides is compiled "
    "separately, and nothing is fused across the line.",
    "Follow the fix of the finding: it depends on the operation that ends the graph. A break outside a "
    "hot loop often costs nothing that a profile shows.",
)
RECOMPILED = LabRule(
    "LAB202",
    "compiled-again-here",
    Severity.WARNING,
    Category.COMPILE,
    "esper torch explain",
    "A function was compiled again because a guard at this line failed, such as a changed shape, dtype, "
    "flag or number.",
    "Keep that value constant, pass it as a tensor, or mark the dimension with `torch._dynamo.mark_dynamic`.",
)
GAVE_UP = LabRule(
    "LAB203",
    "compiler-gave-up",
    Severity.WARNING,
    Category.COMPILE,
    "esper torch explain",
    "The compiler reached its limit of recompilations for a function and runs it in eager mode from then on.",
    "Remove the causes of recompilation (LAB202) first; a higher limit only delays it.",
)
NEVER_COMPILED = LabRule(
    "LAB204",
    "nothing-was-compiled",
    Severity.WARNING,
    Category.COMPILE,
    "esper torch explain",
    "No operation of the target ran in a compiled graph.",
    "Look at the first graph break: code before and after it may be plain Python, or a setting may "
    "disable the compiler.",
)
COMPILE_FAILED = LabRule(
    "LAB205",
    "compiled-run-fails",
    Severity.WARNING,
    Category.COMPILE,
    "esper torch explain",
    "The target runs in eager mode and fails when it is compiled.",
    "Exclude the failing function with `torch.compiler.disable`, or repair the line that the finding names.",
)
EXPORT_FAILED = LabRule(
    "LAB206",
    "export-fails-here",
    Severity.WARNING,
    Category.COMPILE,
    "esper torch export",
    "`torch.export` cannot export the target because of this line.",
    "Follow the fix of the finding: usually a branch on data, an untraceable call, or a shape that must "
    "be declared dynamic.",
)
BOTTLENECK = LabRule(
    "LAB301",
    "time-goes-here",
    Severity.SUGGESTION,
    Category.PERFORMANCE,
    "esper torch profile",
    "Of all lines of the project, this one accounts for the largest part of the measured time.",
    "Change this line first, then compare both versions. A small share limits what any change can gain.",
)
HOST_WAITS = LabRule(
    "LAB302",
    "host-waits-here",
    Severity.SUGGESTION,
    Category.PERFORMANCE,
    "esper torch profile",
    "The host waits at this line until the device has finished its queued work, for example to copy a value.",
    "Move the wait out of the hot loop: keep the value as a tensor and copy it once.",
)
DATA_WAITS = LabRule(
    "LAB303",
    "step-waits-for-data",
    Severity.WARNING,
    Category.PERFORMANCE,
    "esper torch data",
    "The training step waits for the next batch for longer than it computes.",
    "Use more workers, decode less in each sample, or prefetch; the report names the slowest stage.",
)
MEMORY_GROWS = LabRule(
    "LAB401",
    "memory-grows-here",
    Severity.WARNING,
    Category.MEMORY,
    "esper torch memory",
    "Memory that this line allocates is still referenced after every measured step, so that usage grows "
    "with the number of steps.",
    "Release what the finding names as the holder, or store a detached value.",
)
OUT_OF_MEMORY = LabRule(
    "LAB402",
    "out-of-memory-here",
    Severity.CRITICAL,
    Category.MEMORY,
    "esper torch memory",
    "The target ran out of memory at this line.",
    "Reduce the batch, recompute activations, or free what the report lists as the largest allocations.",
)
MEMORY_PEAK = LabRule(
    "LAB403",
    "memory-peaks-here",
    Severity.SUGGESTION,
    Category.MEMORY,
    "esper torch memory",
    "At the peak of memory use, this line had allocated the largest part. It is no fault: the memory is "
    "released afterwards.",
    "To lower the peak, change this line first: recompute instead of store, use a smaller dtype, or "
    "process the batch in parts.",
)
NON_FINITE = LabRule(
    "LAB501",
    "first-non-finite",
    Severity.CRITICAL,
    Category.CORRECTNESS,
    "esper torch nan",
    "This operation is the first whose result contains NaN or Inf although its inputs contain none.",
    "Follow the fix of the finding: bound the argument, for example by `clamp`, or compute in a stable "
    "form such as `logsumexp`.",
)

# Every code, in order.
MEASUREMENT_RULES = tuple(
    sorted((each for each in globals().values() if isinstance(each, LabRule)), key=lambda each: each.code)
)


def find_measurement_rule(name: str) -> LabRule | None:
    """Return the kind of diagnostic with a code or name, ignoring case; None if there is none."""
    return next((each for each in MEASUREMENT_RULES if name.casefold() in {each.code.casefold(), each.name}), None)


def measurement_page(rule: LabRule) -> str:
    """Return the page of a kind of diagnostic as Markdown."""
    return (
        f"# {rule.code} {rule.name}\n\n*{rule.severity}, {rule.category}; measured by `{rule.measured_by}`*\n\n"
        f"{rule.meaning}\n\n## The fix\n\n{rule.remedy}\n"
    )
