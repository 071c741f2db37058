"""Deprecated names from version 0.1.0: public types, and imports of recorded playbooks.

Both remain available for one release.
"""

from __future__ import annotations

import builtins
import sys
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Modules imported by the playbooks of 0.1.0: their current modules, and the names that differ there. A session stores
# the source of its recorded playbook, and `resume --definitions recorded` runs it.
_MOVED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "esper_agents.domain.move": ("esper_agents.domain.agent_action", {"Answer": "UserAnswer", "UseTools": "CallTools"}),
    "esper_agents.domain.reproduction": ("esper_agents.domain.reproduction", {"Again": "ReproductionOutcome"}),
    "esper_agents.reasoning.asked": (
        "esper_agents.requests.measurement_options",
        {"Asked": "MeasurementRequest", "read_request": "measurement_options"},
    ),
    "esper_agents.reasoning.confirming": (
        "esper_agents.reasoning.confirmation_runs",
        {"Confirmed": "ConfirmedFindings"},
    ),
    "esper_agents.reasoning.investigation": (
        "esper_agents.reasoning.investigation",
        {
            "Work": "InvestigationState",
            "hand_on": "build_handoff",
            "is_back": "has_returned",
            "on_the_whole": "overall_conclusion",
        },
    ),
    "esper_agents.reasoning.panel": ("esper_agents.reasoning.panel", {"hear": "run_panel"}),
    "esper_agents.reasoning.parts": ("esper_agents.reasoning.finding_ownership", {}),
    "esper_agents.reasoning.specialist": (
        "esper_agents.reasoning.static_specialist",
        {"Looked": "ReviewSummary", "Specialism": "SpecialistProfile"},
    ),
    "esper_agents.reasoning.targets": ("esper_agents.reasoning.target_choice", {"Target": "ChosenTarget"}),
}


def aliases(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module `__getattr__` that resolves earlier names with a DeprecationWarning.

    Args:
        module: The module's name.
        names: Earlier name to current name.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        message = f"{module}.{name} is now {module}.{names[name]}; the earlier name will be removed in the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], names[name])

    return get


def import_recorded(
    name: str,
    globals_: Mapping[str, object] | None = None,
    locals_: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """Import like `builtins.__import__`, with names of 0.1.0 resolved, for the source of a recorded playbook."""
    if name not in _MOVED or not fromlist:
        return builtins.__import__(name, globals_, locals_, fromlist or (), level)
    current, names = _MOVED[name]
    module = builtins.__import__(current, globals_, locals_, fromlist, level)
    return SimpleNamespace(**{each: getattr(module, names.get(each, each)) for each in fromlist})
