"""Options shared by all measurements: target, inputs, sandbox limits and output."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from esper_agents.api import Effort, LabSettings, seconds_to_stay
from esper_agents.domain.quantities import size_in_bytes
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementOptions:
    """Options shared by all measurements.

    Attributes:
        input: Inputs as texts, such as `randn(32,128)`.
        inputs: `FILE:FUNCTION` that returns the inputs instead.
        capture: `FILE.py`, `FILE.py:FUNCTION` or a `calls.espb`; provides the inputs of its calls of the target.
        train: Whether to include the backward pass.
        device: Device of modules and inputs.
        python: Python interpreter whose torch is measured.
        no_sandbox: Whether the sandbox is disabled.
        threads: Number of intra-op threads of torch.
        memory: Memory limit of the sandbox, such as `16G`.
        max_tasks: Limit of concurrent processes and threads, in total.
        max_disk: Limit of bytes written to disk, in total, such as `8G`.
        read: Files and directories that the code may read even if secret, ignored by git or outside the project.
        timeout: Time limit of one measurement step in seconds.
        keep_warm: Seconds for which a process with torch stays for the next command; the setting or default if empty.
        no_wait: Whether to fail instead of waiting for another timing.
        seed: Random seed; if None, a comparison draws one and other measurements use 0.
        out: Directory for report and artifacts.
        as_json: Whether to print only the report, as JSON.
    """

    input: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="SPEC", help='Input, e.g. "randn(32,128)" or "x=rand(4)" (repeatable)'),
    ] = None
    inputs: Annotated[str, typer.Option(metavar="FILE:FUNCTION", help="Function that returns the inputs")] = ""
    capture: Annotated[
        str,
        typer.Option(metavar="FILE.py", help="Record inputs by running this script or FILE.py:FUNCTION"),
    ] = ""
    train: Annotated[bool, typer.Option("--train", help="Include the backward pass")] = False
    device: Annotated[str, typer.Option(metavar="DEVICE", help="Device of modules and inputs, e.g. cuda")] = "cpu"
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Random seed (`compare` draws one if omitted)")
    ] = None
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Number of intra-op threads")] = 1
    memory: Annotated[
        str, typer.Option("--max-memory", metavar="SIZE", help="Memory limit of the sandbox, e.g. 500M")
    ] = "16G"
    max_tasks: Annotated[
        int, typer.Option(min=1, metavar="N", help="Limit of processes and threads in the sandbox")
    ] = LabSettings().tasks
    max_disk: Annotated[str, typer.Option(metavar="SIZE", help="Disk write limit of the sandbox, e.g. 500M")] = (
        f"{LabSettings().disk_bytes >> 30}G"
    )
    read: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Allow reading a path that git ignores (repeatable)"),
    ] = None
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Time limit of one measurement step")] = (
        120.0
    )
    keep_warm: Annotated[
        str, typer.Option(metavar="SECONDS", help="Keep torch loaded after the command [default: 300, 0: no]")
    ] = ""
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Fail if another timing is running")] = False
    python: Annotated[str, typer.Option(metavar="PATH", help="Python interpreter whose torch is measured")] = ""
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="Disable the sandbox (code runs with your permissions)")
    ] = False
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Directory for report and artifacts")
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON")] = False

    def settings(self) -> LabSettings:
        """Return the settings of the lab."""
        return LabSettings(
            python=self.python or None,
            is_unconfined=self.no_sandbox,
            memory_bytes=size_in_bytes(self.memory),
            timeout_s=self.timeout,
            threads=self.threads,
            tasks=self.max_tasks,
            disk_bytes=size_in_bytes(self.max_disk),
            keep_warm_s=seconds_to_stay(self.keep_warm),
            queue_s=0.0 if self.no_wait else LabSettings().queue_s,
        )

    def readable(self) -> tuple[Path, ...]:
        """Return the paths of --read as absolute paths with symlinks resolved.

        Raises:
            UsageError: A path does not exist.
        """
        for path in self.read or ():
            if not path.exists():
                raise UsageError(f"--read names {str(path)!r}, which does not exist", remedy="name a file or folder")
        return tuple(path.resolve() for path in self.read or ())

    def refuse_two_inputs(self) -> None:
        """Raise an error if more than one source of inputs is given.

        Raises:
            UsageError: More than one of --input, --inputs and --capture was given.
        """
        given = [
            name
            for name, text in (("--input", self.input), ("--inputs", self.inputs), ("--capture", self.capture))
            if text
        ]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} are mutually exclusive", remedy="keep one of them")


Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="FILE.py:FUNCTION or package.module:Class.method", show_default=False)
]

EffortOption = Annotated[Effort, typer.Option("--effort", help="Measurement time")]


def measuring(command: Callable[..., None], *, without: frozenset[str] = frozenset()) -> Callable[..., None]:
    """Return a command that accepts the shared options and passes them to the function as `asked`.

    Args:
        command: Function with a keyword parameter `asked: MeasurementOptions` and its own arguments and options.
        without: Names of shared options that it does not have.
    """
    hints = get_type_hints(MeasurementOptions, include_extras=True)
    shared = {name: hint for name, hint in hints.items() if name not in without}
    own = get_type_hints(command, include_extras=True)
    kept = [parameter for parameter in inspect.signature(command).parameters.values() if parameter.name != "asked"]

    def run(**given: Any) -> None:
        asked = MeasurementOptions(**{name: given.pop(name) for name in shared})
        command(asked=asked, **given)

    parameters = [each.replace(annotation=own[each.name], kind=each.KEYWORD_ONLY) for each in kept]
    parameters += [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=shared[field.name],
        )
        for field in fields(MeasurementOptions)
        if field.name in shared
    ]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run
