"""Find the first operation of a run that produces NaN or Inf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.tools import measurement_comparison
from esper_agents.tools.measurement_tools import claim, command, measure, outlined, spec
from esper_agents.tools.tool import ToolContext, ToolResult, tool
from esper_agents.torchlab import measurement_codes

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.finding import Diagnostic

_STEPS = 20
_WATCH = "a check of every operation"


def _rerun(arguments: JsonObject) -> str:
    return command(
        "nan",
        str(arguments["target"]),
        input=arguments.get("inputs"),
        inputs=arguments.get("inputs_from"),
        steps=arguments.get("steps", _STEPS),
        train=bool(arguments.get("train")),
    )


@tool("torch-nan", risk=Risk.LOW, repeatable=True, rerun=_rerun, comparing=measurement_comparison.measured)
async def torch_nan(
    context: ToolContext,
    target: str,
    inputs: list[str] | None = None,
    inputs_from: str = "",
    steps: int = _STEPS,
    *,
    train: bool = False,
) -> ToolResult:
    """Run steps in the sandbox until a NaN or Inf reaches a result, and report the operation and line that produced it.

    Args:
        context: The project.
        target: `FILE.py:NAME` or `package.module:Class.method`.
        inputs: Inputs such as `randn(32,128)`; if omitted, those that the target's file makes itself.
        inputs_from: `FILE:FUNCTION` that makes the inputs.
        steps: Maximum number of steps, each on new inputs.
        train: Also run backward.
    """
    from esper_agents.torchlab.nan import nan

    wanted = spec(target, inputs, inputs_from)
    made = await measure(context, [target, inputs_from], lambda lab: nan(lab, wanted, steps=steps, train=train))
    result = made.report.result
    witnesses = [_WATCH, *(f"its effect on the {each['what']}" for each in result.get("reached", ())[:1])]
    output = outlined(made.report, status=result["status"], witnesses=witnesses)
    found = _claim(context, result)
    claims = () if found is None else (found,)
    return ToolResult(f"{target}: {result['headline']}", output, claims, made.examined, made.artifacts)


def _claim(context: ToolContext, result: JsonObject) -> Diagnostic | None:
    from esper_agents.torchlab.nan import module_name

    first = result.get("first")
    if first is None:
        return None
    cause = result["cause"]
    word = "NaN" if first["holds"] == "nan" else "Inf"
    where = f" in {module_name(first)}" if first.get("module") else ""
    return claim(
        context,
        measurement_codes.NON_FINITE,
        first,
        f"the first {word} comes from {first['operation']}{where} ({first['phase']}, step {first['step']}): "
        f"{cause['because']}",
        remedy=result["change"],
        witnesses=[_WATCH],
    )
