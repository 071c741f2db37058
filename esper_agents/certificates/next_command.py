"""Choose the one command that would settle what a certificate leaves open."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.certificates.suggested_command import is_complete, suggested_command
from esper_agents.domain.certificate import findings_asked_about
from esper_agents.domain.evidence import coverage_rows, is_test_run
from esper_agents.domain.reproduction import REPRODUCE
from esper_agents.domain.status import QuestionType, Stance

if TYPE_CHECKING:
    from esper_agents.domain.certificate import Certificate

_TESTS, _CHANGE, _REVIEWER = "run-tests", "change-not-judged", "pytorch-code-reviewer"
_AS_IT_IS = "review the code as it is now"


def next_command(issued: Certificate) -> str:
    """Return the command that would settle what is open; empty if nothing is.

    Its paths are relative to the project. A command that only a user can complete marks what to fill in. A long
    request, such as one with a stack trace, is repeated by its certificate and not printed.
    """
    command = _chosen(issued)
    if not issued.task.is_long or not command.startswith("esper submit ") or command.startswith(_again(issued)):
        return command
    comment = command.rpartition(" # ")[2] if " # " in command else ""
    return f"{_again(issued)} # {comment}" if comment else _again(issued)


def _chosen(issued: Certificate) -> str:
    """Return the command that would settle what is open, as the verdict and the gaps give it."""
    match issued.verdict.stance:
        case Stance.AGAINST if issued.verdict.kind is QuestionType.RECOMMENDATION and not issued.findings:
            return _closing_command(issued)
        case Stance.AGAINST | Stance.REJECTED | Stance.EMERGENCY:
            return f"{_again(issued)} # after fixing the findings"
        case Stance.UNDECIDED | Stance.CONDITIONAL if deciding := _deciding_command(issued):
            return deciding
        case Stance.UNDECIDED | Stance.CONDITIONAL | Stance.FOR:
            return _closing_command(issued)


def _closing_command(issued: Certificate) -> str:
    """Return the command of the first gap that can be closed, those that block the decision first."""
    ordered = sorted(issued.gaps, key=lambda gap: not gap.blocks_approval)
    commands = [command for each in ordered if (command := suggested_command(each.command))]
    if commands:
        return next(filter(is_complete, commands), commands[0])
    if findings_asked_about(issued):
        return f"{_again(issued)} # after fixing the findings"
    return f"esper why {issued.id}" if issued.verdict.stance is not Stance.FOR else ""


def _again(issued: Certificate, allow: str = "") -> str:
    tools = dict.fromkeys((*issued.task.options.get("allow", "").split(), *allow.split()))
    return f"esper submit --rerun {issued.id}" + "".join(f" --allow {quote(tool)}" for tool in tools)


def _deciding_command(issued: Certificate) -> str:
    """Return the command that runs the tests of the certified files; empty if they cannot decide.

    If tests are missing, a trailing comment names the files that need tests.
    """
    lines = {line.name: line for line in issued.verdict.ceiling.lines}
    blocking = any(gap.blocks_approval for gap in issued.gaps)
    calls = [each for each in issued.evidence if each.tool == _TESTS]
    is_settled = REPRODUCE in issued.task.options or not all(is_test_run(call) for call in calls)
    if "not-executed" not in lines or blocking or is_settled:
        return ""
    others = [line for name, line in lines.items() if name not in {"not-executed", "change-not-executed", _CHANGE}]
    if any(line.stance is issued.verdict.stance for line in others) and issued.verdict.kind is QuestionType.GO:
        return ""
    # Tests ran or were allowed, but executed none of the files: a repetition would not help.
    needs_tests = bool(calls) or _TESTS in issued.task.options.get("allow", "").split() or _has_no_tests(issued)
    unread = [path for call in calls for path, count, executed in coverage_rows(call) if count and not executed]
    named = ", ".join(dict.fromkeys(unread)) or ", ".join(issued.task.paths)
    comment = f" # after adding tests that call {named}" if needs_tests else ""
    if needs_tests and calls and _CHANGE not in lines and issued.agent == _REVIEWER:
        return f"{_again(issued, _TESTS)}{comment}"
    # The change cannot be judged yet, but the current files can.
    request = _AS_IT_IS if _CHANGE in lines else ""
    agent = issued.task.agent if issued.agent == _REVIEWER else _REVIEWER
    return f"{issued.task.command(allow=_TESTS, agent=agent, request=request)}{comment}"


def _has_no_tests(issued: Certificate) -> bool:
    """Return whether the search for tests of the files found none in the project."""
    found = [each.output for each in issued.evidence if each.tool == "related-code" and "other_tests" in each.output]
    return bool(found) and not any(each.get("tests") or each.get("own_tests") or each["other_tests"] for each in found)
