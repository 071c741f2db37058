"""Failures of a measurement caused by user code: each way has a name, and none is our own traceback."""

from __future__ import annotations

import re
import shlex
import signal
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from esper_agents.domain.codec import first_problem, parsed
from esper_agents.errors import EvidenceError
from esper_agents.torchlab.worker.process.channel import CHANNEL_LOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.worker.results import UserFrame
    from esper_agents.torchlab.worker.target.result import RaisedDescription

T = TypeVar("T")


class WorkerFailureKind(StrEnum):
    """Kind of failure of a measurement process."""

    RAISED = "raised"
    HANG = "hang"
    CRASHED = "crashed"
    EXITED = "exited"
    OUT_OF_MEMORY = "out-of-memory"
    CLOSED = "closed"
    GARBLED = "garbled"
    LIMIT = "limit"


class WorkerError(EvidenceError):
    """Failure of a measurement process caused by the code that it ran.

    Attributes:
        outcome: Kind of failure.
        where: `file:line` in the user's code, if known.
        said: End of its printed output.
        label: Name of the process if there are several: `baseline` or `candidate`.
    """

    def __init__(
        self, outcome: WorkerFailureKind, what: str, *, where: str = "", said: str = "", remedy: str = ""
    ) -> None:
        """Create the error.

        Args:
            outcome: Kind of failure.
            what: Problem in one line.
            where: `file:line` in the user's code.
            said: End of its printed output.
            remedy: Suggested fix; by location or outcome if omitted.
        """
        super().__init__(what, remedy=remedy or (f"look at {where}" if where else _REMEDIES[outcome]))
        self.outcome = outcome
        self.where = where
        self.said = said
        self.label = ""

    def described(self) -> JsonObject:
        """Return the failure as stored in reports."""
        return {"outcome": self.outcome.value, "problem": self.problem, "where": self.where, "said": self.said}


def read_result(shape: type[T], result: JsonObject) -> T:
    """Return the result of a measurement process as its data class.

    Raises:
        EvidenceError: It is not one; the error names the member.
    """
    try:
        return parsed(shape, result)
    except ValueError as error:
        what = f"the measurement process returned an invalid result: {first_problem(error)}"
        raise EvidenceError(what, remedy="measure again") from error


_PACKAGE = re.compile(r"No module named '(\w+)")
_REMEDIES = {
    WorkerFailureKind.RAISED: "run it by hand with the same inputs",
    WorkerFailureKind.HANG: "give it smaller inputs, or more time with --timeout",
    WorkerFailureKind.CRASHED: "run it by hand under `python -X faulthandler`",
    WorkerFailureKind.EXITED: "a target must return, not end the process",
    WorkerFailureKind.OUT_OF_MEMORY: "give it smaller inputs, or more memory with --max-memory",
    WorkerFailureKind.CLOSED: "a target must leave the files alone that it did not open",
    WorkerFailureKind.GARBLED: "a target must leave the files alone that it did not open",
    WorkerFailureKind.LIMIT: (
        "use fewer processes, smaller inputs or fewer files, or set --max-memory, --max-tasks or --max-disk"
    ),
}


def raised(name: str, error: RaisedDescription, said: str, *, withheld: str = "") -> WorkerError:
    """Return the error for an exception in user code.

    Args:
        name: The target.
        error: Exception as reported by the measurement process.
        said: End of its printed output.
        withheld: Unreadable file or folder, secret or ignored by git; empty if none.
    """
    where = f"{error.frames[-1].file}:{error.frames[-1].line}" if error.frames else ""
    first = (error.message.splitlines() or [""])[0][:300]
    if error.memory:
        return WorkerError(
            WorkerFailureKind.OUT_OF_MEMORY, f"{name} ran out of memory: {first}", where=where, said=said
        )
    what = f"{name} raised {error.type}{': ' + first if first else ''}"
    if withheld:
        what += f" ({withheld!r} is not readable in the sandbox: it is secret, or git ignores it)"
    remedy = (
        f"allow it with --read {shlex.quote(withheld)}; for an agent, name it in the task's paths"
        if withheld
        else _remedy_of_import(name, error.type, first, error.frames)
    )
    return WorkerError(WorkerFailureKind.RAISED, what, where=where, said=said, remedy=remedy)


def _remedy_of_import(name: str, kind: str, message: str, frames: Sequence[UserFrame]) -> str:
    """Return the fix for code that cannot be imported; empty for another exception."""
    if kind == "ModuleNotFoundError" and (package := _PACKAGE.search(message)):
        return f"install {package.group(1)} where torch is, or name an interpreter that has both with --python"
    last = frames[-1] if frames else None
    is_import = last is not None and last.function == "<module>" and last.file == name.partition(":")[0]
    if last is not None and is_import and kind in {"SystemExit", "OSError", "PermissionError", "EOFError"}:
        return f'put line {last.line} below `if __name__ == "__main__":`, so that the file can be imported'
    return ""


def exit_error(name: str, status: int | None, said: str) -> WorkerError:
    """Return the error for a process that ended without a reply.

    Args:
        name: The target.
        status: Exit code, negative for a signal; None if it still runs and only closed its channel.
        said: End of its printed output.
    """
    if status is None or status == CHANNEL_LOST:
        return WorkerError(WorkerFailureKind.CLOSED, f"{name} closed the channel it answers on", said=said)
    if "bad_alloc" in said or "MemoryError" in said:
        return WorkerError(WorkerFailureKind.OUT_OF_MEMORY, f"{name} ran out of memory", said=said)
    if status < 0:
        try:
            how = signal.Signals(-status).name
        except ValueError:
            how = f"signal {-status}"
        return WorkerError(WorkerFailureKind.CRASHED, f"{name} crashed with {how}", said=said)
    return WorkerError(
        WorkerFailureKind.EXITED, f"{name} ended its process (code {status}) without an answer", said=said
    )
