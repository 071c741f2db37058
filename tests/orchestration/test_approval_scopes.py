"""Which later calls an approval covers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from esper_agents.certificates.statement import digest_of_value
from esper_agents.domain.agent_action import ToolCall, UserAnswer
from esper_agents.domain.approval_scope import ApprovalScope, ScopeKind
from esper_agents.domain.evidence import Risk
from esper_agents.domain.ledger import UserQuestion
from esper_agents.orchestration.approval_scopes import command_argv, covers, effective_risk
from esper_agents.tools.edit_file import edit_file
from esper_agents.tools.run_tests import run_tests
from esper_agents.tools.shell import shell

SESSION = "ses_1"


def shell_call(command):
    return ToolCall("shell", {"command": command})


def is_covered(tool, asked, call, kind, prefix=(), *, text="approve", changes=None):
    question = UserQuestion("qst_1", "may it?", ("approve", "deny"), asked.tool, asked.arguments, "")
    question = replace(question, arguments_sha256=digest_of_value(asked.arguments))
    scope = ApprovalScope(kind, SESSION, asked.tool, effective_risk(tool, asked), prefix)
    answer = UserAnswer("qst_1", text, "ann", replace(scope, **(changes or {})))
    return covers(SESSION, question, answer, tool, call)


@pytest.mark.parametrize("command", ["pytest -q", "pytest -q tests/test_a.py", "pytest '-q' \"tests/my file.py\""])
def test_a_prefix_covers_commands_that_begin_with_the_same_words(command):
    asked = shell_call("pytest -q tests/test_b.py")
    assert is_covered(shell, asked, shell_call(command), ScopeKind.PREFIX, ("pytest", "-q"))


@pytest.mark.parametrize(
    "command",
    [
        "pytest -qq",
        "pytest",
        "pytest-q",
        "python -m pytest -q",
        "pytest -q; rm -rf .",
        "pytest -q && rm x",
        "pytest -q | sh",
        "pytest -q & rm x",
        "pytest -q > train.py",
        "pytest -q $(rm x)",
        "pytest -q `rm x`",
        "pytest -q $HOME",
        "pytest -q\nrm x",
        "pytest -q <(rm x)",
        "pytest -q {a,b}",
        "pytest -q ~root",
        "pytest -q *",
        "pytest -q \\; rm",
        "pytest -q 'open",
        "PATH=. pytest -q",
        "'pytest -q'",
        "",
    ],
)
def test_a_prefix_covers_no_other_command_and_none_with_an_operator(command):
    assert not is_covered(shell, shell_call("pytest -q"), shell_call(command), ScopeKind.PREFIX, ("pytest", "-q"))


def test_a_prefix_of_a_command_with_an_operator_covers_nothing():
    asked = shell_call("pytest -q | tee out")
    assert command_argv(asked) == ()
    assert not is_covered(shell, asked, shell_call("pytest -q"), ScopeKind.PREFIX, ("pytest",))


def test_an_empty_prefix_covers_nothing():
    assert not is_covered(shell, shell_call("ls"), shell_call("ls"), ScopeKind.PREFIX, ())


def test_tests_are_covered_by_their_first_paths():
    asked, other = ToolCall("run-tests", {"paths": ["tests/a.py"]}), ToolCall("run-tests", {"paths": ["tests/b.py"]})
    assert is_covered(run_tests, asked, asked, ScopeKind.PREFIX, ("pytest", "tests/a.py"))
    assert not is_covered(run_tests, asked, other, ScopeKind.PREFIX, ("pytest", "tests/a.py"))


@pytest.mark.parametrize("more", [{"network": True}, {"unsandboxed": True}, {"data": ["weights"]}])
def test_no_scope_covers_an_exception_from_the_sandbox_that_was_not_approved(more):
    asked = ToolCall("run-tests", {"paths": ["tests"]})
    call = ToolCall("run-tests", {"paths": ["tests"], **more})
    assert not is_covered(run_tests, asked, call, ScopeKind.SESSION)
    assert not is_covered(run_tests, asked, call, ScopeKind.PREFIX, ("pytest", "tests"))
    # Nor does an approval of one exception cover another one.
    other = ToolCall("run-tests", {"paths": ["tests"], "data": ["other"]})
    assert not is_covered(run_tests, other, call, ScopeKind.SESSION)


@pytest.mark.parametrize(
    "changes",
    [{"session": "ses_2"}, {"tool": "write-file"}, {"risk": Risk.LOW}, {"kind": ScopeKind.ONCE}],
)
def test_a_scope_of_another_session_tool_or_risk_covers_nothing(changes):
    call = ToolCall("edit-file", {"path": "a.py", "old_string": "a", "new_string": "b"})
    assert is_covered(edit_file, call, call, ScopeKind.SESSION)
    assert not is_covered(edit_file, call, call, ScopeKind.SESSION, changes=changes)
    assert not is_covered(edit_file, call, call, ScopeKind.SESSION, text="deny")
