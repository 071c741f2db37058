"""Run one measurement: opens the lab, shows progress, stores the report, ends all processes."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.api import (
    TargetProject,
    TargetSpec,
    WorkerError,
    find_target_project,
    open_measurement_lab,
    report_folder,
    with_captured_inputs,
)
from esper_agents.cli.live_output import say
from esper_agents.cli.terminal import clean, echo, echo_json, one_line, redact, width
from esper_agents.cli.torch.progress import progress
from esper_agents.errors import InterruptedCommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from esper_agents.api import MeasurementLab, MeasurementReport
    from esper_agents.cli.torch.options import MeasurementOptions
    from esper_agents.cli.torch.progress import Tell

_MOST_SAID_LINES = 10

Work: TypeAlias = "Callable[[MeasurementLab, TargetSpec], MeasurementReport]"
Show: TypeAlias = "Callable[[MeasurementReport, Console], None]"


def measure(
    kind: str, target: str, asked: MeasurementOptions, work: Work, show: Show, *, roots: Sequence[Path] = ()
) -> MeasurementReport:
    """Measure one target, print and store the report, and return it.

    Args:
        kind: Kind of measurement, such as `profile`.
        target: Target as given by the user.
        asked: Shared options.
        work: Performs the measurement; takes the measurements of the lab and the target.
        show: Prints the report.
        roots: Additional directories that measurement processes may read.

    Raises:
        UsageError: An option or the target is not valid.
        WorkerError: The target hung, crashed or raised; the known details were printed.
    """
    asked.refuse_two_inputs()
    place = find_target_project(target, Path.cwd())
    spec = TargetSpec(
        name=place.target,
        inputs=tuple(asked.input or ()),
        inputs_from=place.inside(asked.inputs) if asked.inputs else None,
        device=asked.device,
        seed=asked.seed or 0,
    )
    with report_folder(asked.out, place.home, kind) as folder, opened(place, asked, keep=folder, roots=roots) as bench:
        made = bench.measure(spec, asked, work)
        made = replace(made, body=redact({**made.body, "command": shlex.join(["esper", *sys.argv[1:]])}))
        (folder / "report.json").write_text(made.text(), encoding="utf-8")
    present(made, folder, show, as_json=asked.as_json)
    return made


def present(made: MeasurementReport, folder: Path, show: Show, *, as_json: bool) -> None:
    """Print a report and its path."""
    if as_json:
        echo_json(made.body)
        return
    show(made, screen())
    # Not wrapped, so that it can be copied.
    echo()
    if made.interpreter:
        say("measured", f"with {made.interpreter}")
    for text in made.packages_not_run:
        say("imported", text)
    echo(f"{'kept in':<11}{one_line(str(folder))}")


def screen() -> Console:
    """Return the console for reports: width of the terminal, no markup."""
    from rich.console import Console

    return Console(width=width(), markup=False, highlight=False)


@dataclass(frozen=True, slots=True)
class MeasurementRun:
    """Open lab of a command.

    Attributes:
        measuring: Measurements on the lab.
        place: Project of the target.
        shared: Directory that measurement processes can read but not write; None if nothing is captured.
    """

    measuring: MeasurementLab
    place: TargetProject
    shared: Path | None

    def measure(self, spec: TargetSpec, asked: MeasurementOptions, work: Work) -> MeasurementReport:
        """Perform the measurement, on captured inputs if requested."""
        if self.shared is None:
            return work(self.measuring, spec)
        named = replace(spec, captured_from=asked.capture)
        captured = self.measuring.captured(named, self.place.capture_source(asked.capture), self.shared)
        return with_captured_inputs(work(self.measuring, captured.target), captured)


@contextmanager
def opened(
    place: TargetProject, asked: MeasurementOptions, *, keep: Path | None, roots: Sequence[Path] = ()
) -> Iterator[MeasurementRun]:
    """Yield an open lab; Ctrl-C ends it and all its processes.

    Args:
        place: Project of the target.
        asked: Shared options.
        keep: Directory for artifacts; None to discard them.
        roots: Additional directories that measurement processes may read.

    Raises:
        InterruptedCommandError: The user pressed Ctrl-C.
        WorkerError: The measurement process failed; the known details were printed.
    """
    readable = asked.readable()
    shared = Path(tempfile.mkdtemp(prefix="esper-shared-")) if asked.capture else None
    try:
        with (
            _interruptible(),
            progress() as tell,
            open_measurement_lab(
                place,
                asked.settings(),
                readable=readable,
                roots=(*roots, *([shared] if shared else [])),
                keep=keep,
                tell=tell,
                waiting=_waiting(tell),
            ) as measuring,
        ):
            yield MeasurementRun(measuring, place, shared)
    except WorkerError as error:
        _explain(error, as_json=asked.as_json)
        raise
    except KeyboardInterrupt:
        raise InterruptedCommandError("interrupted; no report was kept", remedy="run it again") from None
    finally:
        if shared is not None:
            shutil.rmtree(shared, ignore_errors=True)


def _waiting(tell: Tell) -> Callable[[str], None]:
    """Return the reporter of the position in the queue: the progress line at a terminal, else standard error."""

    def say(what: str) -> None:
        if not sys.stderr.isatty():
            sys.stderr.write(f"esper: {one_line(what)}\n")
        tell(what, 0.0)

    return say


@contextmanager
def _interruptible() -> Iterator[None]:
    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    # A signal that is ignored, such as SIGHUP under nohup, stays ignored.
    heard = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, stop) for each in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _explain(error: WorkerError, *, as_json: bool) -> None:
    """Print the details of a failed measurement process; the error message follows on standard error."""
    if as_json:
        known: dict[str, Any] = {**error.described(), "remedy": error.remedy}
        echo_json({"error": known})
        return
    say("outcome", error.outcome)
    if error.where:
        say("where", error.where)
    lines = clean(error.said).splitlines()[-_MOST_SAID_LINES:]
    for number, line in enumerate(lines):
        echo(f"{'printed' if number == 0 else '':<11}| {one_line(line)}")
