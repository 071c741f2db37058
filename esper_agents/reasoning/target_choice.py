"""Choose the target of a task: named by the user, runnable harness, or a question."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.domain.agent_action import Ask, ToolCall, UserAnswer
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import CallOutcome

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from esper_agents.domain.agent_action import Move, ToolReport
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.frame import Brief
    from esper_agents.reasoning.request_parser import ParsedRequest

NONE_OF_THEM = "none of these: only read the code"
# A step covers most of a run; compilation and export apply to a module or a function.
WHOLE_FIRST = ("step", "module", "function")
GRAPH_FIRST = ("module", "function", "step")
_MOST_OPTIONS = 12


@dataclass(frozen=True, slots=True)
class ChosenTarget:
    """Target to run.

    Attributes:
        name: `FILE.py:NAME`.
        kind: `module`, `function`, `step`, or empty if static analysis does not determine it.
        inputs: Inputs given by the user.
        inputs_from: `FILE:FUNCTION` that creates them, or empty.
        because: Reason for this choice.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    inputs_from: str
    because: str

    @property
    def arguments(self) -> dict[str, Any]:
        """Target and inputs as tool arguments."""
        return {"target": self.name, "inputs": list(self.inputs), "inputs_from": self.inputs_from}


Choice: TypeAlias = ChosenTarget | InformationGap


def looking(brief: Brief, asked: ParsedRequest) -> ToolCall:
    """Return the call that finds runnable targets."""
    paths = list(brief.task.paths)
    return ToolCall("torch-targets", {"paths": paths, "named": list(asked.named), "inputs": list(asked.inputs)})


def choose(
    brief: Brief, asked: ParsedRequest, found: ToolReport, kinds: Sequence[str]
) -> Generator[Move, Any, ChosenTarget | InformationGap]:
    """Return the target of the task; ask the user if there are several, and return a gap if there is none.

    Args:
        brief: Brief of the task.
        asked: Parsed request.
        found: Report of `torch-targets`.
        kinds: Target kinds, the preferred ones first.
    """
    if known := _measured_before(brief):
        return known
    if found.evidence.outcome is not CallOutcome.COMPLETED:
        return _gap(brief, found.evidence.summary)
    output = found.evidence.output
    named = [each for each in output["named"] if each["targets"]]
    if named:
        one = named[0]
        return (
            yield from _among(
                brief, asked, one["targets"], kind=one["kind"], because="you named it", needs=one["needs"]
            )
        )
    ready = list(output["runnable"])
    for kind in kinds:
        of_kind = [each for each in ready if each["kind"] == kind]
        outermost = _outermost(of_kind)
        if outermost:
            targets = [each["target"] for each in outermost]
            because = f"it is the only {kind} that can be run without asking and that no other one uses"
            return (yield from _among(brief, asked, targets, kind=kind, because=because))
    return _gap(brief, _needed(output["missing"]))


def pair(brief: Brief, asked: ParsedRequest, found: ToolReport) -> tuple[ChosenTarget, ChosenTarget] | InformationGap:
    """Return baseline and candidate, both named by the user; a gap if they are not."""
    if found.evidence.outcome is not CallOutcome.COMPLETED:
        return _gap(brief, found.evidence.summary)
    named = [each for each in found.evidence.output["named"] if len(each["targets"]) == 1]
    if len(named) < 2:  # noqa: PLR2004 - a comparison has two sides
        return _gap(brief, "two targets, or one and the revision to compare it with")
    one, other = (_target(asked, each["targets"][0], each["kind"], "you named it") for each in named[:2])
    return (other, one) if asked.candidate_first else (one, other)


def _measured_before(brief: Brief) -> ChosenTarget | None:
    """Return the target that the session has measured already, so that the user is not asked again."""
    for each in reversed(brief.evidence):
        known = each.arguments
        if each.tool.startswith("torch-") and each.outcome is CallOutcome.COMPLETED and "target" in known:
            kind = str(each.output.get("kind", ""))
            inputs, source = tuple(known.get("inputs") or ()), str(known.get("inputs_from") or "")
            return ChosenTarget(str(known["target"]), kind, inputs, source, "it was measured before")
    return None


def _among(
    brief: Brief, asked: ParsedRequest, targets: Sequence[str], *, kind: str, because: str, needs: Sequence[str] = ()
) -> Generator[Move, Any, ChosenTarget | InformationGap]:
    if needs and not (asked.inputs or asked.inputs_from):
        return _gap(brief, f"{targets[0]} needs {needs[0]}")
    if len(targets) == 1:
        return _target(asked, targets[0], kind, because)
    options = (*targets[:_MOST_OPTIONS], NONE_OF_THEM)
    answer = yield Ask(f"{brief.agent.name} can run one of these to measure it; which one is meant?", options)
    if not isinstance(answer, UserAnswer) or answer.text not in targets:
        return _gap(brief, "which of several targets is meant")
    return _target(asked, answer.text, kind, f"{answer.by} chose it")


def _target(asked: ParsedRequest, name: str, kind: str, because: str) -> ChosenTarget:
    return ChosenTarget(name, kind, asked.inputs, asked.inputs_from, because)


def _outermost(candidates: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the targets that no other one uses; all of them if they use one another in a cycle."""
    used = {name for each in candidates for name in each["uses"]}
    return [each for each in candidates if each["target"] not in used] or list(candidates)


def _needed(missing: Sequence[JsonObject]) -> str:
    if not missing:
        return "something that can be run: a function without arguments that returns the module or the training step"
    shown = "; ".join(f"{each['target']} needs {each['needs'][0]}" for each in missing[:3])
    return shown + (f"; and {len(missing) - 3} more" if len(missing) > 3 else "")  # noqa: PLR2004 - three fit on a line


def _gap(brief: Brief, what: str) -> InformationGap:
    """Return the information gap with the command line that would close it."""
    paths = " ".join(quote(each) for each in brief.task.paths)
    return InformationGap(
        what=f"what to run: {what}",
        why="without it nothing can be measured, and reading alone does not tell what a run does",
        command=f'esper submit "... FILE.py:NAME with randn(32,128)" {paths} --agent {brief.agent.name}',
    )
