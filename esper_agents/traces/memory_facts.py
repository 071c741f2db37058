"""Facts about the numbers of an out-of-memory message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.traces.facts import TraceFact, fact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from esper_agents.traces.facts import FactContext

_UNITS = {"B": 1 / 2**20, "KiB": 1 / 2**10, "MiB": 1.0, "GiB": 2.0**10, "TiB": 2.0**20, "KB": 1 / 1e3, "MB": 1.0}


@fact
def memory_fragmented(context: FactContext) -> TraceFact | None:
    """Hold if the memory that PyTorch reserved and does not use would be enough for the request."""
    numbers = _memory(context.groups)
    if numbers.get("unused", 0.0) < max(numbers.get("tried", float("inf")), 512.0):
        return None
    return TraceFact({})


@fact
def memory_of_others(context: FactContext) -> TraceFact | None:
    """Hold if other processes use more than a fifth of the device."""
    numbers = _memory(context.groups)
    if not {"total", "free", "process"} <= numbers.keys():
        return None
    others = numbers["total"] - numbers["free"] - numbers["process"]
    if others < numbers["total"] / 5:
        return None
    return TraceFact({"others": _size(others), "share": f"{others / numbers['total']:.0%}"})


@fact
def request_beyond_device(context: FactContext) -> TraceFact | None:
    """Hold if the single request is larger than half of the device."""
    numbers = _memory(context.groups)
    if numbers.get("tried", 0.0) < numbers.get("total", float("inf")) / 2:
        return None
    return TraceFact({"share": f"{numbers['tried'] / numbers['total']:.0%}"})


def _memory(groups: Mapping[str, str]) -> dict[str, float]:
    """Return the sizes of an out-of-memory message in MiB, by name."""
    sizes = {}
    for name, text in groups.items():
        number, _, unit = text.partition(" ")
        if unit in _UNITS and re.fullmatch(r"[\d.]+", number):
            sizes[name] = float(number) * _UNITS[unit]
    if "unused" not in sizes and {"reserved", "allocated"} <= sizes.keys():
        sizes["unused"] = sizes["reserved"] - sizes["allocated"]
    return sizes


def _size(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"  # noqa: PLR2004 - MiB in a GiB
