"""Tools of the measurements that have a descriptor."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from esper_agents.domain.evidence import Risk
from esper_agents.tools import measurement_comparison
from esper_agents.tools.measurement_tools import claim, command, measure, outlined
from esper_agents.tools.tool import Tool, ToolContext, ToolResult, tool
from esper_agents.torchlab.measurement import measurements
from esper_agents.torchlab.target import TargetSpec

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.measurement import MeasurementDescriptor


def _tool_of(measurement: MeasurementDescriptor) -> Tool:
    # An agent never measures for long: its session waits.
    options = tuple(each for each in measurement.option_list() if each.name != "thorough")
    targets = [each.name for each in options if each.is_target]

    async def run(context: ToolContext, *, target: str, **given: Any) -> ToolResult:
        chosen = measurement.options(**given)
        files = [target, *(given[name] for name in targets)]
        made = await measure(context, files, lambda lab: measurement.run(lab, TargetSpec(target), chosen, None))
        result = made.report.result
        output = outlined(made.report, status=result["status"], witnesses=measurement.witnesses)
        drafts = (
            claim(context, each.rule, each.place, each.message, remedy=each.remedy, witnesses=each.witnesses)
            for each in measurement.claims(result)
        )
        claims = tuple(each for each in drafts if each is not None)
        return ToolResult(f"{target}: {result['headline']}", output, claims, made.examined, made.artifacts)

    def rerun(arguments: JsonObject) -> str:
        named = {each.name: arguments.get(each.name, each.default) for each in options}
        return command(measurement.kind, str(arguments["target"]), **named)

    run.__name__ = f"torch_{measurement.kind}"
    documented = "\n".join(f"    {each.name}: {each.help}." for each in options)
    run.__doc__ = (
        f"{measurement.summary}. {measurement.details}\n\nArgs:\n    context: The project.\n"
        f"    target: {measurement.target}.\n{documented}"
    )
    run.__annotations__ = {
        "context": ToolContext,
        "target": str,
        **{each.name: each.type for each in options},
        "return": ToolResult,
    }
    keyword, positional = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter("context", positional, annotation=ToolContext),
        inspect.Parameter("target", keyword, annotation=str),
        *(inspect.Parameter(each.name, keyword, default=each.default, annotation=each.type) for each in options),
    ]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    comparing = measurement_comparison.stated(*measurement.compared)
    return tool(f"torch-{measurement.kind}", risk=Risk.LOW, repeatable=True, rerun=rerun, comparing=comparing)(run)


# The registry finds tools among the names of a module.
globals().update({f"torch_{each.kind}": _tool_of(each) for each in measurements()})
