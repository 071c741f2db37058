"""Job: judge the observations of two arms in a process without a target; see `equivalence`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .equivalence import judge
from .result import EquivalenceJudgement, TimedCallChecks
from .timed_equivalence import judge_processes, judge_timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget


def run(
    target: LoadedTarget | None, request: dict[str, Any], tell: Callable[[str, float], None]
) -> EquivalenceJudgement | TimedCallChecks:
    """Return the judgement of a comparison, or the checks of one timed call.

    Args:
        target: None.
        request: `phase`: `judge`, `timed` or `processes`, and the arguments of that function.
        tell: Not used.

    Raises:
        RuntimeError: The process has loaded user code.
    """
    del tell
    if target is not None:
        raise RuntimeError("a referee must not run where user code was loaded")
    if request["phase"] == "judge":
        return judge(request)
    return TimedCallChecks(judge_timed(request) if request["phase"] == "timed" else judge_processes(request))
