"""Permission decisions for tool calls, and matching of approvals to calls."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from esper_agents.certificates.statement import digest_of_value
from esper_agents.domain.codec import canonical
from esper_agents.domain.evidence import Risk
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.ledger import UserQuestion
from esper_agents.domain.permission_rule import PermissionDecision
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.orchestration.permission_rules import (
    Permission,
    ToolCallRequest,
    allowed_names,
    permission,
    restricted,
    restricting_rules,
    task_rules,
)
from esper_agents.tools.call_previews import hidden_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from esper_agents.domain.agent_action import ToolCall
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.permission_rule import PermissionRule
    from esper_agents.domain.task import Task
    from esper_agents.orchestration.open_turn import PendingCall
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.orchestration.session_run import SessionRun
    from esper_agents.tools.tool import Tool

APPROVE, DENY = "approve", "deny"
_WHAT = {
    Risk.MEDIUM: "writes in the project, or runs its tests in the sandbox",
    Risk.HIGH: "uses the shell, the network or something outside the project",
}


def rules_for(services: ProjectServices, task: Task) -> tuple[PermissionRule, ...]:
    """Return the permission rules that a session of a task starts with."""
    return (*services.settings.rules, *task_rules(task.options))


def rules_of(run: SessionRun) -> tuple[PermissionRule, ...]:
    """Return the effective rules: those of the session start, and restrictions added since.

    Rules belong to the session, not the agent: consulted and receiving agents are bound by all of them.
    """
    begun = run.history.begun
    now = (*restricting_rules(run.services.settings.rules), *task_rules(begun.task.options))
    return (*begun.rules, *(rule for rule in now if rule not in begun.rules))


def restrict(
    services: ProjectServices,
    task: Task,
    *,
    ask: Sequence[str] = (),
    deny: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> Task:
    """Return a task with additional tools that need approval, never run, or run without approval.

    Raises:
        NotFoundError: There is no such tool: a rule that matches nothing would restrict nothing.
        UsageError: An allowed name is not a single tool or one of its exceptions.
    """
    known = services.tools.tools
    for name in allow:
        _refuse_unknown(known, name)
    # Allowing an exception also allows the call that uses it.
    allow = tuple(dict.fromkeys(each for name in allow for each in (name.partition(":")[0], name)))
    for name in (*ask, *deny):
        if not any(fnmatchcase(each, name) for each in known):
            raise NotFoundError("tool", name, known, listing='esper submit --dry-run "review this"')
    return replace(task, options=restricted(task.options, ask=ask, deny=deny, allow=allow))


def _refuse_unknown(known: Mapping[str, Tool], name: str) -> None:
    """Raise unless the name is a full tool name or a full exception name."""
    tool, colon, exception = name.partition(":")
    if tool not in known:
        raise NotFoundError("tool", tool, known, listing='esper submit --dry-run "review this"')
    ways = known[tool].exceptions.values()
    shown = ", ".join(f"{tool}:{way.replace('*', 'PATH')}" for way in ways)
    is_known = any(fnmatchcase(exception, way) for way in ways) and not set(exception) & set("*?[")
    if colon and (not is_known or exception.endswith("=")):
        remedy = f"allow {tool}, or one of {shown}" if shown else f"allow {tool}: it has no exceptions"
        raise UsageError(f"{tool} has no exception {exception!r}", remedy=remedy)
    if name.split() != [name]:
        raise UsageError(f"{name!r} contains a space", remedy="allow it in your settings: see docs/approvals.md")


def allowed_in(run: SessionRun, tools: Iterable[Tool]) -> tuple[str, ...]:
    """Return the tools and exceptions that run without approval under the rules of the session start."""
    rules = run.history.begun.rules
    return tuple(name for tool in tools for name in allowed_names(rules, tool.name, tool.risk))


def permission_of(run: SessionRun, tool: Tool, call: ToolCall) -> Permission:
    """Return the decision for a call: the strictest for the tool and for each exception that the call uses."""
    arguments = {**defaults_of(tool), **call.arguments}
    names = {tool.name: tool.risk, **dict.fromkeys(tool.exceptions_of(arguments), Risk.HIGH)}
    root, rules = run.services.project.root, rules_of(run)
    said = [permission(rules, ToolCallRequest(name, risk, arguments, root)) for name, risk in names.items()]
    action = max((each.action for each in said), key=tuple(PermissionDecision).index)
    return Permission(action, tuple(rule for each in said if each.action is action for rule in each.rules))


def defaults_of(tool: Tool) -> JsonObject:
    """Return the default arguments of a tool, from its schema."""
    members = tool.use.schema.get("properties", {})
    return {name: said["default"] for name, said in members.items() if "default" in said}


def approval_question(tool: Tool, call: ToolCall, because: str = "", preview: str = "") -> UserQuestion:
    """Return the approval question for a call.

    Args:
        tool: Tool to run.
        call: Call to approve.
        because: Rules that require approval, as text; empty if the tool's risk does.
        preview: The call as a diff or a command line; empty if its arguments are shown instead.
    """
    arguments = hidden_arguments(call) if preview else call.arguments
    given = f" with {canonical(arguments).decode()}" if arguments or not preview else ""
    text = f"may {tool.name} run{given}? risk {tool.risk}: it {_WHAT.get(tool.risk, 'only reads')}"
    beyond = tool.exceptions_of(call.arguments)
    text += f"; beyond that it wants {', '.join(beyond)}" if beyond else ""
    text += f". Asked because of {because}" if because else ""
    return UserQuestion(
        new_id(Prefix.QUESTION),
        text,
        (APPROVE, DENY),
        tool.name,
        call.arguments,
        digest_of_value(call.arguments),
        preview=preview,
    )


def is_approved(state: PendingCall, call: ToolCall) -> bool:
    """Return whether the recorded answer approves exactly this call: its question, tool and arguments."""
    return (
        state.question is not None
        and state.answer is not None
        and state.answer.question == state.question.id
        and state.answer.text == APPROVE
        and state.question.tool == call.tool
        and state.question.arguments_sha256 == digest_of_value(call.arguments)
    )
