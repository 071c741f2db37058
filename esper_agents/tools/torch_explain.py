"""Diagnose torch.compile on a target: graph breaks, recompilations, skipped frames, failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.tools import measurement_comparison
from esper_agents.tools.measurement_tools import claim, command, measure, outlined, spec
from esper_agents.tools.tool import ToolContext, ToolResult, tool
from esper_agents.torchlab import measurement_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.finding import Diagnostic

_LOG, _COUNTER, _FULLGRAPH = "dynamo's own log", "a backend that counts graphs", "a run with fullgraph=True"


def _rerun(arguments: JsonObject) -> str:
    return command(
        "explain",
        str(arguments["target"]),
        input=arguments.get("inputs"),
        inputs=arguments.get("inputs_from"),
        train=bool(arguments.get("train")),
    )


@tool("torch-explain", risk=Risk.LOW, repeatable=True, rerun=_rerun, comparing=measurement_comparison.measured)
async def torch_explain(
    context: ToolContext, target: str, inputs: list[str] | None = None, inputs_from: str = "", *, train: bool = False
) -> ToolResult:
    """Compile a target in the sandbox, without inductor, and report graph breaks and recompilations with their causes.

    Args:
        context: The project.
        target: `FILE.py:NAME` or `package.module:Class.method`.
        inputs: Inputs such as `randn(32,128)`; if omitted, those that the target's file makes itself.
        inputs_from: `FILE:FUNCTION` that makes the inputs.
        train: Also run backward.
    """
    from esper_agents.torchlab.explain import explain

    wanted = spec(target, inputs, inputs_from)
    made = await measure(context, [target, inputs_from], lambda lab: explain(lab, wanted, train=train))
    result = made.report.result
    output = outlined(made.report, status=result.get("status", "unknown"), witnesses=[_LOG, _COUNTER, _FULLGRAPH])
    summary = f"{target}: {result['headline']}"
    return ToolResult(summary, output, tuple(_claims(context, made.report.body)), made.examined, made.artifacts)


def _claims(context: ToolContext, body: JsonObject) -> Iterator[Diagnostic]:
    result: JsonObject = body["result"]
    drafts = (
        *(_broken(context, result, each) for each in result.get("breaks", ())),
        *(_recompiled(context, each) for each in result.get("recompiles", ()) if not each["is_routine"]),
        *(_gave_up(context, each) for each in result.get("limits", ())),
        *(_failed(context, result[each]) for each in ("failure", "autograd") if "kind" in result.get(each, {})),
        _skipped(context, body) if result.get("status") == "skipped" and not result.get("breaks") else None,
    )
    yield from (each for each in drafts if each is not None)


def _broken(context: ToolContext, result: JsonObject, told: JsonObject) -> Diagnostic | None:
    witnesses = [_LOG]
    call = result["calls"][told["first_call"] - 1] if told["first_call"] <= len(result["calls"]) else {}
    if call.get("graphs_run", 1) != 1:
        witnesses.append(_COUNTER)
    whole = result.get("fullgraph", {})
    passes_whole = whole.get("outcome") == "passes"
    at = told.get("place", {})
    if whole.get("place", {}).get("line") == at.get("line") and whole.get("place", {}).get("file") == at.get("file"):
        witnesses.append(_FULLGRAPH)
    page = f" ({told['page']})" if told.get("page") else ""
    by_default = "by default, and not with fullgraph=True, " if passes_whole else ""
    return claim(
        context,
        measurement_codes.GRAPH_BROKEN,
        at,
        f"torch.compile breaks the graph here {by_default}in call {told['first_call']}: {told['kind']}{page}",
        remedy=told["change"],
        witnesses=witnesses,
        possible=2 if passes_whole else 3,
    )


def _recompiled(context: ToolContext, told: JsonObject) -> Diagnostic | None:
    times = "once" if told["count"] == 1 else f"{told['count']} times"
    return claim(
        context,
        measurement_codes.RECOMPILED,
        told.get("place", {}),
        f"{told['function']} was compiled again {times}, because this guard failed: {told['guard']}",
        remedy=told["change"],
        witnesses=[_LOG, _COUNTER],
        possible=2,
    )


def _gave_up(context: ToolContext, told: JsonObject) -> Diagnostic | None:
    return claim(
        context,
        measurement_codes.GAVE_UP,
        told.get("place", {}),
        f"dynamo stops compiling {told['function']} after {told['limit']} versions ({told['setting']})",
        remedy="remove the cause of the recompilations; raising the limit only buys time",
        witnesses=[_LOG],
    )


def _failed(context: ToolContext, told: JsonObject) -> Diagnostic | None:
    return claim(
        context,
        measurement_codes.COMPILE_FAILED,
        told.get("place", {}),
        f"compiling raises {told.get('type', 'an error')}: {told.get('message', told['kind'])}",
        remedy=told.get("change", "move what cannot be traced out of the compiled function"),
        witnesses=["a run that raised"],
    )


def _skipped(context: ToolContext, body: JsonObject) -> Diagnostic | None:
    return claim(
        context,
        measurement_codes.NEVER_COMPILED,
        body["target"],
        "nothing is compiled: the target runs eagerly, as without torch.compile",
        remedy="find the reason with TORCH_LOGS=+dynamo; dynamo skips a frame without tensor operations",
        witnesses=[_COUNTER],
    )
