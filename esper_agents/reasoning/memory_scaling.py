"""Growth of the peak of memory with the batch, from runs with three batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.request import Quantity
from esper_agents.reasoning.completed_call import completed_call
from esper_agents.reasoning.target_choice import stated_arguments

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from esper_agents.domain.agent_action import Move, ToolReport
    from esper_agents.domain.frame import Brief
    from esper_agents.reasoning.target_choice import ChosenTarget

_SCAFFOLD, _MEMORY = "torch-scaffold", "torch-memory"
_TOPIC = "memory"
_BATCHES = (64, 128, 256)
_POWERS = {1: "in proportion to the batch", 2: "with the square of the batch", 3: "with the cube of the batch"}
# A measured exponent that is farther from a whole number says nothing.
_NEAR = 0.25
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


@dataclass(frozen=True, slots=True)
class MemoryScaling:
    """Peaks of memory by batch.

    Attributes:
        peaks: Bytes by batch size, the batch doubling each time.
        place: Line of the peak at the largest batch; empty if unknown.
    """

    peaks: tuple[tuple[int, int], ...]
    place: str

    @property
    def power(self) -> int:
        """Power of the batch with which the peak grows; 0 if the runs do not tell."""
        (_, first), (_, second), (_, third) = self.peaks
        # What does not depend on the batch, such as the parameters, is in all three.
        if not first < second < third:
            return 0
        exponent = math.log2((third - second) / (second - first))
        return round(exponent) if abs(exponent - round(exponent)) <= _NEAR and round(exponent) in _POWERS else 0

    def at(self, batch: int) -> float:
        """Return the estimated peak for a batch, in bytes."""
        (_, _), (middle, second), (largest, third) = self.peaks
        each = (third - second) / (largest**self.power - middle**self.power)
        return float(third + each * (batch**self.power - largest**self.power))

    def in_words(self, name: str, batch: int) -> str:
        """Return the growth in words, with the estimate for a batch; empty if the runs do not tell.

        Args:
            name: Name of the code that was run.
            batch: Batch that the estimate is for; 0 for none.
        """
        if not self.power:
            return ""
        peaks = ", ".join(_bytes(peak) for _, peak in self.peaks)
        sizes = ", ".join(str(size) for size, _ in self.peaks)
        where = f", reached at {self.place}" if self.place else ""
        text = f"The peak of `{name}` grows {_POWERS[self.power]}: {peaks} for batches of {sizes}{where}."
        largest = self.peaks[-1][0]
        return f"{text} Estimate for a batch of {batch:,}: {_bytes(self.at(batch))}." if batch > largest else text


def memory_scaling(brief: Brief, target: ChosenTarget) -> Generator[Move, Any, MemoryScaling | None]:
    """Run a target that the program made inputs for with three batches; None if that is not asked or not possible.

    Args:
        brief: Brief of the frame.
        target: The target.
    """
    request = brief.request
    is_asked = request is not None and any(topic.name == _TOPIC for topic in request.topics)
    offered = {tool.name for tool in brief.tools}
    if not (is_asked and target.definition and {_SCAFFOLD, _MEMORY} <= offered):
        return None
    peaks: list[tuple[int, int]] = []
    place = ""
    stated = {name: text for name, text in stated_arguments(brief, target.definition).items() if name != "shape"}
    for batch in _BATCHES:
        made = yield from completed_call(ToolCall(_SCAFFOLD, {"target": target.definition, "batch": batch, **stated}))
        runnable = str(made.evidence.output.get("runnable", "")) if made else ""
        if made is None or not runnable or not _has_batch(made, batch):
            return None
        ran = yield from completed_call(ToolCall(_MEMORY, {"target": runnable, "steps": 0}))
        peak = ran.evidence.output.get("peak_bytes") if ran else None
        if ran is None or not isinstance(peak, int) or not peak:
            return None
        peaks.append((batch, peak))
        place = next((str(finding.claim.location) for finding in ran.findings), "")
    return MemoryScaling(tuple(peaks), place)


def _has_batch(made: ToolReport, batch: int) -> bool:
    """Return whether an argument of a harness has a batch as its first size."""
    arguments: Sequence[Any] = made.evidence.output.get("result", {}).get("call", ())
    texts = [str(each.get("text", "")) for each in arguments if isinstance(each, dict)]
    return any(f"({batch}," in text for text in texts)


def stated_batch(brief: Brief) -> int:
    """Return the batch size that a request names; 0 if it names none."""
    seen = brief.request.observed(Quantity.BATCH_SIZE) if brief.request else None
    return int(seen.value or 0) if seen else 0


def _bytes(count: float) -> str:
    unit, size = next((each for each in _UNITS if count >= each[1]), ("B", 1))
    return f"{count / size:.3g} {unit}"
