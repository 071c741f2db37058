"""Profile a target: time by line and the limiting resource."""

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

_CLOCKS, _PROFILER = "clocks without a profiler", "torch.profiler"
_KEPT = ("analysis", "kind", "train", "device", "threads", "memory", "waits", "witnesses", "missing")
# A remedy for a smaller share gains too little.
_WORTH_A_CLAIM = 0.1


def _rerun(arguments: JsonObject) -> str:
    return command(
        "profile",
        str(arguments["target"]),
        input=arguments.get("inputs"),
        inputs=arguments.get("inputs_from"),
        train=bool(arguments.get("train")),
        quick=bool(arguments.get("quick")),
    )


@tool("torch-profile", risk=Risk.LOW, repeatable=True, rerun=_rerun, comparing=measurement_comparison.profile)
async def torch_profile(
    context: ToolContext,
    target: str,
    inputs: list[str] | None = None,
    inputs_from: str = "",
    *,
    train: bool = False,
    quick: bool = False,
) -> ToolResult:
    """Profile a target in the sandbox: its bottleneck, with share of time and line, checked by independent profilers.

    Args:
        context: The project.
        target: `FILE.py:NAME` or `package.module:Class.method`.
        inputs: Inputs such as `randn(32,128)`; if omitted, those that the target's file makes itself.
        inputs_from: `FILE:FUNCTION` that makes the inputs.
        train: Also run backward.
        quick: Measure for a shorter time, without external profilers.
    """
    from esper_agents.torchlab.profile import NORMAL_S, QUICK_S, profile

    wanted = spec(target, inputs, inputs_from)
    seconds = QUICK_S if quick else NORMAL_S
    made = await measure(
        context,
        [target, inputs_from],
        lambda lab: profile(lab, wanted, train=train, seconds=seconds, look=not quick),
    )
    result = made.report.result
    analysis: JsonObject = result["analysis"]
    output = outlined(
        made.report,
        witnesses=list(dict.fromkeys((_CLOCKS, _PROFILER, *_agreeing(analysis)))),
        only=_KEPT,
        status=analysis["bottleneck"],
        share=analysis["share"],
        is_clear=analysis["is_clear"],
        most_speedup=analysis["most_speedup"],
        is_compiled=result["profiled"]["is_compiled"],
    )
    return ToolResult(
        _summary(target, analysis), output, tuple(_claims(context, result)), made.examined, made.artifacts
    )


def _agreeing(analysis: JsonObject) -> list[str]:
    hot = analysis.get("hot") or {"witnesses": []}
    return [each["tool"] for each in hot["witnesses"] if each["agrees"]]


def _summary(target: str, analysis: JsonObject) -> str:
    call_us = analysis["call"]["ns"] / 1e3
    clear = "" if analysis["is_clear"] else f" (not clearly: {analysis['runner_up']} is near)"
    return f"{target}: {analysis['share']:.0%} of {call_us:.4g} us a call is {analysis['bottleneck']}{clear}"


def _claims(context: ToolContext, result: JsonObject) -> Iterator[Diagnostic]:
    analysis: JsonObject = result["analysis"]
    advice, hot = analysis["advice"][0], analysis.get("hot")
    is_hot = hot is not None and (hot["file"], hot["line"]) == (advice.get("file"), advice.get("line"))
    seen = [_CLOCKS, _PROFILER, *(_agreeing(analysis) if is_hot else ())]
    drafts = []
    if analysis["share"] >= _WORTH_A_CLAIM and advice.get("file"):
        message = f"the bottleneck is {analysis['bottleneck']}: {advice['problem']}"
        drafts.append((measurement_codes.BOTTLENECK, advice, message, advice["remedy"], seen))
    if hot is not None and not is_hot:
        message = f"{hot['total_share']:.0%} of a call is spent in {hot['name']}, {hot['own_share']:.0%} in itself"
        drafts.append((measurement_codes.BOTTLENECK, hot, message, advice["remedy"], _agreeing(analysis)))
    drafts += [
        (measurement_codes.HOST_WAITS, each, each["problem"], each["remedy"], ["a run that was watched"])
        for each in analysis["advice"]
        if each["about"] == "waits" and each.get("file")
    ]
    for rule, place, message, remedy, witnesses in drafts:
        made = claim(context, rule, place, message, remedy=remedy, witnesses=witnesses)
        if made is not None:
            yield made
