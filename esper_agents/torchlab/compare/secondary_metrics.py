"""Secondary metrics of two arms: peak memory, operations, graph breaks. They decide nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.errors import EvidenceError, UsageError

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.compare.measure import Arm
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import Tell


def secondary_metrics(lab: Lab, arms: tuple[Arm, Arm], *, train: bool, tell: Tell) -> JsonObject:
    """Return the memory use and graph counts of each arm, as far as they can be measured.

    Args:
        lab: The lab.
        arms: Baseline and candidate.
        train: Also run backward.
        tell: Progress callback.
    """
    found = {}
    for name, arm in zip(("baseline", "candidate"), arms, strict=True):
        tell(f"memory and graphs of the {name}", 0.99)
        found[name] = {**_asked(lab, arm, "memory", train, _memory), **_asked(lab, arm, "explain", train, _graphs)}
    return found


def _asked(lab: Lab, arm: Arm, job: str, train: bool, read: Any) -> dict[str, Any]:  # noqa: FBT001 - passed through
    try:
        lab.warm(job)
        with lab.worker(root=arm.root, device=arm.target.device) as worker:
            worker.load(arm.target)
            given: dict[str, Any] = read(worker.ask(job, {"train": train, "steps": 0}).result)
    except (EvidenceError, UsageError):
        # The verdict does not need it, and a missing value is shown as not measured.
        return {}
    return given


def _memory(result: JsonObject) -> dict[str, Any]:
    return {"peak_bytes": result["peak"]["peak_bytes"]} if "peak_bytes" in result.get("peak", {}) else {}


def _graphs(result: JsonObject) -> dict[str, Any]:
    if "status" not in result:
        return {}
    operations = sum(int(each["op_count"]) for each in result.get("graphs", ()))
    return {"torch_compile": result["status"], "graph_breaks": len(result["breaks"]), "operations": operations}
