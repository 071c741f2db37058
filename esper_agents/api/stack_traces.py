"""Explanations of stack traces and error messages, from a text or from a command that fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, BinaryIO

from esper_agents.api.service import Service
from esper_agents.errors import InputFileError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.traces.explain import TraceExplanation

_TOOL = "explain-trace"
_LARGEST = 20_000_000
_KEPT = 1_000_000
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class ExplainedCommand:
    """A command that was run, with the explanation of its failure.

    Attributes:
        exit_code: Exit code of the command; 128 and the signal number if a signal ended it.
        explanation: Explanation; None if the command succeeded or printed neither a trace nor an error message.
    """

    exit_code: int
    explanation: TraceExplanation | None


def explain_trace(text: str, project: Path | None = None) -> TraceExplanation:
    """Return the explanation of the stack trace or error message in a text; runs nothing.

    Secrets in the text are replaced first.

    Args:
        text: Log, trace or message, of any form and machine.
        project: A path in the project that the trace comes from; None for the project of the current directory.

    Raises:
        UsageError: The text contains neither a stack trace nor an error message.

    Example:
        from esper_agents.api import explain_trace

        explanation = explain_trace("RuntimeError: Cannot re-initialize CUDA in forked subprocess.")
        print(explanation.answer, explanation.fix)
    """
    from esper_agents.certificates.redaction import redacted
    from esper_agents.git.find_project import find_project
    from esper_agents.traces.explain import explain_text

    root = Path(find_project([project] if project else [], Path.cwd()).root)
    return explain_text(redacted(text).value, root)


def read_trace_file(path: Path) -> str:
    """Return the text of a log file, without the middle of a very large one.

    Raises:
        InputFileError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST)
    except OSError as error:
        remedy = "name a log file, or `-` for standard input"
        raise InputFileError(str(path), (error.strerror or "unreadable").lower(), remedy=remedy) from error
    return data.decode("utf-8", "replace")


def is_error_text(words: str) -> bool:
    """Return whether words are an error message or a trace themselves, and not the name of a file."""
    if "\n" in words or os.path.lexists(words):
        return "\n" in words
    return " " in words.strip() and re.search(r"\w(?:Error|Exception|Warning)\b|: |\S+ \S+ \S+", words) is not None


def explain_command(command: Sequence[str], project: Path | None = None) -> ExplainedCommand:
    """Run a command outside of the sandbox, pass its output through, and explain its failure.

    Nothing is stored. The command gets the terminal's standard input and the environment of this process.

    Args:
        command: Program and arguments.
        project: As in `explain_trace`.

    Raises:
        UsageError: The program does not exist or cannot be executed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        process = subprocess.Popen(
            list(command),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PYTHONUNBUFFERED": "1", **os.environ},
        )
    except OSError as error:
        reason = (error.strerror or "it cannot be executed").lower()
        raise UsageError(f"cannot run {command[0]!r}: {reason}", remedy="name a program, as in a shell") from error
    kept = [bytearray(), bytearray()]
    copies = [
        Thread(target=_copy, args=(source, target.fileno(), part), daemon=True)
        for source, target, part in zip((process.stdout, process.stderr), (sys.stdout, sys.stderr), kept, strict=True)
    ]
    for copy in copies:
        copy.start()
    code = _wait(process)
    for copy in copies:
        copy.join()
    exit_code = code if code >= 0 else 128 - code
    if exit_code == 0:
        return ExplainedCommand(0, None)
    # Python prints traces to standard error, pytest to standard output.
    for part in reversed(kept):
        try:
            return ExplainedCommand(exit_code, explain_trace(part.decode("utf-8", "replace"), project))
        except UsageError:
            continue
    return ExplainedCommand(exit_code, None)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a process; an interrupt is its own to handle, as in a shell."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return process.wait()
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, previous)


def _copy(source: BinaryIO, target: int, kept: bytearray) -> None:
    """Copy a stream to a file descriptor, and keep its last bytes."""
    while data := os.read(source.fileno(), _CHUNK):
        kept += data
        del kept[:-_KEPT]
        try:
            os.write(target, data)
        except OSError:  # the reader of the output is gone; the command goes on
            continue


class TraceService(Service):
    """Stack traces and error messages of an open project."""

    async def explain_session(self, session_id: str) -> TraceExplanation:
        """Return the explanation of the error that a session was asked about, with the code as it is now.

        Args:
            session_id: Identifier, unique part of it, or `latest`.

        Raises:
            NotFoundError: There is no such session.
            UsageError: Its request contains neither a stack trace nor an error message.
        """
        found = await self._project.sessions.get(session_id)
        history = await self._project.sessions.history(found.id)
        calls = (each.arguments.get("text") for each in history.evidence() if each.tool == _TOOL)
        return self.explain(str(next(calls, history.begun.task.request)))

    def explain(self, text: str) -> TraceExplanation:
        """Return the explanation of the stack trace or error message in a text; see `explain_trace`."""
        return explain_trace(text, self._root)
