"""Run a target through the steps of a plan and record its observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..process.out_of_memory import ran_out
from ..results import described
from ..target import module_state
from . import background_work as aftermath
from . import process_fingerprint as fingerprint
from .call_modes import COPY
from .call_surroundings import settle
from .observations import planned_steps
from .patched_functions import is_by_user, replaced_of_ours
from .plan_step import ObservedProcess
from .step_runner import Stage
from .tensor_bundle import read_and_close

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget
    from .plan_step import ObservedEnd, PlannedStep


def observe(
    target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Run a target through a plan.

    Args:
        target: The baseline or the candidate.
        request: `files`: the descriptor of the plan, which is closed; `scratch`: the scratch folder;
            `precision`: `float64` for a reference run; `jitter`: the seed of a run with rounding noise; `distinct`: of
            steps with the same inputs and state run only the first, if the target keeps no state between calls;
            `needs_memory`: end if the first step runs out of memory.
        tell: Called before each step with its name, so that a hang can be located.

    Returns:
        A summary, and the descriptor of the observation's bundle.
    """
    settle()
    plan = read_and_close(request["files"])
    stage = Stage(target, plan, is_wide=request.get("precision") == "float64", jitter_seed=request.get("jitter"))
    steps = list(enumerate(planned_steps(plan)))
    if request.get("distinct") and plan.about["is_stateless"]:
        steps = [(number, each) for number, each in steps if each.is_distinct]
    seen: dict[str, Any] = {}
    for count, (number, step) in enumerate(steps):
        tell(step.name, count / len(steps))
        if _is_possible(step, stage.matching):
            ran = stage.run(number, step)
            if request.get("needs_memory") and not seen and ran.raised is not None and ran_out(ran.raised.message):
                # Every further step would fill the memory again.
                raise MemoryError(ran.raised.message)
            seen[str(number)] = described(ran)
    process = observed_process(target, stage.finish(), request["scratch"])
    parameters = stage.matching.described() if stage.matching is not None else None
    about = {"steps": seen, "parameters": parameters, **described(process)}
    return {"steps": len(seen), "parameters": parameters}, (stage.bundle(about),)


def own_path(target: LoadedTarget) -> str:
    """Return the path of the target's file: two targets of one file run each other's module code."""
    return f"{target.root}/{target.file}" if target.file is not None else ""


def observed_process(target: LoadedTarget, end: ObservedEnd, scratch: str) -> ObservedProcess:
    """Return what code of a target may have changed in this process for later code."""
    state = fingerprint.global_state()
    ours = replaced_of_ours()
    return ObservedProcess(
        end,
        own_path(target),
        {**state["flags"], **aftermath.surroundings(scratch)},
        {**state["replaced"], **ours},
        [*ours, *(name for name in state["replaced"] if is_by_user(target, name))],
        _code_of(target.call),
    )


def _code_of(call: Any) -> str:
    """Return which code a call runs; empty if that is not Python."""
    call = type(call).forward if isinstance(call, torch.nn.Module) else call
    code = getattr(getattr(call, "__func__", call), "__code__", None)
    if code is None:
        return ""
    return f"{getattr(code, 'co_qualname', code.co_name)} at line {code.co_firstlineno}"


def _is_possible(step: PlannedStep, matching: module_state.Matching | None) -> bool:
    """Return whether a step can run: changing parameters requires that all of them have a counterpart."""
    changes = step.group == "parameters" or step.mode == COPY
    return not changes or (matching is not None and not matching.unmatched)
