"""Run a target through the steps of a plan and record its observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..target import module_state as parameters
from . import background_work as aftermath
from . import process_fingerprint as fingerprint
from .patched_functions import is_by_user, replaced_of_ours
from .step_runner import Stage
from .tensor_bundle import Bundle

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget


def observe(
    target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Run a target through a plan.

    Args:
        target: The baseline or the candidate.
        request: `files`: the descriptor of the plan; `scratch`: the scratch folder; `precision`: `float64` for a
            reference run; `jitter`: the seed of a run with rounding noise; `distinct`: of steps with the same
            inputs and state run only the first, if the target keeps no state between calls.
        tell: Called before each step with its name, so that a hang can be located.

    Returns:
        A summary, and the descriptor of the observation's bundle.
    """
    plan = Bundle(request["files"][0])
    stage = Stage(target, plan, is_wide=request.get("precision") == "float64", jitter_seed=request.get("jitter"))
    steps = list(enumerate(plan.about["steps"]))
    if request.get("distinct") and plan.about["is_stateless"]:
        steps = [(number, each) for number, each in steps if each["is_distinct"]]
    seen = {}
    for count, (number, step) in enumerate(steps):
        tell(f"{step['name']}", count / len(steps))
        if _is_possible(step, stage.matching):
            seen[str(number)] = stage.run(number, step)
    about = {
        "steps": seen,
        "end": stage.finish(),
        "parameters": stage.matching.described() if stage.matching is not None else None,
        "file": own_path(target),
        **_global_state(target, request["scratch"]),
    }
    return {"steps": len(seen), "parameters": about["parameters"]}, (stage.bundle(about),)


def own_path(target: LoadedTarget) -> str:
    """Return the path of the target's file: two targets of one file run each other's module code."""
    return f"{target.root}/{target.file}" if target.file is not None else ""


def _global_state(target: LoadedTarget, scratch: str) -> dict[str, Any]:
    state = fingerprint.global_state()
    ours = replaced_of_ours()
    return {
        "after": {**state["flags"], **aftermath.surroundings(scratch)},
        "replaced": {**state["replaced"], **ours},
        "replaced_by_user": [*ours, *(name for name in state["replaced"] if is_by_user(target, name))],
    }


def _is_possible(step: dict[str, Any], matching: parameters.Matching | None) -> bool:
    """Return whether a step can run: changing parameters requires that all of them have a counterpart."""
    return step["group"] != "parameters" or (matching is not None and not matching.unmatched)
