"""Run one measurement: opens the lab, shows progress, stores the report, ends all processes."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.certificates.signing.signing_key import secret_places
from esper_agents.cli.live_output import say
from esper_agents.cli.terminal import clean, echo, echo_json, one_line, redact, report, width
from esper_agents.cli.torch.progress import progress
from esper_agents.cli.torch.target_project import TargetProject, place_of
from esper_agents.errors import ExitCode, UsageError
from esper_agents.paths import home
from esper_agents.tools.withheld_files import withheld_files
from esper_agents.torchlab.capture import SUFFIX, with_captured
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker_failure import WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from esper_agents.cli.torch.options import MeasurementOptions
    from esper_agents.torchlab.capture import CapturedTarget
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import Tell

_MOST_SAID_LINES = 10

Work: TypeAlias = "Callable[[Lab, TargetSpec, Tell], MeasurementReport]"
Show: TypeAlias = "Callable[[MeasurementReport, Console], None]"


def measure(kind: str, target: str, asked: MeasurementOptions, work: Work, show: Show) -> MeasurementReport:
    """Measure one target, print and store the report, and return it.

    Args:
        kind: Kind of measurement, such as `profile`.
        target: Target as given by the user.
        asked: Shared options.
        work: Performs the measurement; takes the lab, the target and a progress callback.
        show: Prints the report.

    Raises:
        UsageError: An option or the target is not valid.
        WorkerError: The target hung, crashed or raised; the known details were printed.
    """
    asked.refuse_two_inputs()
    place = place_of(target, Path.cwd())
    spec = TargetSpec(
        name=place.target,
        inputs=tuple(asked.input or ()),
        inputs_from=place.inside(asked.inputs) if asked.inputs else None,
        device=asked.device,
        seed=asked.seed or 0,
    )
    with kept_in(asked.out, place, kind) as folder, opened(place, asked, keep=folder) as bench:
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
    echo(f"{'kept in':<11}{one_line(str(folder))}")


def screen() -> Console:
    """Return the console for reports: width of the terminal, no markup."""
    from rich.console import Console

    return Console(width=width(), markup=False, highlight=False)


@dataclass(frozen=True, slots=True)
class MeasurementRun:
    """Open lab with its progress line.

    Attributes:
        lab: Lab that runs the code.
        place: Project of the target.
        shared: Directory that measurement processes can read but not write.
        tell: Progress callback of a measurement.
    """

    lab: Lab
    place: TargetProject
    shared: Path
    tell: Tell

    def measure(self, spec: TargetSpec, asked: MeasurementOptions, work: Work) -> MeasurementReport:
        """Perform the measurement, on captured inputs if requested."""
        if not asked.capture:
            return work(self.lab, spec, self.tell)
        captured = self.captured(spec, asked)
        made = work(self.lab, captured.target, self.tell)
        body = {**made.body, "captured": captured.described()}
        return replace(made, body=body, made=(*made.made, captured.record))

    def captured(self, spec: TargetSpec, asked: MeasurementOptions) -> CapturedTarget:
        """Record the calls of a target by a script, or load recorded ones."""
        is_record = asked.capture.endswith(SUFFIX)
        source = str(self.place.here / asked.capture) if is_record else self.place.inside(asked.capture)
        named = replace(spec, captured_from=asked.capture)
        return with_captured(self.lab, named, source, self.shared, tell=self.tell)


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
        SystemExit: With 130 after Ctrl-C.
        WorkerError: The measurement process failed; the known details were printed.
    """
    asked_files = asked.readable()
    outside = (path for path in asked_files if not path.is_relative_to(place.root.resolve()))
    shared = Path(tempfile.mkdtemp(prefix="esper-shared-"))

    def withhold(root: Path, environments: Sequence[Path]) -> Sequence[Path]:
        return withheld_files(root, asked=asked_files, environments=environments)

    try:
        with _interruptible(), progress() as tell:
            waiting = _Waiting(tell)
            lab = Lab(
                place.root,
                asked.settings(),
                roots=(*roots, shared, *outside),
                hidden=secret_places(home()),
                withhold=withhold,
                keep=keep,
                tell=waiting,
            )
            with lab:
                waiting.is_over = True
                yield MeasurementRun(lab, place, shared, tell)
    except WorkerError as error:
        _explain(error, as_json=asked.as_json)
        raise
    except KeyboardInterrupt:
        report(UsageError("interrupted; no report was kept", remedy="run it again"))
        raise SystemExit(ExitCode.INTERRUPTED) from None
    finally:
        shutil.rmtree(shared, ignore_errors=True)


class _Waiting:
    """Reporter of the reason why a lab waits before it opens, on standard error."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.is_over = False

    def __call__(self, what: str, fraction: float) -> None:
        if not self.is_over and not sys.stderr.isatty():
            sys.stderr.write(f"esper: {one_line(what)}\n")
        self._tell(what, fraction)


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


@contextmanager
def kept_in(out: Path | None, place: TargetProject, kind: str) -> Iterator[Path]:
    """Yield the directory for a report and its artifacts; an empty one is removed afterwards.

    Raises:
        UsageError: The directory cannot be created.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    folder = (out if out is not None else place.home / "torch" / f"{stamp}-{kind}").absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"no report can be kept in {str(folder)!r}: {error.strerror}", remedy="name another folder with --out"
        ) from error
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()


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
