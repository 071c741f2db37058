"""The error classes and exit codes of esper-agents.

EsperError
├── UsageError ............... 2  wrong usage or bad input
│   ├── NotFoundError ........ 2  an unknown name (the message suggests similar names)
│   │   └── NoCertificatesError ... 2  `latest` in a project without certificates
│   ├── InputFileError ....... 2  a path that cannot be reviewed
│   └── DefinitionError ...... 2  an agent or configuration file that cannot be used
├── EvidenceError ............ 4  something could not be measured or read
├── IntegrityError ........... 7  a certificate or archive that was modified
│   └── NewerRecordError ..... 4  a record of a newer esper-agents, which this version cannot verify
├── NotCurrentError .......... 8  an authentic certificate that was revoked or superseded
├── BusyError ................ 75 another process owns the session
│   └── LeaseLostError ....... 75 another process took the lease during the run
├── DriftError ............... 1  a playbook decides other actions than the ledger recorded
├── ReasonerError ............ 1  a reasoner returned an action that cannot be carried out
├── ModelError ............... 1  the model server returned no usable response
│   └── ModelBusyError ....... 75 the model server is unreachable or accepts no requests
│       └── OverloadedError .. 75 the model server is overloaded for one model
├── CodeHostError ............ 1  a code host such as GitHub refused a comment or is unreachable
├── ClusterError ............. 1  the Ray cluster cannot be used or was lost
├── StorageError ............. 1  the database or its disk failed
│   └── NewerDatabaseError ... 1  the database was written by a newer esper-agents
└── InterruptedCommandError .. 130 the user interrupted the command
"""

from __future__ import annotations

from difflib import get_close_matches
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class ExitCode(IntEnum):
    """Exit codes of the command line, for verdicts and errors."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    AGAINST = 3
    UNDECIDED = 4
    BUDGET = 5
    EMERGENCY_STOP = 6
    TAMPERED = 7
    NOT_CURRENT = 8
    WAITING = 9
    CANCELLED = 10
    BUSY = 75
    INTERRUPTED = 130


def _rebuild(cls: type[EsperError], state: dict[str, object]) -> EsperError:
    error = cls.__new__(cls)
    error.__dict__.update(state)
    error.args = (error.problem,)
    return error


class EsperError(Exception):
    """An error with one line for the problem and one for the fix.

    Attributes:
        problem: Description of the problem; lower case, no full stop.
        remedy: A command or an edit that fixes it and can be made now.
        exit_code: Exit code of the command line.
        kind: Name of the class of errors in the JSON output of the command line; it never changes.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    kind: ClassVar[str] = "internal"

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[Callable[..., EsperError], tuple[type[EsperError], dict[str, object]]]:
        """Support pickling whatever the signature of the subclass is."""
        return _rebuild, (type(self), dict(self.__dict__))


class UsageError(EsperError):
    """An invalid request by the user."""

    exit_code = ExitCode.USAGE
    kind = "usage"


class NotFoundError(UsageError):
    """An unknown name.

    Attributes:
        what: The type of object, such as `agent`.
        name: The name that was given.
    """

    kind = "not-found"

    def __init__(self, what: str, name: str, known: Iterable[str], *, listing: str) -> None:
        names = sorted(known)
        # An agent or a skill of the project or of a plugin has a prefix.
        close = [each for each in names if each.endswith(f":{name}")] or get_close_matches(name, names, n=3, cutoff=0.5)
        hint = "did you mean " + " or ".join(repr(each) for each in close) + "?" if close else f"run `{listing}`"
        super().__init__(f"no {what} named {name!r}", remedy=hint)
        self.what = what
        self.name = name


class NoCertificatesError(NotFoundError):
    """A reference to the latest certificate of a project without certificates."""

    def __init__(self) -> None:
        UsageError.__init__(
            self, "the project has no certificates", remedy='create one: esper submit "review this code" FILE'
        )
        self.what = "certificate"
        self.name = "latest"


class InputFileError(UsageError):
    """A path that cannot be reviewed.

    Attributes:
        path: The path as the user gave it.
    """

    kind = "input-file"

    def __init__(self, path: str, problem: str, *, remedy: str) -> None:
        super().__init__(f"{problem}: {path!r}", remedy=remedy)
        self.path = path


class DefinitionError(UsageError):
    """An agent, policy or configuration file that cannot be used.

    Attributes:
        path: The file.
        line: The line, from 1, or None if the problem concerns the whole file.
    """

    kind = "definition"

    def __init__(self, path: str, problem: str, *, remedy: str, line: int | None = None) -> None:
        where = path if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {problem}", remedy=remedy)
        self.path = path
        self.line = line


class EvidenceError(EsperError):
    """Something could not be measured or read; this is never reported as zero, and the verdict stays undecided."""

    exit_code = ExitCode.UNDECIDED
    kind = "evidence"


class IntegrityError(EsperError):
    """A certificate or archive that was modified after it was issued."""

    exit_code = ExitCode.TAMPERED
    kind = "integrity"


class NewerRecordError(IntegrityError):
    """A record issued by a newer esper-agents; it may be valid, but this version cannot verify it."""

    exit_code = ExitCode.UNDECIDED
    kind = "newer-record"


class NotCurrentError(EsperError):
    """An authentic certificate that is no longer current because it was revoked or superseded."""

    exit_code = ExitCode.NOT_CURRENT
    kind = "not-current"


class BusyError(EsperError):
    """Another process owns the session."""

    exit_code = ExitCode.BUSY
    kind = "busy"


class LeaseLostError(BusyError):
    """Another process took the lease during the run; no later write of this process was stored."""


class DriftError(EsperError):
    """A playbook decides other actions than the ledger recorded."""

    kind = "drift"


class ReasonerError(EsperError):
    """A reasoner returned an action that cannot be carried out."""

    kind = "reasoner"


class ModelError(EsperError):
    """A model server returned no usable response; the session can be resumed at the same step.

    Attributes:
        used: Usage of its responses nevertheless, in the form of a decision's record; empty if there was none.
    """

    kind = "model"

    used: Mapping[str, object] = MappingProxyType({})


class ModelBusyError(ModelError):
    """The model server is unreachable or accepts no requests at present."""

    exit_code = ExitCode.BUSY
    kind = "model-busy"


class OverloadedError(ModelBusyError):
    """The model server is overloaded for one model at present; it may accept requests for another."""


class CodeHostError(EsperError):
    """A code host refused a comment, is unreachable, or returned no usable response."""

    kind = "code-host"


class ClusterError(EsperError):
    """A Ray cluster that cannot be used, or that was lost."""

    kind = "cluster"


class StorageError(EsperError):
    """A failure of the database or of its disk."""

    kind = "storage"


class NewerDatabaseError(StorageError):
    """A database written by a newer esper-agents."""

    kind = "newer-database"


class InterruptedCommandError(EsperError):
    """A command that the user interrupted with Ctrl-C."""

    exit_code = ExitCode.INTERRUPTED
    kind = "interrupted"
