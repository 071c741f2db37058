"""Run a session interactively: live view, questions, Ctrl-C, and the result screen."""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from esper_agents.cli.answer_prompt import choice, commands
from esper_agents.cli.begun import sessions as begun
from esper_agents.cli.cost_summary import CostGrouping, as_row, by, total
from esper_agents.cli.live_output import Narrator, narrator, say
from esper_agents.cli.terminal import echo, echo_json, is_interactive, one_line, report
from esper_agents.domain.evidence import CallOutcome, coverage_rows, is_test_run, tests_told
from esper_agents.domain.finding import counted
from esper_agents.domain.reproduction import REPRODUCE
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import QuestionType, Status
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from esper_agents.api import OpenProject, Session, SessionResult
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.ledger import UserQuestion

_SHOWN = 3
_TESTS, _CHANGE, _REVIEWER = "run-tests", "change-not-judged", "pytorch-code-reviewer"
_AS_IT_IS = "review the code as it is now"


async def run_interactively(project: OpenProject, session: Session, *, as_json: bool) -> int:
    """Run a session until it ends, or waits without a terminal to ask on, and return the exit code."""
    told = set[str]()
    while True:
        outcome = await _run(session, told, is_told=not as_json)
        if outcome.state not in {SessionState.OPEN, SessionState.WAITING}:
            begun.clear()
        if as_json:
            echo_json(as_data(outcome) | {"cost": [as_row(each) for each in await project.models.usage([session.id])]})
        else:
            await _end_screen(project, outcome, told)
        if outcome.state is not SessionState.WAITING or as_json or not is_interactive():
            return int(outcome.exit_code)
        answered = await _ask(project, outcome.questions[0])
        if answered is None:
            return int(outcome.exit_code)
        session = answered


async def _run(session: Session, told: set[str], *, is_told: bool) -> SessionResult:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        session.stop()
        # The second Ctrl-C stops at once.
        loop.remove_signal_handler(signal.SIGINT)
        sys.stderr.write("stopping after the current step (Ctrl-C again to stop now)\n")

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop)
    try:
        if not is_told:
            return await session.run()
        is_attended = is_interactive()
        say("session", session.id)
        with narrator(told) as teller:
            telling = asyncio.create_task(_tell(session, teller))
            try:
                return await session.run(teller.hear, is_attended=is_attended)
            finally:
                await telling
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)


async def _tell(session: Session, teller: Narrator) -> None:
    async for event in session.events():
        teller.tell(event)


async def _ask(project: OpenProject, question: UserQuestion) -> Session | None:
    """Ask at the terminal until there is an answer; return None if the user ends the input."""
    echo(f"{one_line(question.text)}{choice(question)}")
    while True:
        try:
            # Nothing else runs meanwhile; a thread waiting for input would block Ctrl-C.
            said = input("> ").strip()  # noqa: ASYNC250
        except EOFError:
            echo()
            return None
        try:
            return await project.approvals.answer(question.id, said)
        except UsageError as error:
            if question not in [asked for _, asked in await project.approvals.questions()]:
                raise
            report(error)


async def _end_screen(project: OpenProject, outcome: SessionResult, told: Collection[str]) -> None:
    echo()
    await _cost_screen(project, outcome.session)
    match outcome.state:
        case SessionState.DONE if outcome.certificate:
            await _verdict_screen(project, outcome, await project.certificates.read(outcome.certificate.id), told)
        case SessionState.WAITING:
            say("waiting", "for a person")
            for question in outcome.questions:
                _question_screen(question)
        case SessionState.REFUSED:
            say("next", "rephrase as a PyTorch request, or choose an agent with --agent")
        case SessionState.CANCELLED:
            say("cancelled", "without a verdict")
        case SessionState.DONE | SessionState.OPEN:
            say("next", f"esper resume {outcome.session}")


async def _cost_screen(project: OpenProject, session: str) -> None:
    """Print the cost of models, if one was used; by agent if there was more than one."""
    spent = await project.models.usage([session])
    if spent:
        say("cost", f"{total(spent)}")
    agents = by(spent, CostGrouping.AGENT)
    for name, each in agents.items() if len(agents) > 1 else ():
        say("", f"{name}: {each}")


def _question_screen(question: UserQuestion) -> None:
    say("question", question.text + choice(question))
    for label, command in zip(("next", "or"), commands(question), strict=False):
        say(label, command)


async def _verdict_screen(
    project: OpenProject, outcome: SessionResult, issued: Certificate, told: Collection[str]
) -> None:
    verdict = issued.verdict
    if outcome.stopped_by:
        say("stopped", f"by the budget of {outcome.stopped_by}; what was still to be done is in the certificate")
    say("verdict", f"{verdict.status} for {issued.component}, by {issued.agent}")
    for reason in _reasons(issued):
        say("because", reason)
    if verdict.kind is QuestionType.ADVICE:
        say("answer", issued.summary)
    for condition in verdict.conditions[:_SHOWN]:
        say("condition", condition)
    _findings_screen(issued.findings, told)
    if issued.task.again:
        _changes_screen(await project.certificates.read(issued.task.again), issued)
    if outcome.view:
        say("view", str(outcome.view))
    if verdict.status is Status.NEEDS_FURTHER_REVIEW and issued.gaps:
        first = min(issued.gaps, key=lambda gap: not gap.blocks_approval)
        say("missing", f"{first.what}; {first.why}")
    command = next_command(issued, project.root)
    if remedy := remedy_of(issued.evidence, command):
        say("fix", remedy)
    say("next", command)


def _reasons(issued: Certificate) -> Iterable[str]:
    """Return the policy rule of the ceiling, or else the tests that ran, and why the agent's status is lower."""
    lines = issued.verdict.ceiling.lines
    first = lines[0].because if lines else tests_told(issued.evidence)
    return filter(None, (first, issued.verdict.below_ceiling))


def _findings_screen(findings: tuple[Finding, ...], told: Collection[str]) -> None:
    """Print the number of findings, and those that were not printed while the session ran."""
    say("findings", counted(each.claim.severity for each in findings))
    untold = [each for each in findings if each.claim.fingerprint not in told]
    for each in untold[:_SHOWN]:
        say("", f"{each.claim.severity} {each.claim.rule} {each.claim.location} {each.claim.message}")
    if len(untold) > _SHOWN:
        say("", f"and {len(untold) - _SHOWN} more in the certificate")


def remedy_of(evidence: Iterable[Evidence], command: str) -> str:
    """Return the fix for the failed tool call that a command repeats; empty if there is none."""
    failed = (each.output for each in evidence if each.outcome is CallOutcome.FAILED and each.rerun == command)
    return next((str(each["remedy"]) for each in failed if "remedy" in each), "")


def _changes_screen(before: Certificate, after: Certificate) -> None:
    old = {each.claim.fingerprint: each for each in before.findings}
    new = {each.claim.fingerprint: each for each in after.findings}
    looked_at = {file.path for file in after.examined}
    unseen = {name for name, each in old.items() if each.claim.location.path not in looked_at}
    say("again", f"{before.verdict.status} before ({before.id}), {after.verdict.status} now")
    for label, names, source in (
        ("gone", old.keys() - new.keys() - unseen, old),
        ("new", new.keys() - old.keys(), new),
        ("still", old.keys() & new.keys(), new),
        ("not seen", unseen - new.keys(), old),
    ):
        places = sorted(f"{source[name].claim.rule} {source[name].claim.location}" for name in names)
        say(label, ", ".join(places) or "nothing")


def next_command(issued: Certificate, root: Path) -> str:
    """Return the next command after a verdict; one that allows the tests if they would decide.

    Args:
        issued: The certificate.
        root: Project directory; printed paths are relative to the current directory.
    """
    deciding = _deciding_command(issued, root)
    match issued.verdict.status:
        case Status.NEEDS_FURTHER_REVIEW | Status.CONDITIONALLY_APPROVED if deciding:
            return deciding
        case Status.NEEDS_FURTHER_REVIEW:
            blocking = sorted(issued.gaps, key=lambda gap: not gap.blocks_approval)
            return blocking[0].command if blocking else f"esper why {issued.id}"
        case (
            Status.REJECTED
            | Status.REQUIRES_REMEDIATION
            | Status.NO_GO
            | Status.DO_NOT_RECOMMEND
            | Status.EMERGENCY_STOP
        ):
            return f"{_again(issued)} # after fixing the findings"
        case Status.APPROVED | Status.CONDITIONALLY_APPROVED | Status.GO | Status.RECOMMEND | Status.ADVISORY_ONLY:
            return f"esper why {issued.id}"


def _again(issued: Certificate, allow: str = "") -> str:
    tools = dict.fromkeys((*issued.task.options.get("allow", "").split(), *allow.split()))
    return f"esper submit --again {issued.id}" + "".join(f" --allow {quote(each)}" for each in tools)


def _deciding_command(issued: Certificate, root: Path) -> str:
    """Return the command that runs the tests of the certified files; empty if they cannot decide.

    If tests are missing, a trailing comment names the files that need tests.
    """
    lines = {line.name: line for line in issued.verdict.ceiling.lines}
    blocking = any(gap.blocks_approval for gap in issued.gaps)
    calls = [each for each in issued.evidence if each.tool == _TESTS]
    is_settled = REPRODUCE in issued.task.options or not all(is_test_run(each) for each in calls)
    if "not-executed" not in lines or blocking or is_settled:
        return ""
    others = [line for name, line in lines.items() if name not in {"not-executed", "change-not-executed", _CHANGE}]
    if any(line.stance is issued.verdict.stance for line in others) and issued.verdict.kind is QuestionType.GO:
        return ""
    # Tests ran or were allowed, but executed none of the files: a repetition would not help.
    needs_tests = bool(calls) or _TESTS in issued.task.options.get("allow", "").split()
    unread = [path for each in calls for path, count, executed in coverage_rows(each) if count and not executed]
    named = ", ".join(dict.fromkeys(unread)) or ", ".join(issued.task.paths)
    comment = f" # after adding tests that call {named}" if needs_tests else ""
    if needs_tests and _CHANGE not in lines and issued.agent == _REVIEWER:
        return f"{_again(issued, _TESTS)}{comment}"
    # The change cannot be judged yet, but the current files can.
    request = _AS_IT_IS if _CHANGE in lines else ""
    agent = issued.task.agent if issued.agent == _REVIEWER else _REVIEWER
    again = issued.task.command(
        *(_shown(root, path) for path in issued.task.paths), allow=_TESTS, agent=agent, request=request
    )
    return f"{again}{comment}"


def _shown(root: Path, path: str) -> str:
    """Return a path relative to the current directory; absolute if it is outside."""
    target = root / path
    here = Path.cwd().resolve()
    return target.relative_to(here).as_posix() if target.is_relative_to(here) else str(target)


def as_data(outcome: SessionResult) -> dict[str, Any]:
    """Return the result of a session as JSON."""
    return {
        "session": outcome.session,
        "state": outcome.state,
        "route": asdict(outcome.route) if outcome.route else None,
        "certificate": asdict(outcome.certificate) if outcome.certificate else None,
        "view": str(outcome.view) if outcome.view else None,
        "findings": [asdict(each) for each in outcome.findings],
        "questions": [asdict(each) for each in outcome.questions],
        "stopped_by": outcome.stopped_by,
        "exit_code": int(outcome.exit_code),
    }
