"""Tools that run code of the project in a sandbox and measure it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from mcp_types import CallToolResult
from pydantic import Field

from esper_agents.errors import UsageError
from esper_agents.mcp_server.calls import RUNS, CallActivity, ToolCallContext, answered, project_of, working
from esper_agents.mcp_server.reports import comparison_answer, measurement_answer
from esper_agents.mcp_server.results import ComparisonAnswer, MeasurementAnswer

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from esper_agents.api import MeasurementInputs, StoredReport
    from esper_agents.mcp_server.server_project import ServerProject

Target = Annotated[str, Field(description="`FILE.py:NAME` relative to the project, or `package.module:NAME`")]
Inputs = Annotated[
    list[str],
    Field(
        description="Arguments of the call, in order or as NAME=VALUE: `randn(32,128)`, `randint(0,10,(8,))`, `512`,"
        " `eps=1e-6`; not needed for a harness"
    ),
]
InputsFrom = Annotated[str, Field(description="`FILE.py:FUNCTION` that returns the arguments, instead of `inputs`")]
Train = Annotated[bool, Field(description="Include the backward pass")]
Device = Annotated[str, Field(description="Device of modules and inputs")]


def _given(project: ServerProject, inputs: list[str], inputs_from: str, device: str) -> MeasurementInputs:
    from esper_agents.api import MeasurementInputs

    named = project.target(inputs_from) if inputs_from else ""
    return MeasurementInputs(inputs=tuple(inputs), inputs_from=named, device=device)


async def _measured(context: ToolCallContext, text: str, work: Coroutine[Any, Any, StoredReport]) -> CallToolResult:
    stored = await working(context, CallActivity(text), work)
    return answered(measurement_answer(stored))


async def compare(
    context: ToolCallContext,
    baseline: Annotated[str, Field(description="Target A, the existing code")],
    candidate: Annotated[str, Field(description="Target B, the new code; A itself if empty, with `base`")] = "",
    inputs: Inputs = [],
    inputs_from: InputsFrom = "",
    base: Annotated[str, Field(description="Git revision from which A is taken; empty for the work tree")] = "",
    claim: Annotated[float | None, Field(description="Claimed speedup, such as 1.3", ge=1.0, le=1e6)] = None,
    mode: Annotated[
        Literal["latency", "throughput", "training-step"], Field(description="Measured quantity")
    ] = "latency",
    effort: Annotated[Literal["quick", "normal"], Field(description="Measurement time")] = "normal",
    device: Device = "cpu",
) -> Annotated[CallToolResult, ComparisonAnswer]:
    """Compare two implementations: first whether the results are equal, then how much faster B is.

    Runs both in pairs of fresh sandboxed processes, and takes half a minute to several. Call it before stating
    that code is faster. For a certificate of a speedup use `submit_claim`.
    """
    from esper_agents.api import ComparisonMode, ComparisonRequest, Effort

    if base.startswith("-"):
        raise UsageError(f"{base[:80]!r} is not a revision", remedy="name a branch, a tag or a commit")
    project = project_of(context)
    a, b = project.target(baseline), project.target(candidate) if candidate else ""
    if not base and b in {"", a}:
        raise UsageError("the candidate is missing", remedy="name a candidate, or a revision in `base`")
    request = ComparisonRequest(
        mode=ComparisonMode(mode), claim=claim, effort=Effort(effort), has_extras=effort != "quick"
    )
    opened = await project.opened()
    work = opened.measure.compare(a, b, _given(project, inputs, inputs_from, device), base=base, request=request)
    stored = await working(context, CallActivity(f"comparing {b or a} with {a}"), work)
    return answered(comparison_answer(stored))


async def profile(
    context: ToolCallContext,
    target: Target,
    inputs: Inputs = [],
    inputs_from: InputsFrom = "",
    train: Train = False,
    effort: Annotated[Literal["quick", "normal"], Field(description="Measurement time")] = "quick",
    device: Device = "cpu",
) -> Annotated[CallToolResult, MeasurementAnswer]:
    """Profile a function, module or training step, and name its bottleneck with the lines that cause it."""
    from esper_agents.api import Effort

    project = project_of(context)
    chosen = _given(project, inputs, inputs_from, device)
    service = (await project.opened()).measure
    work = service.profile(project.target(target), chosen, train=train, effort=Effort(effort))
    return await _measured(context, f"profiling {target}", work)


async def explain_compile(
    context: ToolCallContext,
    target: Target,
    inputs: Inputs = [],
    inputs_from: InputsFrom = "",
    train: Train = False,
    device: Device = "cpu",
) -> Annotated[CallToolResult, MeasurementAnswer]:
    """Explain the graph breaks and recompilations of `torch.compile`, with lines and fixes."""
    project = project_of(context)
    chosen = _given(project, inputs, inputs_from, device)
    service = (await project.opened()).measure
    return await _measured(context, f"compiling {target}", service.explain(project.target(target), chosen, train=train))


async def find_memory_growth(
    context: ToolCallContext,
    target: Target,
    inputs: Inputs = [],
    inputs_from: InputsFrom = "",
    steps: Annotated[int, Field(description="Steps of the leak search", ge=6, le=1000)] = 8,
    train: Train = False,
    device: Device = "cpu",
) -> Annotated[CallToolResult, MeasurementAnswer]:
    """Measure the memory of a target over several steps: what the peak consists of, and what grows."""
    project = project_of(context)
    chosen = _given(project, inputs, inputs_from, device)
    service = (await project.opened()).measure
    work = service.memory(project.target(target), chosen, train=train, steps=steps)
    return await _measured(context, f"measuring the memory of {target}", work)


async def find_nan(
    context: ToolCallContext,
    target: Target,
    inputs: Inputs = [],
    inputs_from: InputsFrom = "",
    steps: Annotated[int, Field(description="Maximum number of calls", ge=1, le=10_000)] = 10,
    train: Train = False,
    device: Device = "cpu",
) -> Annotated[CallToolResult, MeasurementAnswer]:
    """Find the first operation that produces NaN or Inf, with its line and its inputs."""
    project = project_of(context)
    chosen = _given(project, inputs, inputs_from, device)
    service = (await project.opened()).measure
    work = service.nan(project.target(target), chosen, train=train, steps=steps)
    return await _measured(context, f"searching NaN in {target}", work)


async def scaffold_harness(context: ToolCallContext, target: Target) -> Annotated[CallToolResult, MeasurementAnswer]:
    """Find arguments with which a function or class runs, and write them to `.esper/harness` as a harness.

    Call it if the inputs of a target are not known; other tools then take the harness as their target.
    """
    project = project_of(context)
    work = (await project.opened()).measure.scaffold(project.target(target))
    return await _measured(context, f"finding arguments of {target}", work)


# Tools of this module, with what they may do.
TOOLS = (
    (compare, RUNS),
    (profile, RUNS),
    (explain_compile, RUNS),
    (find_memory_growth, RUNS),
    (find_nan, RUNS),
    (scaffold_harness, RUNS),
)
