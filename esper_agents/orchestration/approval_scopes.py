"""Approvals that cover later calls: the same tool and risk in a session, or a command prefix."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.approval_scope import ApprovalScope, ScopeKind
from esper_agents.domain.evidence import Risk
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.orchestration.permissions import APPROVE, DENY
from esper_agents.tools.call_previews import pytest_argv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.agent_action import UserAnswer
    from esper_agents.domain.ledger import UserQuestion
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.orchestration.session_run import SessionRun
    from esper_agents.tools.tool import Tool

# Measurements are approved one by one: what a model chose counts only if a user agreed to it.
_LAB = "torch-"
_SHELL, _TESTS = "shell", "run-tests"
# A command with any other character may be more than one command, or expand to other words.
_PLAIN = re.compile(r"[A-Za-z0-9 _./:=,@%+\"'-]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def command_argv(call: ToolCall) -> tuple[str, ...]:
    """Return the words of a call's command; empty if it has none, or is more than one plain command."""
    if call.tool == _TESTS:
        return pytest_argv(call)
    command = call.arguments.get("command")
    if call.tool != _SHELL or not isinstance(command, str) or not _PLAIN.fullmatch(command):
        return ()
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        return ()
    return () if not words or _ASSIGNMENT.match(words[0]) else words


def approval_scope(
    services: ProjectServices, session: str, question: UserQuestion, kind: ScopeKind, prefix: str = ""
) -> ApprovalScope | None:
    """Return the scope of an approval; None if it covers only the call in question.

    Args:
        services: Services of the project.
        session: `ses_` identifier.
        question: Question that is approved.
        kind: Kind of the scope.
        prefix: First words of the command, for the kind `prefix`.

    Raises:
        UsageError: The question has no such scope.
    """
    if kind is ScopeKind.ONCE:
        return None
    if not question.tool or question.options != (APPROVE, DENY):
        raise UsageError(f"question {question.id} is not about a tool", remedy=f"esper approve {question.id}")
    if question.tool.startswith(_LAB):
        problem = f"{question.tool} is approved for one measurement at a time"
        raise UsageError(problem, remedy=f"esper approve {question.id}")
    try:
        tool = services.tools.get(question.tool)
    except NotFoundError as error:
        raise UsageError(error.problem, remedy=f"esper deny {question.id}") from error
    call = ToolCall(question.tool, question.arguments)
    words = _prefix_of(question, call, prefix) if kind is ScopeKind.PREFIX else ()
    return ApprovalScope(kind, session, tool.name, effective_risk(tool, call), words)


def _prefix_of(question: UserQuestion, call: ToolCall, prefix: str) -> tuple[str, ...]:
    argv = command_argv(call)
    if not argv:
        problem = f"{call.tool} has no single command to approve by prefix"
        if call.tool == _SHELL:
            problem = "a command with operators, variables or wildcards cannot be approved by prefix"
        raise UsageError(problem, remedy=f"approve this call alone: esper approve {question.id}")
    try:
        words = tuple(shlex.split(prefix))
    except ValueError:
        words = ()
    if not words or argv[: len(words)] != words:
        problem = f"the command does not begin with the words {prefix[:200]!r}"
        raise UsageError(problem, remedy=f"give its first words, such as --prefix {shlex.quote(argv[0])}")
    return words


def effective_risk(tool: Tool, call: ToolCall) -> Risk:
    """Return the risk of a call: high if it asks for an exception from the sandbox."""
    return Risk.HIGH if tool.exceptions_of(call.arguments) else tool.risk


def covers(session: str, question: UserQuestion, answer: UserAnswer, tool: Tool, call: ToolCall) -> bool:
    """Return whether an answer to a question approves another call."""
    scope = answer.scope
    if scope is None or answer.text != APPROVE or answer.question != question.id or scope.session != session:
        return False
    asked = ToolCall(question.tool, question.arguments)
    is_same = scope.tool == question.tool == tool.name and scope.risk is effective_risk(tool, call)
    more = set(tool.exceptions_of(call.arguments)) - set(tool.exceptions_of(asked.arguments))
    if not is_same or more or tool.name.startswith(_LAB):
        return False
    match scope.kind:
        case ScopeKind.SESSION:
            return True
        case ScopeKind.PREFIX:
            words = scope.prefix
            return bool(words) and all(_begins(command_argv(each), words) for each in (asked, call))
        case ScopeKind.ONCE:
            return False


def _begins(argv: Sequence[str], words: Sequence[str]) -> bool:
    return tuple(argv[: len(words)]) == tuple(words)


def is_covered(run: SessionRun, tool: Tool, call: ToolCall) -> bool:
    """Return whether an earlier approval of this session covers a call."""
    return any(
        covers(run.session, pending.question, pending.answer, tool, call)
        for frame in run.history.frames
        for turn in frame.turns
        for pending in turn.calls.values()
        if pending.answer and pending.question and pending.answer.scope
    )
