"""Secondary metrics of two arms: peak memory, operations, graph breaks. They decide nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab.compare.result import ArmMetrics, SecondaryMetrics
from esper_agents.torchlab.measurement import measurement

if TYPE_CHECKING:
    from esper_agents.torchlab.compare.measure import Arm
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import Tell
    from esper_agents.torchlab.worker.explain.result import ExplainRun
    from esper_agents.torchlab.worker.memory.result import MemoryRun


def secondary_metrics(
    lab: Lab, arms: tuple[Arm, Arm], *, train: bool, has_graphs: bool, tell: Tell
) -> SecondaryMetrics:
    """Return the memory use and graph counts of each arm, as far as they can be measured.

    Args:
        lab: The lab.
        arms: Baseline and candidate.
        train: Also run backward.
        has_graphs: Whether to count graph breaks and operations, which takes seconds.
        tell: Progress callback.
    """
    found = []
    for name, arm in zip(("baseline", "candidate"), arms, strict=True):
        tell(f"memory{' and graphs' if has_graphs else ''} of the {name}", 0.99)
        memory: MemoryRun | None = _asked(lab, arm, "memory", train=train)
        compiled: ExplainRun | None = _asked(lab, arm, "explain", train=train) if has_graphs else None
        found.append(_metrics(memory, compiled))
    return SecondaryMetrics(*found)


def _asked(lab: Lab, arm: Arm, kind: str, *, train: bool) -> Any:
    """Return the measured part of another measurement; None if it failed, because the verdict does not need it."""
    try:
        lab.warm(kind)
        with lab.worker(root=arm.root, device=arm.target.device) as worker:
            worker.load(arm.target)
            return worker.ask(kind, {"train": train, "steps": 0}).read(measurement(kind).measured)
    except (EvidenceError, UsageError):
        return None


def _metrics(memory: MemoryRun | None, compiled: ExplainRun | None) -> ArmMetrics:
    peak_bytes = memory.peak.peak_bytes if memory and memory.peak else None
    if compiled is None or compiled.status is None:
        return ArmMetrics(peak_bytes)
    operations = sum(graph.op_count for graph in compiled.graphs or ())
    return ArmMetrics(peak_bytes, compiled.status, len(compiled.breaks or ()), operations)
