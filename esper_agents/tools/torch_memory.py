"""Measure the memory of a target: its composition, its growth over steps, and its retainers."""

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

_STEPS, _OPTIMIZER = 8, "adamw"
_EVENTS, _ESTIMATE = "torch.profiler's memory events", "an estimate without running"
_STORAGES, _NODES, _COLLECTOR = "a tracker of every storage", "the nodes of autograd graphs", "the garbage collector"
_SEE_SPLIT = "see the composition of the peak; its largest part is the possible saving"
# Maximum ratio by which an estimate may differ from the measured peak that it confirms.
_NEAR = 0.05


def _rerun(arguments: JsonObject) -> str:
    train = bool(arguments.get("train"))
    return command(
        "memory",
        str(arguments["target"]),
        input=arguments.get("inputs"),
        inputs=arguments.get("inputs_from"),
        train=train,
        optimizer=arguments.get("optimizer", _OPTIMIZER) if train else None,
        steps=arguments.get("steps", _STEPS),
    )


@tool("torch-memory", risk=Risk.LOW, repeatable=True, rerun=_rerun, comparing=measurement_comparison.memory)
async def torch_memory(
    context: ToolContext,
    target: str,
    inputs: list[str] | None = None,
    inputs_from: str = "",
    *,
    train: bool = False,
    optimizer: str = _OPTIMIZER,
    steps: int = _STEPS,
) -> ToolResult:
    """Measure a target's memory in the sandbox: composition, growth over steps, and the objects that retain it.

    Args:
        context: The project.
        target: `FILE.py:NAME` or `package.module:Class.method`.
        inputs: Inputs such as `randn(32,128)`; if omitted, those that the target's file makes itself.
        inputs_from: `FILE:FUNCTION` that makes the inputs.
        train: Also run backward and an optimizer; a training step does that itself.
        optimizer: `sgd`, `adam`, `adamw` or `none`, for a module that is trained.
        steps: Number of steps in which to look for growth, at least 6; 0 for none.
    """
    from esper_agents.torchlab.memory import memory

    wanted = spec(target, inputs, inputs_from)
    made = await measure(
        context,
        [target, inputs_from],
        lambda lab: memory(lab, wanted, train=train, optimizer=optimizer, steps=steps),
    )
    result = made.report.result
    leak: JsonObject = result.get("leak", {})
    output = outlined(
        made.report,
        status=result["issue"]["type"],
        because=result["issue"]["because"],
        witnesses=list(dict.fromkeys((*_of_peak(result), *_of_growth(leak)))),
        peak_bytes=(result.get("peak") or result.get("estimate") or {}).get("peak_bytes"),
        bytes_per_step=leak.get("bytes_per_step"),
    )
    claims = tuple(_claims(context, result))
    return ToolResult(f"{target}: {result['headline']}", output, claims, made.examined, made.artifacts)


def _of_peak(result: JsonObject) -> list[str]:
    if "peak" not in result:
        return [_ESTIMATE] if "estimate" in result else []
    is_near = "estimate_off" in result and abs(float(result["estimate_off"])) <= _NEAR
    return [_EVENTS, *([_ESTIMATE] if is_near else [])]


def _of_growth(leak: JsonObject) -> list[str]:
    """Return the independent observations of memory growth."""
    if not leak.get("is_growing"):
        return []
    first = max(int(leak["judged_from_step"]) - 1, 0)
    seen = [
        name
        for name, course in ((_STORAGES, leak["live_bytes"]), (_EVENTS, leak["profiler_bytes"]))
        if course[first:] and course[-1] > course[first]
    ]
    seen += [_NODES] if leak["graph_nodes_per_step"] > 0 else []
    return seen + ([_COLLECTOR] if leak["holders"] else [])


def _claims(context: ToolContext, result: JsonObject) -> Iterator[Diagnostic]:
    drafts = []
    remedy = (result["remedies"] or [_SEE_SPLIT])[0]
    leak: JsonObject = result.get("leak", {})
    if leak.get("is_leak"):
        place = _holding(leak)
        message = f"memory grows here: {result['issue']['because']}"
        cure = remedy.removeprefix(f"{place.get('file')}:{place.get('line')}: ")
        drafts.append((measurement_codes.MEMORY_GROWS, place, message, cure, _of_growth(leak), 3))
    if failed := result.get("out_of_memory"):
        message = f"memory runs out here: {result['issue']['because']}"
        drafts.append(
            (measurement_codes.OUT_OF_MEMORY, failed, message, remedy, ["a run that failed", *_of_peak(result)], 2)
        )
    if reached := (result.get("peak") or result.get("estimate") or {}).get("reached_by"):
        message = f"the peak is reached here: {result['headline'].partition(';')[0]}"
        drafts.append((measurement_codes.MEMORY_PEAK, reached, message, _SEE_SPLIT, _of_peak(result), 2))
    for rule, place, message, advised, witnesses, possible in drafts:
        made = claim(context, rule, place, message, remedy=advised, witnesses=witnesses, possible=possible)
        if made is not None:
            yield made


def _holding(leak: JsonObject) -> JsonObject:
    """Return the line that retains the growing memory, else the retainer's line, else the line that created it."""
    for each in (*leak["holders"][:1], *leak["made_by"][:1]):
        if each.get("file"):
            return {"file": each["file"], "line": each.get("kept_line") or each.get("line")}
    return {}
