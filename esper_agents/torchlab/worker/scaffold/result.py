"""Result of the job `scaffold`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..results import WrittenFile


@dataclass(frozen=True, slots=True)
class HarnessArgument:
    """Argument of a constructor or a call.

    Attributes:
        name: Name of the parameter.
        text: Its value as source text.
        imports: Modules and names that the text uses.
        is_positional: Whether it is passed by position.
    """

    name: str
    text: str
    imports: tuple[tuple[str, str], ...] = ()
    is_positional: bool = True


@dataclass(frozen=True, slots=True)
class ScaffoldRun:
    """Run of the target.

    Attributes:
        stage: `make` or `call`, where it failed; empty if it returned.
        error: Type and message of the exception; empty if it returned.
        make: Arguments of the constructor.
        call: Arguments of the call.
    """

    stage: str
    error: str
    make: str
    call: str


@dataclass(frozen=True, slots=True)
class ScaffoldCapture:
    """Call of the target by a script or test, whose arguments began the search.

    Attributes:
        source: The script, function or test.
        calls: Number of calls, at most eight.
        shapes: Different shapes of their tensors.
        has_values: Whether the tensors of the first call are saved.
        nbytes: Bytes of these tensors.
        unwritten: Parameters whose values cannot be written, with their types.
        guessed: Arguments that are not those of the call.
        ended: Exception that ended the source; empty if there was none.
    """

    source: str
    calls: int
    shapes: tuple[str, ...]
    has_values: bool
    nbytes: int
    unwritten: tuple[str, ...]
    guessed: tuple[str, ...]
    ended: str

    @property
    def is_whole(self) -> bool:
        """Whether every input is that of the call."""
        return not self.guessed and (self.has_values or not self.nbytes)


@dataclass(frozen=True, slots=True)
class ScaffoldSearch:
    """Measured part of a result.

    Attributes:
        target: The target.
        harness: Harness file, relative to the project; empty if none was written.
        kind: `class`, `method` or `function`.
        module: Name under which its module is imported.
        qualname: Name in its module.
        folder: Folder for the import path, relative to the project.
        file: File of the definition; empty outside the project.
        line: Line of the definition; 0 outside the project.
        make: Arguments of the constructor.
        call: Arguments of the call.
        runs: First runs of the search, in order.
        number: Number of runs.
        ended: Reason for the end of the search: `found`, `direct` (no argument is needed), `edited` (the user's own
            harness was run), `captured` (a harness with captured inputs was run), `gpu`, `package`, `network`,
            `exit`, `abstract`, `unstable`, `hang`, `runs`, `time` or `exhausted`.
        output: Description of what the target returned.
        trains: Whether backward runs from the output.
        backward: Exception of backward; empty if it raised none.
        captured: Call whose arguments were taken; None without a capture.
        artifacts: Files that the job left: the tensors of the call.
    """

    target: str
    harness: str
    kind: str
    module: str
    qualname: str
    folder: str
    file: str
    line: int
    make: tuple[HarnessArgument, ...]
    call: tuple[HarnessArgument, ...]
    runs: tuple[ScaffoldRun, ...]
    number: int
    ended: str
    output: str
    trains: bool
    backward: str = field(default="", kw_only=True)
    captured: ScaffoldCapture | None = field(default=None, kw_only=True)
    artifacts: tuple[WrittenFile, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class HarnessRun:
    """Run of a harness, with what it returned in words."""

    output: str
