"""Run a session interactively: live view, questions, Ctrl-C, and the result screen."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from esper_agents.cli.approval_prompt import ask_questions, show_waiting
from esper_agents.cli.begun import sessions as begun
from esper_agents.cli.cost_summary import CostGrouping, as_row, by, total
from esper_agents.cli.live_output import Narrator, narrator, say
from esper_agents.cli.terminal import echo, echo_json, is_interactive, short
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from esper_agents.api import OpenProject, Session, SessionResult
    from esper_agents.domain.answer import Answer, AnswerLine
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.task import Task

_MOST_LINES, _SHOWN = 5, 3
_MOST_FACTS = 12
_MOST_CODE = 32
_ASSESSMENTS = {"open": "open", "description": "is", "fine": "fine", "documented": "documents"}
_ACTIVITY_EVERY_S = 10


def show_route(project: OpenProject, task: Task) -> tuple[str, ...]:
    """Print the route of a task before its session starts, which takes longer, and return the printed lines."""
    route = project.tasks.route(task)
    if not route.agent:
        # The session reports the refusal.
        return ()
    from esper_agents.api import route_line

    line = route_line(route.agent, route.explanation)
    say(*line)
    sys.stdout.flush()
    return (" ".join(line),)


async def run_interactively(
    project: OpenProject, session: Session, *, as_json: bool, shown: Collection[str] = ()
) -> int:
    """Run a session until it ends, or waits without a terminal to ask on, and return the exit code.

    Args:
        project: The project.
        session: The session.
        as_json: Whether to print only the result, as JSON.
        shown: Lines that were printed already; see `show_route`.
    """
    while True:
        outcome = await _run(session, shown, is_told=not as_json)
        if outcome.state not in {SessionState.OPEN, SessionState.WAITING}:
            begun.clear()
        if as_json:
            echo_json(await as_data(project, outcome))
        else:
            await _end_screen(project, outcome)
        if outcome.state is not SessionState.WAITING or as_json or not is_interactive():
            return int(outcome.exit_code)
        try:
            answered = await ask_questions(project, outcome.session, outcome.questions)
        except KeyboardInterrupt:
            await _show_open(project, outcome)
            raise
        if answered is None:
            await _show_open(project, outcome)
            return int(outcome.exit_code)
        session = answered


async def _show_open(project: OpenProject, outcome: SessionResult) -> None:
    """Print the questions that are still open, with the commands that answer them."""
    still_open = {question.id for _, question in await project.approvals.questions()}
    show_waiting(outcome.session, [question for question in outcome.questions if question.id in still_open])


@contextmanager
def _stoppable(session: Session) -> Iterator[None]:
    """Stop a session after its current step at the first signal, and at once at the second."""
    loop, running = asyncio.get_running_loop(), asyncio.current_task()

    def end(_number: int, _frame: object) -> None:
        # Python drops an exception that it raises while it collects garbage: the task ends all the same.
        if running is not None:
            loop.call_soon_threadsafe(running.cancel)
        raise KeyboardInterrupt

    def stop() -> None:
        session.stop(at_once=True)
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
            signal.signal(each, end)
        sys.stderr.write("stopping after the current step (Ctrl-C again to stop now)\n")

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop)
    try:
        yield
    except asyncio.CancelledError:
        if signal.getsignal(signal.SIGINT) is end:
            raise KeyboardInterrupt from None
        raise
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            if not loop.remove_signal_handler(each):
                signal.signal(each, signal.default_int_handler)


async def _run(session: Session, shown: Collection[str], *, is_told: bool) -> SessionResult:
    with _stoppable(session):
        if not is_told:
            return await session.run()
        is_attended = is_interactive()
        say("session", session.id)
        with narrator(shown, has_findings=False) as teller:
            telling = asyncio.create_task(_tell(session, teller))
            ticking = None if is_attended else asyncio.create_task(_report_activity(teller))
            try:
                return await session.run(teller.hear, is_attended=is_attended)
            finally:
                if ticking:
                    ticking.cancel()
                await telling


async def _report_activity(teller: Narrator) -> None:
    """Print long activities where no status line shows them."""
    while True:
        await asyncio.sleep(_ACTIVITY_EVERY_S)
        teller.report_activity()


async def _tell(session: Session, teller: Narrator) -> None:
    async for event in session.events():
        # Questions are printed with their previews when the session waits.
        if event.kind != "asked":
            teller.tell(event)


async def _end_screen(project: OpenProject, outcome: SessionResult) -> None:
    echo()
    await _cost_screen(project, outcome.session)
    match outcome.state:
        case SessionState.DONE if outcome.certificate:
            await _verdict_screen(project, outcome, await project.certificates.read(outcome.certificate.id))
        case SessionState.WAITING if not is_interactive():
            show_waiting(outcome.session, outcome.questions)
        case SessionState.REFUSED:
            say("next", "rephrase as a PyTorch request, or choose an agent with --agent")
        case SessionState.CANCELLED:
            say("cancelled", "without a verdict")
        case SessionState.WAITING:
            # The questions are asked next.
            return
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


async def _verdict_screen(project: OpenProject, outcome: SessionResult, issued: Certificate) -> None:
    if outcome.stopped_by:
        say("stopped", f"by the budget of {outcome.stopped_by}; what was still to be done is in the certificate")
    answer = await project.certificates.answer(issued.id)
    show_answer(answer, short(issued.id))
    if issued.task.again:
        _changes_screen(await project.certificates.read(issued.task.again), issued)
    if outcome.view:
        say("view", str(outcome.view))
    if remedy := remedy_of(issued.evidence, answer.next_command):
        say("fix", remedy)
    if answer.next_command:
        say("next", answer.next_command)


def show_answer(answer: Answer, certificate: str) -> None:
    """Print an answer without its next command: at most five findings, then their number.

    Args:
        answer: The answer.
        certificate: ID of the certificate, as commands accept it.
    """
    if answer.status is not Status.ADVISORY_ONLY:
        say("verdict", f"{answer.status} for {answer.subject}")
    say("answer", answer.text)
    _show_lines(answer, certificate)
    _show_facts(answer, certificate)
    for at, text in enumerate(answer.changed[:_MOST_LINES]):
        say("" if at else "changed", text)
    if len(answer.changed) > _MOST_LINES:
        say("", f"and {len(answer.changed) - _MOST_LINES} more: esper certificates show {certificate}")
    parts = {"ran": answer.ran, "measured": answer.measured, "before": answer.before, "not known": answer.unknown}
    for label, texts in parts.items():
        for at, text in enumerate(texts[:_SHOWN]):
            say("" if at else label, text)
    _show_draft(answer)
    if answer.model_text:
        say("model", f"{answer.model}: {answer.model_text}")
    _show_remarks(answer, certificate)


def _show_lines(answer: Answer, certificate: str) -> None:
    """Print at most five findings, each with what the model says about it, then the number of the others."""
    labelled = [("because", each) for each in answer.because] + [("also", each) for each in answer.also]
    last = ""
    for label, line in labelled[:_MOST_LINES]:
        say("" if label == last else label, _line(line))
        if line.remedy and (label == "because" or _is_stated(line)):
            say("", f"fix: {line.remedy}")
        for remark in line.remarks:
            say("", f"{answer.model}: {remark}")
        last = label
    if len(labelled) > _MOST_LINES:
        say("", f"and {len(labelled) - _MOST_LINES} more: esper certificates show {certificate}")


def _show_remarks(answer: Answer, certificate: str) -> None:
    """Print what the model says beside its summary: at most three lines of each kind, then the number of the others."""
    for label, texts in (
        ("condition", answer.conditions),
        ("caveat", answer.caveats),
        ("follow-up", answer.follow_ups),
    ):
        for at, text in enumerate(texts[:_SHOWN]):
            say("" if at else label, text)
        if len(texts) > _SHOWN:
            say("", f"and {len(texts) - _SHOWN} more: esper certificates show {certificate}")


def _show_draft(answer: Answer) -> None:
    """Print the beginning of a drafted test as it is."""
    lines = [line for part in answer.draft for line in (*part.splitlines(), "")][:-1]
    for at, line in enumerate(lines[:_MOST_CODE]):
        echo(f"{'' if at else 'draft':<11}{line}".rstrip())
    if len(lines) > _MOST_CODE:
        say("", f"and {len(lines) - _MOST_CODE} more lines in the file")


def _show_facts(answer: Answer, certificate: str) -> None:
    last = ""
    for fact in answer.facts[:_MOST_FACTS]:
        label = _ASSESSMENTS[fact.assessment]
        say("" if label == last else label, f"{fact.place}  {fact.text}")
        last = label
    if len(answer.facts) > _MOST_FACTS:
        say("", f"and {len(answer.facts) - _MOST_FACTS} more: esper certificates show {certificate}")


def _line(line: AnswerLine) -> str:
    rule = "" if _is_stated(line) else line.rule
    mark = f"({line.standing}, not confirmed)" if line.standing else ""
    return "  ".join(filter(None, (line.place_text, f"{rule} {line.text} {mark}".strip())))


def _is_stated(line: AnswerLine) -> bool:
    """Return whether an inspection stated a line: its query has a name, and no code with a page of its own."""
    return line.rule.islower()


def remedy_of(evidence: Iterable[Evidence], command: str) -> str:
    """Return the fix for the failed tool call that a command repeats; empty if there is none."""
    failed = (each.output for each in evidence if each.outcome is CallOutcome.FAILED and each.rerun == command)
    return next((str(each["remedy"]) for each in failed if "remedy" in each), "")


def _changes_screen(before: Certificate, after: Certificate) -> None:
    old = {finding.claim.fingerprint: finding for finding in before.findings}
    new = {finding.claim.fingerprint: finding for finding in after.findings}
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


async def as_data(project: OpenProject, outcome: SessionResult) -> dict[str, Any]:
    """Return the result of a session as JSON, with its answer and its cost."""
    issued = outcome.certificate
    return {
        "answer": asdict(await project.certificates.answer(issued.id)) if issued else None,
        "cost": [as_row(each) for each in await project.models.usage([outcome.session])],
        "session": outcome.session,
        "state": outcome.state,
        "route": asdict(outcome.route) if outcome.route else None,
        "certificate": asdict(outcome.certificate) if outcome.certificate else None,
        "view": str(outcome.view) if outcome.view else None,
        "findings": [asdict(finding) for finding in outcome.findings],
        "questions": [asdict(question) for question in outcome.questions],
        "stopped_by": outcome.stopped_by,
        "exit_code": int(outcome.exit_code),
    }
