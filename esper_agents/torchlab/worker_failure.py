"""Failures of a measurement caused by user code: each way has a name, and none is our own traceback."""

from __future__ import annotations

import shlex
import signal
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.errors import EvidenceError
from esper_agents.torchlab.worker.process.channel import CHANNEL_LOST

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject


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


_REMEDIES = {
    WorkerFailureKind.RAISED: "run it by hand with the same inputs",
    WorkerFailureKind.HANG: "give it smaller inputs, or more time with --timeout",
    WorkerFailureKind.CRASHED: "run it by hand under `python -X faulthandler`",
    WorkerFailureKind.EXITED: "a target must return, not end the process",
    WorkerFailureKind.OUT_OF_MEMORY: "give it smaller inputs, or more memory with --memory",
    WorkerFailureKind.CLOSED: "a target must leave the files alone that it did not open",
    WorkerFailureKind.GARBLED: "a target must leave the files alone that it did not open",
    WorkerFailureKind.LIMIT: (
        "use fewer processes, smaller inputs or fewer files, or set --memory, --max-tasks or --max-disk"
    ),
}


def raised(name: str, described: JsonObject, said: str, *, withheld: str = "") -> WorkerError:
    """Return the error for an exception in user code.

    Args:
        name: The target.
        described: Exception as reported by the measurement process.
        said: End of its printed output.
        withheld: Unreadable file or folder, secret or ignored by git; empty if none.
    """
    frames = described.get("frames") or []
    where = f"{frames[-1]['file']}:{frames[-1]['line']}" if frames else ""
    first = (str(described["message"]).splitlines() or [""])[0][:300]
    if described.get("memory"):
        return WorkerError(
            WorkerFailureKind.OUT_OF_MEMORY, f"{name} ran out of memory: {first}", where=where, said=said
        )
    kind = str(described["type"])
    what = f"{name} raised {kind}{': ' + first if first else ''}"
    if withheld:
        what += f" ({withheld!r} is not readable in the sandbox: it is secret, or git ignores it)"
    remedy = (
        f"allow it with --read {shlex.quote(withheld)}; for an agent, name it in the task's paths" if withheld else ""
    )
    return WorkerError(WorkerFailureKind.RAISED, what, where=where, said=said, remedy=remedy)


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
