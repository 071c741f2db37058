"""Compare recorded and repeated tool output: exactly, unless the tool defines its own comparison."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from esper_agents.certificates.evidence_values import number_of
from esper_agents.domain.codec import JsonObject
from esper_agents.domain.reproduction import ReproductionOutcome

# Keys of durations and times, which differ in every run.
_VOLATILE = re.compile(r"\w+_(?:ns|us|ms|s|seconds|at)|cost|seconds|duration|elapsed|timestamp|pid")
_LONGEST = 120
_WHOLE = "output"


class _Absent:
    """Placeholder for a missing member; equal to no recorded value."""

    def __repr__(self) -> str:
        return "(nothing)"


_ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """One member that differs.

    Attributes:
        member: Path of the member, such as `output.claims[2]`.
        recorded: Recorded value, as text.
        again: Repeated value, as text.
        by: Size of the difference, in words; empty if the values are not two numbers.
    """

    member: str
    recorded: str
    again: str
    by: str = ""

    def __str__(self) -> str:
        by = f" ({self.by})" if self.by else ""
        return f"{self.member}: recorded {self.recorded}, now {self.again}{by}"


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """Result of a comparison.

    Attributes:
        outcome: Reproduced, differs or not comparable.
        why: Reason, in one line.
        differences: Members that differ.
        intervals: Members compared by interval, with their recorded and repeated values.
    """

    outcome: ReproductionOutcome
    why: str
    differences: tuple[OutputDifference, ...] = ()
    intervals: tuple[OutputDifference, ...] = ()


# Takes the recorded and the repeated output, both in recorded form.
Comparer: TypeAlias = Callable[[JsonObject, JsonObject], OutputComparison]
# Returns whether two values of a member are the same; None leaves the decision to the default.
Judge: TypeAlias = Callable[[str, object, object], bool | None]


def compare_exactly(recorded: JsonObject, again: JsonObject) -> OutputComparison:
    """Compare two outputs: all must be the same except durations and times."""
    return comparison_from(differences(recorded, again))


def without(*names: str) -> Comparer:
    """Return an exact comparison that ignores members of these names at any depth."""

    def compare(recorded: JsonObject, again: JsonObject) -> OutputComparison:
        return comparison_from(differences(recorded, again, aside=frozenset(names)))

    return compare


def comparison_from(found: Iterator[OutputDifference] | tuple[OutputDifference, ...]) -> OutputComparison:
    """Return the comparison result for these differences."""
    every = tuple(found)
    if not every:
        return OutputComparison(ReproductionOutcome.REPRODUCED, "the output is the same")
    more = f"; and {len(every) - 1} more" if len(every) > 1 else ""
    return OutputComparison(ReproductionOutcome.DIFFERS, f"{every[0]}{more}", every)


def differences(
    recorded: object,
    again: object,
    where: str = _WHOLE,
    *,
    aside: frozenset[str] = frozenset(),
    judge: Judge = lambda _member, _recorded, _again: None,
) -> Iterator[OutputDifference]:
    """Yield the differences between two JSON values, in order.

    Args:
        recorded: Recorded value.
        again: Repeated value.
        where: Name of the value in the results.
        aside: Names of members to ignore, besides those that hold times.
        judge: Decides whether two values that are not objects or lists are the same; None means equality.
    """
    if isinstance(recorded, Mapping) and isinstance(again, Mapping):
        for name in sorted({*recorded, *again}):
            if name not in aside and not _VOLATILE.fullmatch(name):
                one, other = recorded.get(name, _ABSENT), again.get(name, _ABSENT)
                yield from differences(one, other, f"{where}.{name}", aside=aside, judge=judge)
    elif isinstance(recorded, list) and isinstance(again, list):
        for index in range(max(len(recorded), len(again))):
            one, other = (each[index] if index < len(each) else _ABSENT for each in (recorded, again))
            yield from differences(one, other, f"{where}[{index}]", aside=aside, judge=judge)
    else:
        is_same = judge(where, recorded, again)
        # In Python, True equals 1.
        if (type(recorded) is not type(again) or recorded != again) if is_same is None else not is_same:
            yield difference(where, recorded, again)


def difference(member: str, recorded: object, again: object) -> OutputDifference:
    """Return the difference between two values; for numbers, with its size."""
    one, other = number_of(recorded), number_of(again)
    by = ""
    if one is not None and other is not None:
        by = f"by {other - one:+.6g}" + (f", {(other - one) / abs(one):+.1%}" if one else "")
    return OutputDifference(member, _text(recorded), _text(again), by)


def is_near(recorded: object, again: object, ratio: float) -> bool | None:
    """Return whether neither number exceeds `ratio` times the other; None if one is not a number."""
    one, other = number_of(recorded), number_of(again)
    if one is None or other is None:
        return None
    least, most = sorted((abs(one), abs(other)))
    return one == other or (one * other > 0 and most <= ratio * least)


def _text(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
