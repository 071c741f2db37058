"""Acceptance rules read from `acceptance.toml`."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from esper_agents.domain.codec import parsed

_FILE = Path(__file__).parent.parent / "acceptance.toml"


@dataclass(frozen=True, slots=True)
class InterimLooks:
    """Interim analyses.

    Attributes:
        replicates: Number of replicates of each.
        ranks: Rank of the interval at each.
        resolution: Fraction by which each bound is moved outwards.
    """

    replicates: tuple[int, ...]
    ranks: tuple[int, ...]
    resolution: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRules:
    """Lengths of a batch, a replicate and a comparison.

    Attributes:
        batch_ns: Time of a batch.
        lead_in_ns: Time of the untimed calls before it.
        longest_lead_in_ns: Time of a call from which there are none.
        most_quads: Maximum number of quads in a replicate.
        fewest_quads: Minimum number of quads.
        replicate_ns: Time of a replicate.
        warm_ns: Time of the calls before any timing.
        most_batch_bytes: Maximum size of the inputs of a batch.
        most_input_ns: Maximum time to make them.
        slow_call_ns: Time of a call from which one call warms an arm: no cache or clock changes it much.
        limit_s: Time limit of a comparison.
        quick_limit_s: The same with `--effort quick`.
        thorough_limit_s: The same with `--effort thorough`.
    """

    batch_ns: int
    lead_in_ns: int
    longest_lead_in_ns: int
    most_quads: int
    fewest_quads: int
    replicate_ns: int
    warm_ns: int
    most_batch_bytes: int
    most_input_ns: int
    limit_s: float
    quick_limit_s: float
    thorough_limit_s: float
    slow_call_ns: int = sys.maxsize


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideConfirmation:
    """Required confirmation of a speedup by clocks outside of the process.

    Attributes:
        least_saved_outside: Minimum share of the saving by the lab's clock.
        least_saved_processor: Minimum share of the saving by the kernel's processor time.
        most_idle_share: Maximum processor share of an idle candidate beyond that of the baseline.
        most_waiting: Ratio of wall time to processor time above which the baseline waits.
        most_late_share: Maximum share of the saving that is spent when results are looked at.
        least_saved_alone: Minimum share of the saving that a call on its own must be able to have.
        most_other_threads: Maximum share of the baseline's processor time that other threads use, with one thread.
    """

    least_saved_outside: float
    least_saved_processor: float
    most_idle_share: float
    most_waiting: float
    most_late_share: float = 1.0
    least_saved_alone: float = 0.0
    most_other_threads: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRules:
    """Acceptance rules of a comparison.

    Attributes:
        version: Version of the rules.
        threshold: Required speedup by measured quantity.
        looks: Interim analyses.
        timing: Lengths of batches and replicates.
        witnesses: Required confirmation by other clocks.
    """

    version: int
    threshold: dict[str, float]
    looks: InterimLooks
    timing: TimingRules
    witnesses: OutsideConfirmation


@cache
def acceptance() -> AcceptanceRules:
    """Return the acceptance rules; reports contain a copy, from which a verdict is recomputed."""
    return parsed(AcceptanceRules, tomllib.loads(_FILE.read_text(encoding="utf-8")))
