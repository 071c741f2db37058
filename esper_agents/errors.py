"""The error classes and exit codes of esper-agents.

EsperError
├── UsageError ............... 2  wrong usage or bad input
│   ├── NotFoundError ........ 2  a name that nothing answers to (nearest names offered)
│   │   └── NoCertificatesError ... 2  the latest certificate of a project that has none
│   ├── InputFileError ....... 2  a path that cannot be reviewed
│   └── DefinitionError ...... 2  an agent or configuration file that cannot be used
├── EvidenceError ............ 4  something could not be measured or read
├── IntegrityError ........... 7  a certificate or archive that is not what it was
│   └── NewerRecordError ..... 4  a record that a newer esper-agents issued, which this one cannot judge
├── NotCurrentError .......... 8  a certificate that is genuine, and counts no more
├── BusyError ................ 75 another process owns the session
│   └── LeaseLostError ....... 75 the lease went to another owner while this one was working
├── DriftError ............... 1  a playbook no longer makes the moves that the ledger recorded
├── ReasonerError ............ 1  a reasoner made a move that cannot be carried out
├── ModelError ............... 1  a language model's server gave no answer that can be used
│   └── ModelBusyError ....... 75 it cannot be reached, or takes no more requests for now
│       └── OverloadedError .. 75 it is there, and takes no more requests for a model for now
└── StorageError ............. 1  the database or its disk does not work
    └── NewerDatabaseError ... 1  the database was written by a newer esper-agents
"""

from __future__ import annotations

from difflib import get_close_matches
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class ExitCode(IntEnum):
    """What the command line exits with, for verdicts and for errors alike."""

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
    """One line that says what is wrong and one that says how to mend it.

    Attributes:
        problem: What is wrong; lower case, no full stop.
        remedy: A command or an edit that mends it and can be made now.
        exit_code: What the command line exits with.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[Callable[..., EsperError], tuple[type[EsperError], dict[str, object]]]:
        """Survive pickling whatever the subclass's own signature is."""
        return _rebuild, (type(self), dict(self.__dict__))


class UsageError(EsperError):
    """The person asked for something that cannot be done as asked."""

    exit_code = ExitCode.USAGE


class NotFoundError(UsageError):
    """A name that nothing answers to.

    Attributes:
        what: The kind of thing, such as `agent`.
        name: The name that was given.
    """

    def __init__(self, what: str, name: str, known: Iterable[str], *, listing: str) -> None:
        close = get_close_matches(name, sorted(known), n=3, cutoff=0.5)
        hint = "did you mean " + " or ".join(repr(each) for each in close) + "?" if close else f"run `{listing}`"
        super().__init__(f"no {what} named {name!r}", remedy=hint)
        self.what = what
        self.name = name


class NoCertificatesError(NotFoundError):
    """The latest certificate of a project was asked for, and the project has none."""

    def __init__(self) -> None:
        UsageError.__init__(
            self, "the project has no certificates", remedy='make one: esper submit "review this code" FILE'
        )
        self.what = "certificate"
        self.name = "latest"


class InputFileError(UsageError):
    """A path that cannot be reviewed.

    Attributes:
        path: The path as the person gave it.
    """

    def __init__(self, path: str, problem: str, *, remedy: str) -> None:
        super().__init__(f"{problem}: {path!r}", remedy=remedy)
        self.path = path


class DefinitionError(UsageError):
    """An agent, policy or configuration file that cannot be used.

    Attributes:
        path: The file.
        line: The line, from 1, or None where the whole file is meant.
    """

    def __init__(self, path: str, problem: str, *, remedy: str, line: int | None = None) -> None:
        where = path if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {problem}", remedy=remedy)
        self.path = path
        self.line = line


class EvidenceError(EsperError):
    """Something could not be measured or read; never a zero, and the verdict stays undecided."""

    exit_code = ExitCode.UNDECIDED


class IntegrityError(EsperError):
    """A certificate or archive that is not what it was when it was issued."""

    exit_code = ExitCode.TAMPERED


class NewerRecordError(IntegrityError):
    """A record that a newer esper-agents issued. It may be all that it should be; this program cannot tell."""

    exit_code = ExitCode.UNDECIDED


class NotCurrentError(EsperError):
    """A certificate that is what was issued and counts no more: something revoked or superseded it."""

    exit_code = ExitCode.NOT_CURRENT


class BusyError(EsperError):
    """Another process owns the session."""

    exit_code = ExitCode.BUSY


class LeaseLostError(BusyError):
    """The lease went to another owner while this one was working; nothing of it was written."""


class DriftError(EsperError):
    """A playbook no longer makes the moves that the ledger recorded."""


class ReasonerError(EsperError):
    """A reasoner made a move that cannot be carried out."""


class ModelError(EsperError):
    """A language model's server gave no answer that can be used; the session goes on where it was.

    Attributes:
        used: What its answers have used all the same, as the record of a decision says it; empty where nothing.
    """

    used: Mapping[str, object] = MappingProxyType({})


class ModelBusyError(ModelError):
    """The server cannot be reached, or takes no more requests for now."""

    exit_code = ExitCode.BUSY


class OverloadedError(ModelBusyError):
    """The server is there, and takes no more requests for a model for now; it may take some for another."""


class StorageError(EsperError):
    """The database, or the disk under it, does not work."""


class NewerDatabaseError(StorageError):
    """The database was written by a newer esper-agents."""
