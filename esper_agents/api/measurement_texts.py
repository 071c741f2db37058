"""Words for parts of stored measurement results: modules, operations, phases."""

from __future__ import annotations

from esper_agents.torchlab.memory_issues import when
from esper_agents.torchlab.nan import module_name, place, short

__all__ = ["module_name", "place", "short", "when"]
