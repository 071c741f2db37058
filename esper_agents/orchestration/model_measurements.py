"""Agreement of a user to measurements whose target and inputs a model chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.certificates.statement import digest_of_value
from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.codec import canonical
from esper_agents.domain.evidence import Risk
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.ledger import UserQuestion
from esper_agents.domain.permission_rule import PermissionDecision
from esper_agents.orchestration.permissions import APPROVE, DENY, permission_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.certificates.policy.verdict_ceiling import Policy
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import Evidence
    from esper_agents.orchestration.open_frame import FrameState
    from esper_agents.orchestration.permission_rules import Permission
    from esper_agents.orchestration.session_run import SessionRun
    from esper_agents.tools.tool import Tool

_LAB = "torch-"
_SUBJECTS = ("target", "baseline", "candidate")


def counted_evidence(run: SessionRun) -> tuple[Evidence, ...]:
    """Return the evidence except measurements that a model chose and no user agreed to.

    A model chooses what to run and with which arguments, so such a run does not count as the required measurement. It
    counts if the user approved it, approved the same inputs before, or allowed the tool in the task or the settings.
    """
    measuring, agreed = _measuring(run.services.policy), set(_answered(run, APPROVE))
    counted = []
    for frame, report in run.history.reports():
        made = report.evidence
        is_free = not frame.opened.definition.is_model or made.tool not in measuring or made.risk is not Risk.LOW
        is_agreed = made.tool.startswith(_LAB) and _inputs(made.arguments) in agreed
        if is_free or is_agreed or _is_allowed(run, made):
            counted.append(made)
    return tuple(counted)


def inputs_question(
    run: SessionRun, frame: FrameState, tool: Tool, call: ToolCall, allowed: Permission
) -> UserQuestion | None:
    """Return the question whether a model may measure on the inputs that it chose, or None if none is needed.

    It is asked once for the same target and inputs, and only if a user is present: otherwise the measurement runs and
    does not count.
    """
    is_measuring = tool.name.startswith(_LAB) and tool.name in _measuring(run.services.policy)
    is_chosen = frame.opened.definition.is_model and is_measuring
    is_settled = allowed.action is not PermissionDecision.ALLOW or bool(allowed.rules) or tool.risk is not Risk.LOW
    is_answered = _inputs(call.arguments) in set(_answered(run, APPROVE, DENY))
    if not run.is_attended or not is_chosen or is_settled or is_answered:
        return None
    subject = " and ".join(str(call.arguments[each]) for each in _SUBJECTS if call.arguments.get(each))
    chosen = call.arguments.get("inputs") or []
    given = ", ".join(map(str, chosen)) if isinstance(chosen, list | tuple) else str(chosen)
    given = given or str(call.arguments.get("inputs_from") or "the inputs that its file makes")
    text = f"may {tool.name} measure {subject} on {given}? A model chose this; the result counts only if you agree"
    arguments = call.arguments
    return UserQuestion(
        new_id(Prefix.QUESTION), text, (APPROVE, DENY), tool.name, arguments, digest_of_value(arguments)
    )


def _measuring(policy: Policy) -> set[str]:
    return {tool for line in policy.lines for tool in getattr(line.condition, "tools", ())}


def _inputs(arguments: JsonObject) -> bytes:
    """Return what identifies the target and the inputs of a measurement."""
    return canonical({name: arguments.get(name) or None for name in ("inputs", "inputs_from", *_SUBJECTS)})


def are_inputs_denied(run: SessionRun, call: ToolCall) -> bool:
    """Return whether a user denied a measurement of the same target on the same inputs, and approved none."""
    if not call.tool.startswith(_LAB):
        return False
    chosen = _inputs(call.arguments)
    return chosen in set(_answered(run, DENY)) and chosen not in set(_answered(run, APPROVE))


def _answered(run: SessionRun, *answers: str) -> Iterator[bytes]:
    """Yield target and inputs of each measurement about which a user gave one of these answers."""
    measuring = _measuring(run.services.policy)
    for frame in run.history.frames:
        for turn in frame.turns:
            for call in turn.calls.values():
                asked = call.question
                is_measuring = asked is not None and asked.tool in measuring and asked.tool.startswith(_LAB)
                if asked is not None and is_measuring and call.answer and call.answer.text in answers:
                    yield _inputs(asked.arguments)


def _is_allowed(run: SessionRun, made: Evidence) -> bool:
    """Return whether a rule of the user allows the tool of a call; a project's settings cannot."""
    tool = run.services.tools.tools.get(made.tool)
    if tool is None:
        return False
    allowed = permission_of(run, tool, ToolCall(made.tool, made.arguments))
    return allowed.action is PermissionDecision.ALLOW and bool(allowed.rules)
