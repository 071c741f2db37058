"""Check whether a target can be exported, in which modes, and where it fails."""

from __future__ import annotations

from collections import defaultdict
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

# Draft export continues after failures, so its success proves less.
_WAYS = ("strict", "non-strict", "dynamic-batch", "onnx")
_AGAINST = frozenset(("fails", "raises", "differs"))


def _rerun(arguments: JsonObject) -> str:
    inputs, source = arguments.get("inputs"), arguments.get("inputs_from")
    return command("export", str(arguments["target"]), input=inputs, inputs=source)


@tool("torch-export", risk=Risk.LOW, repeatable=True, rerun=_rerun, comparing=measurement_comparison.exported)
async def torch_export(
    context: ToolContext, target: str, inputs: list[str] | None = None, inputs_from: str = ""
) -> ToolResult:
    """Export a module or function in the sandbox in every supported mode, and compare the results with eager.

    Args:
        context: The project.
        target: `FILE.py:NAME` or `package.module:Class.method`.
        inputs: Inputs such as `randn(32,128)`; if omitted, those that the target's file makes itself.
        inputs_from: `FILE:FUNCTION` that makes the inputs.
    """
    from esper_agents.torchlab.export import export

    wanted = spec(target, inputs, inputs_from)
    made = await measure(context, [target, inputs_from], lambda lab: export(lab, wanted))
    attempts: JsonObject = made.report.result["attempts"]
    outcomes = {name: str(each["outcome"]) for name, each in attempts.items()}
    against = [name for name in _WAYS if outcomes.get(name) in _AGAINST]
    status = "exports" if outcomes and not against else "fails"
    output = outlined(made.report, status=status, witnesses=[f"{each} export" for each in attempts])
    said = ", ".join(f"{name} {outcome}" for name, outcome in outcomes.items())
    claims = tuple(_claims(context, attempts, against))
    return ToolResult(
        f"export of {target}: {said or 'no mode was tried'}", output, claims, made.examined, made.artifacts
    )


def _claims(context: ToolContext, attempts: JsonObject, against: list[str]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each line at which attempts fail; failures at the same line support each other."""
    by_place: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name in against:
        place = attempts[name].get("place", {})
        by_place[str(place.get("file", "")), int(place.get("line", 0))].append(name)
    for (file, line), names in by_place.items():
        told = attempts[names[0]]
        said = told.get("message") or told.get("difference") or told.get("kind") or "its numbers differ from eager"
        made = claim(
            context,
            measurement_codes.EXPORT_FAILED,
            {"file": file, "line": line},
            f"{' and '.join(names)} export {told['outcome']} here: {said}",
            remedy=str(told.get("change") or told.get("suggestion") or "write it in operations that can be traced"),
            witnesses=[f"{each} export" for each in names],
            possible=len([each for each in _WAYS if each in attempts]),
        )
        if made is not None:
            yield made
