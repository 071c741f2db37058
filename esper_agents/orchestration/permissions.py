"""Which tool calls run, which a person must agree to first, and whether an answer is an agreement to this very call."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from esper_agents.certificates.statement import digest_of_value
from esper_agents.domain.codec import canonical
from esper_agents.domain.evidence import Risk
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.ledger import Question
from esper_agents.errors import NotFoundError
from esper_agents.orchestration.rules import Permission, ToolCalled, permission, restricted, task_rules, tightening

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.move import ToolCall
    from esper_agents.domain.rule import Rule
    from esper_agents.domain.task import Task
    from esper_agents.orchestration.open_turn import Call
    from esper_agents.orchestration.run import Run
    from esper_agents.orchestration.workshop import Workshop
    from esper_agents.tools.tool import Tool

APPROVE, DENY = "approve", "deny"
_WHAT = {
    Risk.MEDIUM: "writes in the project, or runs its code without a sandbox",
    Risk.HIGH: "uses the shell, the network or something outside the project",
}


def rules_for(workshop: Workshop, task: Task) -> tuple[Rule, ...]:
    """Return the rules that a session of a task begins under."""
    return (*workshop.settings.rules, *task_rules(task.options))


def rules_of(run: Run) -> tuple[Rule, ...]:
    """Return the rules that hold: those that the session began under, and what is tighter now.

    They are the session's, not the agent's: who is consulted or handed the task is bound by all of them.
    """
    begun = run.history.begun
    now = (*tightening(run.workshop.settings.rules), *task_rules(begun.task.options))
    return (*begun.rules, *(rule for rule in now if rule not in begun.rules))


def restrict(workshop: Workshop, task: Task, *, ask: Sequence[str] = (), deny: Sequence[str] = ()) -> Task:
    """Return a task for which some tools are asked about first and others never run.

    Raises:
        NotFoundError: There is no such tool: a rule that fits nothing would keep nobody from anything.
    """
    known = workshop.tools.tools
    for name in (*ask, *deny):
        if not any(fnmatchcase(each, name) for each in known):
            raise NotFoundError("tool", name, known, listing='esper submit --plan "review this"')
    return replace(task, options=restricted(task.options, ask=ask, deny=deny))


def permission_of(run: Run, tool: Tool, call: ToolCall) -> Permission:
    """Return what becomes of a call."""
    arguments = {**defaults_of(tool), **call.arguments}
    return permission(rules_of(run), ToolCalled(tool.name, tool.risk, arguments, run.workshop.project.root))


def defaults_of(tool: Tool) -> JsonObject:
    """Return what a tool takes where an argument is left out, as far as its schema says."""
    members = tool.use.schema.get("properties", {})
    return {name: said["default"] for name, said in members.items() if "default" in said}


def approval_question(tool: Tool, call: ToolCall, because: str = "") -> Question:
    """Return the question whether one call may be made.

    Args:
        tool: The tool.
        call: The call.
        because: The rules that want it asked, in words; empty where the tool's risk does.
    """
    arguments = canonical(call.arguments).decode()
    text = f"may {tool.name} run with {arguments}? risk {tool.risk}: it {_WHAT.get(tool.risk, 'only reads')}"
    text += f". Asked because of {because}" if because else ""
    return Question(
        new_id(Prefix.QUESTION), text, (APPROVE, DENY), tool.name, call.arguments, digest_of_value(call.arguments)
    )


def is_approved(state: Call, call: ToolCall) -> bool:
    """Return whether the recorded answer agrees to this very call: its question, its tool, its arguments."""
    return (
        state.question is not None
        and state.answer is not None
        and state.answer.question == state.question.id
        and state.answer.text == APPROVE
        and state.question.tool == call.tool
        and state.question.arguments_sha256 == digest_of_value(call.arguments)
    )
