"""Tools of the measurements, one for each descriptor."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esper_agents.domain.evidence import Risk
from esper_agents.tools import measurement_comparison
from esper_agents.tools.measurement_tools import (
    command,
    definition,
    diagnostic_of,
    measure,
    outlined,
    spec,
    synthetic,
    trimmed,
)
from esper_agents.tools.tool import Tool, ToolContext, ToolResult
from esper_agents.torchlab.effort import Effort
from esper_agents.torchlab.measurement import command_of, measurement, measurement_kinds

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.tools.output_comparison import OutputComparison
    from esper_agents.torchlab.measurement import MeasurementDescriptor, MeasurementOption

# `torch-confirm` watches the lines of findings.
_WITHOUT_TOOL = frozenset({"watch"})
_INPUTS: tuple[tuple[str, Any, Any, str], ...] = (
    (
        "inputs",
        list[str] | None,
        None,
        "Inputs such as `randn(32,128)`; if omitted, those that the target's file makes itself.",
    ),
    ("inputs_from", str, "", "`FILE:FUNCTION` that makes the inputs."),
)


class MeasurementFunction:
    """Function of a measurement's tool; its descriptor is imported when it is described or called.

    Attributes:
        kind: Kind of the measurement.
    """

    def __init__(self, kind: str) -> None:
        """Prepare the function of a kind."""
        self.kind = kind

    @property
    def _measurement(self) -> MeasurementDescriptor:
        return measurement(self.kind)

    @property
    def _options(self) -> tuple[MeasurementOption, ...]:
        return tuple(each for each in self._measurement.option_list() if each.in_tool)

    @property
    def _target_name(self) -> str:
        return "candidate" if self._measurement.is_pair else "target"

    @property
    def _parameters(self) -> list[tuple[str, Any, Any, str]]:
        """Names, types, defaults and texts of the arguments; the required ones first."""
        about = self._measurement
        options = [
            (option.name, option.tool_type, option.tool_default, f"{option.tool_help}.") for option in self._options
        ]
        every = [
            (self._target_name, str, inspect.Parameter.empty, f"{about.target}."),
            *(_INPUTS if about.has_inputs else ()),
            *options,
        ]
        return sorted(every, key=lambda each: each[2] is not inspect.Parameter.empty)

    @property
    def __doc__(self) -> str:  # type: ignore[override] # made from the descriptor
        """Description and arguments."""
        about = self._measurement
        arguments = "\n".join(f"    {name}: {text}" for name, _, _, text in self._parameters)
        return f"{about.summary}. {about.details}\n\nArgs:\n    context: The project.\n{arguments}"

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override] # made from the descriptor
        """Types of the arguments."""
        own = {name: each for name, each, _, _ in self._parameters}
        return {"context": ToolContext, **own, "return": ToolResult}

    @property
    def __signature__(self) -> inspect.Signature:
        """Signature, from which the schema is made."""
        keyword, positional = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature(
            [
                inspect.Parameter("context", positional, annotation=ToolContext),
                *(
                    inspect.Parameter(name, keyword, default=default, annotation=each)
                    for name, each, default, _ in self._parameters
                ),
            ]
        )

    async def __call__(
        self,
        context: ToolContext,
        *,
        inputs: list[str] | None = None,
        inputs_from: str = "",
        **given: Any,
    ) -> ToolResult:
        """Run the measurement."""
        about, target = self._measurement, str(given[self._target_name])
        chosen = about.options(**{option.name: option.value(given[option.name], str) for option in self._options})
        wanted = spec(target, inputs, inputs_from)
        with about.prepared(context.root, target, chosen) as made:
            named = [
                given[option.name] for option in self._options if option.is_target and option.name not in made.elsewhere
            ]
            files = [target, inputs_from, *named]
            inputs_kind = synthetic(context, target, inputs_from, *named)
            found = await measure(
                context, files, lambda lab: about.run(lab, wanted, made.options, None), roots=made.roots
            )
        result, subject = about.parsed(found.report), found.report.subject
        outline = about.outline(subject.title if about.is_pair else target, result)
        facts = {name: trimmed(each) for name, each in outline.facts.items()}
        output = outlined(found.report, witnesses=outline.witnesses, only=outline.parts, **facts, **inputs_kind)
        claims = [
            replace(claim, file=place[0], line=place[1])
            if claim.is_about_target and (place := definition(context, target))
            else claim
            for claim in about.claims(result, subject)
        ]
        drafts = (diagnostic_of(context, claim) for claim in claims)
        return ToolResult(
            outline.said, output, tuple(draft for draft in drafts if draft is not None), found.examined, found.artifacts
        )

    def rerun(self, arguments: JsonObject) -> str:
        """Return the command line that repeats a call; options with the command's default are omitted."""
        arguments = upgraded(arguments)
        flags: dict[str, Any] = {"input": arguments.get("inputs"), "inputs": arguments.get("inputs_from")}
        for option in self._options:
            given = arguments.get(option.name, option.tool_default)
            if option.in_command and given != option.default:
                flags[option.flags[0].removeprefix("--")] = given
            elif isinstance(given, str) and given in option.flag_of:
                flags[option.flag_of[given]] = True
        given = (arguments.get("baseline"), arguments[self._target_name])
        targets = dict.fromkeys(str(each) for each in given if each)
        return command(command_of(self.kind), *targets, **flags)

    def compare(self, recorded: JsonObject, again: JsonObject) -> OutputComparison:
        """Compare the output of a call with that of a repeated call."""
        if own := measurement_comparison.OF_KIND.get(self.kind):
            return own(recorded, again)
        if names := self._measurement.compared:
            return measurement_comparison.stated(*names)(recorded, again)
        return measurement_comparison.measured(recorded, again)


def upgraded(arguments: JsonObject) -> JsonObject:
    """Return the arguments of a recorded call as of today: version 0.1.0 had `quick` instead of `effort`."""
    current = {name: value for name, value in arguments.items() if name != "quick"}
    return {**current, "effort": str(Effort.QUICK)} if arguments.get("quick") is True else current


def _tool_of(kind: str) -> Tool:
    function = MeasurementFunction(kind)
    name = f"torch-{command_of(kind)}"
    return Tool(name, Risk.LOW, True, function, function.rerun, comparing=function.compare, upgrading=upgraded)


# The registry finds tools among the names of a module.
globals().update({f"torch_{each}": _tool_of(each) for each in sorted(measurement_kinds() - _WITHOUT_TOOL)})
