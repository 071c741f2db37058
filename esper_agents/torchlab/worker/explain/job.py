"""Job: record Dynamo's graph breaks and recompilations of a target, with their reasons.

Inductor is not used: several calls under the defaults with a backend that counts and traces autograd ahead of
time, and one call with `fullgraph=True`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from ..results import MissingPart
from .break_reports import breaks_told, limits_told, recompiles_told
from .compile_runs import Study, message
from .dynamo_listener import warm
from .result import CompileCost, ExplainCounts, ExplainRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget
    from .result import CompileStatus

__all__ = ["run", "warm"]

_MOST_GRAPHS = 100


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> ExplainRun:
    """Diagnose `torch.compile` on a target.

    Args:
        target: The target.
        request: `train` (bool): also run backward. `seed` (int): seed of the first inputs.
        tell: Called before each run.

    Raises:
        Exception: Any exception of the target on its first inputs without compilation.
    """
    try:
        torch.compile(lambda: None, backend="eager")
    except (ImportError, RuntimeError) as error:
        return ExplainRun(missing=(MissingPart("torch.compile", message(error)),))
    study = Study(target, train=bool(request.get("train")), seed=int(request.get("seed", 0)))
    begun_ns, begun_cpu_ns = time.monotonic_ns(), time.process_time_ns()
    tell("compiling over several calls", 0.0)
    study.several_calls()
    if study.failure is None:
        tell("compiling as one graph", 0.7)
        study.whole()
    cost = CompileCost(time.monotonic_ns() - begun_ns, time.process_time_ns() - begun_cpu_ns)
    first = study.calls[0].graphs
    breaks = [
        *breaks_told(target, study.heard.breaks, [call.breaks for call in study.calls]),
        *breaks_told(target, study.under_autograd, []),
    ]
    return ExplainRun(
        status=_status(study),
        missing=tuple(study.missing),
        explain=ExplainCounts(len(first), len(first) - 1, sum(each.functions for each in first)),
        calls=tuple(call.described() for call in study.calls),
        settles=study.settles,
        breaks=tuple(breaks),
        recompiles=tuple(recompiles_told(target, study.heard, [call.recompiles for call in study.calls])),
        limits=limits_told(target, study.heard),
        graphs=tuple(each.described(target) for each in first[:_MOST_GRAPHS]),
        graphs_left_out=len(first) - _MOST_GRAPHS if len(first) > _MOST_GRAPHS else None,
        fullgraph=study.fullgraph,
        autograd=study.autograd,
        failure=study.failure,
        compiled_by_user=study.by_user or None,
        cost=cost,
    )


def _status(study: Study) -> CompileStatus:
    """Return the first status that applies to the target.

    `explain` alone would not report a break at the end of a function: it counts graphs, and none follows that break.
    """
    if study.failure is not None or (study.autograd is not None and study.autograd.outcome == "fails"):
        return "fails"
    if not any(call.graphs for call in study.calls):
        return "skipped"
    has_breaks = bool(study.heard.breaks or study.under_autograd)
    if study.fullgraph is not None and study.fullgraph.outcome == "passes":
        return "breaks-by-default" if has_breaks else "clean"
    is_late = bool(study.heard.breaks) and not study.calls[0].breaks
    return "breaks" if len(study.calls[0].graphs) > 1 or is_late else "fails-fullgraph"
