"""Kinds of input that a comparison used, and those on which the results differ."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from esper_agents.torchlab.worker.compare.result import EquivalenceCheck

# Inputs as the target's own function makes them.
REGULAR, ALL_CALLS = "regular inputs", "all calls"
_NUMBERED = re.compile(
    r"plain \d+(?: once more)?|call \d+ of \d+ in a row|\d+ calls in a row|a timed call .*|as at first, at the end"
    r"|the same numbers in new tensors"
)
# Numbers and formats that real data has rarely; code that is equivalent otherwise may treat them differently.
_EXTREME = re.compile(
    r"(?i:infinity|infinities|NaN)\b|bfloat16|float16|autocast|smallest|very large|leading dimension 0|largest"
)


@dataclass(frozen=True, slots=True)
class ComparedInputs:
    """Kinds of input of a comparison.

    Attributes:
        kinds: All kinds, in order.
        close: Kinds on which `torch.testing.assert_close` accepts every difference.
        differences: The first other difference of each kind; effects of all calls together count as a kind.
    """

    kinds: tuple[str, ...]
    close: frozenset[str]
    differences: Mapping[str, str]

    @property
    def different(self) -> tuple[str, ...]:
        """Kinds of input on which results differ."""
        return tuple(kind for kind in self.kinds if kind in self.differences)

    @property
    def is_extreme_only(self) -> bool:
        """Whether results differ on extreme numbers and formats alone."""
        return bool(self.differences) and all(_EXTREME.search(kind) for kind in self.differences)


def compared_inputs(checks: Iterable[EquivalenceCheck]) -> ComparedInputs:
    """Return the kinds of input of a comparison, from its checks."""
    every = tuple(checks)
    differences: dict[str, str] = {}
    for each in every:
        if not each.is_passed and not each.is_close:
            differences.setdefault(kind_of_input(each.variant), f"{each.check}: {each.detail}")
    kinds = dict.fromkeys(kind_of_input(each.variant) for each in every if each.variant != ALL_CALLS)
    close = {kind_of_input(each.variant) for each in every if each.is_close} - differences.keys()
    return ComparedInputs(tuple(kinds), frozenset(close), differences)


def kind_of_input(variant: str) -> str:
    """Return the kind of an input: calls that differ in random numbers alone are of one kind."""
    return _NUMBERED.sub(REGULAR, variant)
