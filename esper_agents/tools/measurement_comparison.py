"""Compare measurements with repeated ones: by decisions, by intervals, and by tolerances.

A measurement belongs to a machine: under another torch, or on another processor, a difference proves nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.evidence_values import found_in, mapping_in, number_of
from esper_agents.domain.reproduction import ReproductionOutcome
from esper_agents.tools.output_comparison import (
    OutputComparison,
    OutputDifference,
    comparison_from,
    difference,
    differences,
    is_near,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.domain.codec import JsonObject

# Subject of a measurement besides the code: these fields are recorded by `outlined`.
_OF = ("torch", "machine", "device")
_NOT_SHOWN, _ERROR = "not shown", "error"
_BYTES = re.compile(r"(?:\w+_)?bytes(?:_\w+)?|allocated|reserved")
# Maximum ratio by which an estimate may differ from the measured peak that it confirms.
_NEAR_BYTES = 1.05
# Confinement and sampling times do not change a result.
_ASIDE = frozenset(("sandbox", "timeline"))
# Sentences generated from the numbers next to them.
_SENTENCES = frozenset(("because", "headline", "prevention", "remedies"))
# If a profile is unclear about the bottleneck, another run may name another one.
_BOUND = ("bottleneck", "hot")


def measured(recorded: JsonObject, again: JsonObject) -> OutputComparison:
    """Compare results that contain no times: counts, names and decisions must be the same."""
    return _elsewhere(recorded, again) or comparison_from(differences(recorded, again, aside=_ASIDE))


def exported(recorded: JsonObject, again: JsonObject) -> OutputComparison:
    """Compare attempts to export: all outcomes must be the same except the draft's, which continues after failures."""
    return _elsewhere(recorded, again) or comparison_from(differences(recorded, again, aside=_ASIDE | {"draft"}))


def memory(recorded: JsonObject, again: JsonObject) -> OutputComparison:
    """Compare memory results: counts, names and decisions must be the same, bytes within a tolerance."""

    def judge(member: str, one: object, other: object) -> bool | None:
        return is_near(one, other, _NEAR_BYTES) if any(map(_BYTES.fullmatch, _names(member))) else None

    return _elsewhere(recorded, again) or comparison_from(
        differences(recorded, again, aside=_ASIDE | _SENTENCES, judge=judge)
    )


def stated(*names: str) -> Callable[[JsonObject, JsonObject], OutputComparison]:
    """Return a comparison of these members of a result; the others are times."""

    def compare(recorded: JsonObject, again: JsonObject) -> OutputComparison:
        one, other = ({name: each["result"].get(name) for name in names} for each in (recorded, again))
        return _elsewhere(recorded, again) or comparison_from(differences(one, other, "output.result"))

    return compare


def profile(recorded: JsonObject, again: JsonObject) -> OutputComparison:
    """Compare profiles: the bottleneck, the hottest line, and the time of a call within the acceptance threshold.

    Shares, ceilings and the order of lesser lines belong to the machine at that hour and are ignored. So are counts
    and bytes: they depend on the number of calls that the time allowed, and on the inputs.
    """
    from esper_agents.torchlab.compare.acceptance_rules import acceptance

    faster = acceptance().threshold["latency"]
    one, other = _profiled(recorded), _profiled(again)

    def judge(member: str, before: object, after: object) -> bool | None:
        return is_near(before, after, faster) if member == "output.call" else None

    if differ := _elsewhere(recorded, again):
        return differ
    found = tuple(differences(one, other, judge=judge))
    is_clear = recorded.get("is_clear") is True and again.get("is_clear") is True
    if found and not is_clear and all(each.member.split(".")[1] in _BOUND for each in found):
        return OutputComparison(ReproductionOutcome.NOT_COMPARABLE, f"the bottleneck is not clear: {found[0]}", found)
    return comparison_from(found)


def comparison(recorded: JsonObject, again: JsonObject) -> OutputComparison:
    """Compare comparisons: the outcome and the checks must be the same, and the speed-up intervals must overlap."""
    if differ := _elsewhere(recorded, again):
        return differ
    intervals = tuple(_intervals(recorded, again))
    kept = ("outcome", "threshold", "kind", "request")
    found = [
        *differences({name: recorded.get(name) for name in kept}, {name: again.get(name) for name in kept}),
        *differences(_failed(recorded), _failed(again), "output.result.checks"),
        *(interval for interval in intervals if interval.by),
    ]
    is_open = bool({_NOT_SHOWN, _ERROR} & {recorded.get("outcome"), again.get("outcome")})
    if is_open and [each.member for each in found] == ["output.outcome"]:
        why = f"{found[0]}, and the intervals do not contradict each other"
        return OutputComparison(ReproductionOutcome.NOT_COMPARABLE, why, tuple(found), intervals)
    compared = comparison_from(tuple(found))
    said = "".join(f"; recorded {interval.recorded}, now {interval.again}" for interval in intervals[:1])
    why = compared.why if found else f"the outcome is the same{said}"
    return OutputComparison(compared.outcome, why, compared.differences, intervals)


# Comparisons of kinds whose results no general one fits.
OF_KIND = {"compare": comparison, "export": exported, "memory": memory, "profile": profile}


def _elsewhere(recorded: JsonObject, again: JsonObject) -> OutputComparison | None:
    """Return a result that is not comparable if torch, processor or device differ, or are not on record."""
    found = tuple(
        difference(f"output.{name}", recorded.get(name, "nothing"), again.get(name, "nothing"))
        for name in _OF
        if recorded.get(name) != again.get(name)
    )
    if not found:
        return None
    return OutputComparison(ReproductionOutcome.NOT_COMPARABLE, f"the environments differ: {found[0]}", found)


def _names(member: str) -> list[str]:
    return re.split(r"[.\[\]]+", member)


def _profiled(output: JsonObject) -> dict[str, Any]:
    """Return the fields of a profile that another run must reproduce."""
    analysis = mapping_in(output, "result", "analysis")
    return {
        "kind": output.get("kind"),
        "is_compiled": output.get("is_compiled"),
        "bottleneck": analysis.get("bottleneck"),
        "hot": {name: found_in(analysis, "hot", name) for name in ("file", "line", "name")},
        "call": found_in(analysis, "call", "ns"),
    }


def _intervals(recorded: JsonObject, again: JsonObject) -> Iterator[OutputDifference]:
    """Yield the recorded and the repeated speed-up interval; `by` is their distance if they do not overlap."""
    one, other = _interval(recorded), _interval(again)
    if one is None or other is None:
        return
    is_apart = one[1] < other[0] or other[1] < one[0]
    apart = f"{max(other[0] / one[1], one[0] / other[1]):.4g} times apart" if is_apart else ""
    said = [f"{lower:.4g}x to {upper:.4g}x" for lower, upper in (one, other)]
    yield OutputDifference("output.verdict.speedup", said[0], said[1], apart)


def _interval(output: JsonObject) -> tuple[float, float] | None:
    speedup = mapping_in(output, "verdict", "speedup")
    lower, upper = number_of(speedup.get("lower")), number_of(speedup.get("upper"))
    return (lower, upper) if lower is not None and upper is not None and 0 < lower <= upper else None


def _failed(output: JsonObject) -> list[str]:
    """Return the failed checks, by name."""
    checks = found_in(output, "result", "checks")
    failed = [check for check in checks or () if isinstance(check, dict) and not check.get("is_passed")]
    return sorted({f"{each.get('check')} on {each.get('variant')}" for each in failed})
