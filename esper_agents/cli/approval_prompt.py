"""Prompt and screens for the questions of one turn: shown together, answered together or one by one."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from esper_agents.cli.answer_prompt import choice, commands, is_decision
from esper_agents.cli.terminal import echo, one_line, report, say, short
from esper_agents.domain.approval_scope import ONE_QUESTION, AnswerReach, ScopeKind
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.api import OpenProject, Session
    from esper_agents.domain.ledger import UserQuestion

_INDENT = " " * 11
_MOST_LINES = 40
_APPROVE, _DENY, _SESSION, _PREFIX, _EACH = "approve", "deny", "session", "prefix", "each"
_COMMAND = "$ "


def show_preview(question: UserQuestion, *, is_full: bool = False) -> None:
    """Print the diff or command line of a question, indented so that it cannot pass for other output."""
    lines = question.preview.splitlines()
    shown = lines if is_full else lines[:_MOST_LINES]
    for line in shown:
        echo(f"{_INDENT}{line}", is_data=True)
    if len(lines) > len(shown):
        echo(f"{_INDENT}({len(lines) - len(shown)} more lines: esper approvals list --full)")


def show_waiting(session: str, questions: Sequence[UserQuestion]) -> None:
    """Print the questions of a waiting session, each with the commands that answer it."""
    say("waiting", "for a person" if len(questions) == 1 else f"for a person: {len(questions)} questions")
    for number, question in enumerate(questions, start=1):
        _show(question, number if len(questions) > 1 else 0)
        for label, command in zip(("next", "or"), commands(question), strict=False):
            say(label, command)
    if len(questions) > 1 and all(is_decision(each.options) for each in questions):
        say("or", f"esper approve {short(session)} --all  # all {len(questions)}, in this order")


def _show(question: UserQuestion, number: int = 0) -> None:
    say("question", f"{f'{number}. ' if number else ''}{question.text}{choice(question)}")
    show_preview(question)


async def ask_questions(project: OpenProject, session: str, questions: Sequence[UserQuestion]) -> Session | None:
    """Ask the questions of a session at the terminal; return None if the user ends the input.

    Each answer is recorded when it is given.
    """
    is_together = len(questions) > 1 and all(is_decision(each.options) for each in questions)
    if is_together:
        say("waiting", f"for you: {len(questions)} calls, which run in this order")
    for number, question in enumerate(questions, start=1):
        say("question", f"{f'{number}. ' if is_together else ''}{question.text}")
        show_preview(question, is_full=True)
    is_answered = await (_answer_together(project, questions) if is_together else _answer_each(project, questions))
    return await project.approvals.resume(session) if is_answered else None


async def _answer_together(project: OpenProject, questions: Sequence[UserQuestion]) -> bool:
    while (
        said := await _read(f"{_APPROVE} all, {_DENY} all, {_SESSION}: approve all for this session, {_EACH}")
    ) is not None:
        if said == _EACH:
            return await _answer_each(project, questions, is_shown=False)
        if said not in {_APPROVE, _DENY, _SESSION}:
            known = f"answer {_APPROVE}, {_DENY}, {_SESSION} or {_EACH}"
            report(UsageError(f"{said[:60]!r} is not a valid answer", remedy=known))
            continue
        text, reach = _parsed(questions[0], said)
        if await _record(project, questions[0], text, AnswerReach(is_all=True, kind=reach.kind)):
            return True
    return False


async def _answer_each(project: OpenProject, questions: Sequence[UserQuestion], *, is_shown: bool = True) -> bool:
    for number, question in enumerate(questions, start=1):
        # An approval for the session may have answered it.
        if not await _is_open(project, question):
            continue
        if not is_shown:
            say("question", f"{number}. {question.text}")
        while (said := await _read(_choices(question))) is not None:
            if await _record(project, question, *_parsed(question, said)):
                break
        else:
            return False
    return True


async def _record(project: OpenProject, question: UserQuestion, text: str, reach: AnswerReach) -> bool:
    """Record an answer; report a refused one if the question can be answered again."""
    try:
        await project.approvals.record(question.id, text, reach=reach)
    except UsageError as error:
        if not await _is_open(project, question):
            raise
        report(error)
        return False
    return True


def _parsed(question: UserQuestion, said: str) -> tuple[str, AnswerReach]:
    """Return the answer and its reach; words count as an answer if the question is no approval of a tool."""
    first, _, rest = said.partition(" ")
    if question.tool and said == _SESSION:
        return _APPROVE, AnswerReach(kind=ScopeKind.SESSION)
    if question.tool and first == _PREFIX:
        return _APPROVE, AnswerReach(kind=ScopeKind.PREFIX, prefix=rest.strip())
    return said, ONE_QUESTION


def _choices(question: UserQuestion) -> str:
    if not question.tool or not is_decision(question.options):
        return choice(question).strip()
    more = f", {_PREFIX} WORDS: and commands that begin with WORDS" if question.preview.startswith(_COMMAND) else ""
    return f"{_APPROVE}, {_DENY}, {_SESSION}: approve {question.tool} for this session{more}"


async def _read(choices: str) -> str | None:
    """Return a line of input; None if the user ends the input.

    Raises:
        KeyboardInterrupt: The user pressed Ctrl-C.
    """
    if choices:
        echo(one_line(choices))
    loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
    has_line = loop.create_future()

    def end_wait(is_line: bool) -> None:
        if not has_line.done():
            has_line.set_result(is_line)

    # Not `input`: it misses a Ctrl-C that comes between its prompt and its read, and waits for ever.
    loop.add_signal_handler(signal.SIGINT, end_wait, False)
    loop.add_reader(stdin, end_wait, True)
    sys.stdout.write("> ")
    sys.stdout.flush()
    try:
        if not await has_line:
            raise KeyboardInterrupt
        line = sys.stdin.readline()
    finally:
        loop.remove_reader(stdin)
        loop.remove_signal_handler(signal.SIGINT)
    if not line:
        echo()
        return None
    return line.strip()


async def _is_open(project: OpenProject, question: UserQuestion) -> bool:
    return question.id in {asked.id for _, asked in await project.approvals.questions()}
