"""Result of the job `explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..results import MissingPart
from ..target.source_place import PlacedReport, SourcePlace, TracedFailure

CompileStatus: TypeAlias = Literal["clean", "breaks", "breaks-by-default", "fails-fullgraph", "skipped", "fails"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBreak(TracedFailure):
    """Graph break.

    Attributes:
        effect: `splits`, `ends` or `skips`.
        path: Frames of the project that lead to it.
        count: Number in the first call that shows it.
        first_call: That call, from 1.
        calls: All calls that show it.
        under_autograd: Whether only tracing autograd shows it.
        skips: Function that is skipped for it.
    """

    effect: str
    path: tuple[SourcePlace, ...]
    count: int
    first_call: int
    calls: tuple[int, ...]
    under_autograd: bool
    skips: SourcePlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompilation(PlacedReport):
    """Recompilation of a function.

    Attributes:
        function: The function.
        guard: Guard that failed.
        count: Number of recompilations.
        calls: Calls that show it.
        is_exact: Whether the place is the line that needs the guard.
        cause: Kind of the guard.
        is_routine: Whether dynamo needs it to learn that a size is dynamic.
        change: Remedy.
    """

    function: str
    guard: str
    count: int
    calls: tuple[int, ...]
    is_exact: bool
    cause: str | None = None
    is_routine: bool | None = None
    change: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompileLimit(PlacedReport):
    """Function that dynamo no longer compiles, with the setting and its limit."""

    function: str
    setting: str
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOutcome(TracedFailure):
    """Outcome of compiling in one way, with its failure.

    Attributes:
        outcome: `passes`, `breaks` or `fails`; None for a failure that ended the calls.
        call: Call that fails, from 1.
        what: Description of that call.
        type: Class of the exception.
        message: Its message.
        graphs: Number of graphs.
        op_count: Number of their operations.
        backward_graphs: Number of graphs of backward.
        backward_op_count: Number of their operations.
    """

    outcome: str | None = None
    call: int | None = None
    what: str | None = None
    type: str | None = None
    message: str | None = None
    graphs: int | None = None
    op_count: int | None = None
    backward_graphs: int | None = None
    backward_op_count: int | None = None

    @property
    def reason(self) -> str:
        """The exception, with torch's explanation if there is one."""
        return f"{self.type}: {self.explanation or self.message}"


@dataclass(frozen=True, slots=True)
class CompileCost:
    """Wall and processor time of the diagnosis."""

    wall_ns: int
    cpu_ns: int


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Number of graphs, breaks and recompilations of a call."""

    what: str
    graphs: int
    graphs_run: int
    breaks: int
    recompiles: int


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """Graph of a call: its operations by name, and the lines of the first and the last one."""

    op_count: int
    ops: dict[str, int]
    first: str | None = None
    last: str | None = None


@dataclass(frozen=True, slots=True)
class ExplainCounts:
    """Counts of `torch._dynamo.explain`."""

    graph_count: int
    graph_break_count: int
    op_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRun:
    """Measured part of a result.

    Attributes:
        status: The first status that applies; None if torch.compile does not work.
        missing: Parts that were not measured.
        explain: Counts of `torch._dynamo.explain`.
        calls: Counts of each call.
        settles: For `values` and `sizes`, whether the last such call compiled nothing new.
        breaks: Graph breaks.
        recompiles: Recompilations.
        limits: Functions that dynamo no longer compiles.
        graphs: Graphs of the first call.
        graphs_left_out: Number of further graphs.
        fullgraph: Outcome with `fullgraph=True`.
        autograd: Outcome with autograd traced ahead of time.
        failure: Failure that ended the calls.
        compiled_by_user: Arguments of the user's own `torch.compile`.
        cost: Time of the diagnosis.
    """

    status: CompileStatus | None = None
    missing: tuple[MissingPart, ...] | None = None
    explain: ExplainCounts | None = None
    calls: tuple[CallCounts, ...] | None = None
    settles: dict[str, bool] | None = None
    breaks: tuple[GraphBreak, ...] | None = None
    recompiles: tuple[Recompilation, ...] | None = None
    limits: tuple[RecompileLimit, ...] | None = None
    graphs: tuple[CompiledGraph, ...] | None = None
    graphs_left_out: int | None = None
    fullgraph: CompileOutcome | None = None
    autograd: CompileOutcome | None = None
    failure: CompileOutcome | None = None
    compiled_by_user: dict[str, bool] | None = None
    cost: CompileCost | None = None
