"""Measurements of PyTorch code on an open lab, for callers without an open project."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.signing.signing_key import secret_places
from esper_agents.errors import UsageError
from esper_agents.paths import home
from esper_agents.tools.device_turn import device_turn
from esper_agents.tools.withheld_files import withheld_files
from esper_agents.torchlab.capture import with_captured
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.target import TargetSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from esper_agents.api.target_project import TargetProject
    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.capture import CapturedTarget
    from esper_agents.torchlab.compare.change_control import ChangeControl
    from esper_agents.torchlab.compare.compare import ComparisonRequest
    from esper_agents.torchlab.compare.measure import Arm
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import Tell


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementInputs:
    """Inputs and conditions of the calls of a target.

    Attributes:
        inputs: Input specifications, such as `randn(32,128)`.
        inputs_from: `FILE:FUNCTION` that returns the inputs instead.
        capture: `FILE.py`, `FILE.py:FUNCTION` or a `calls.espb` whose calls of the target provide the inputs.
        device: Device for modules and inputs.
        seed: Seed of every generator before the target is built.
    """

    inputs: tuple[str, ...] = ()
    inputs_from: str = ""
    capture: str = ""
    device: str = "cpu"
    seed: int = 0

    def spec(self, target: str) -> TargetSpec:
        """Return the specification of a target with these inputs.

        Raises:
            UsageError: More than one source of inputs is given.
        """
        if sum(map(bool, (self.inputs, self.inputs_from, self.capture))) > 1:
            raise UsageError("inputs, inputs_from and capture are mutually exclusive", remedy="keep one of them")
        return TargetSpec(target, self.inputs, self.inputs_from or None, self.device, self.seed)


class MeasurementLab:
    """Measurements of one project on an open lab; each returns a report or raises.

    Every measurement raises `UsageError` if the target cannot be used, and `WorkerError` if it raised, hung or crashed.

    Attributes:
        lab: Lab that runs the code.
    """

    def __init__(self, lab: Lab, tell: Tell | None = None) -> None:
        """Wrap an open lab; use `open_measurement_lab`.

        Args:
            lab: The lab.
            tell: Progress callback.
        """
        self.lab = lab
        self._tell = tell

    def captured(self, spec: TargetSpec, source: str, shared: Path) -> CapturedTarget:
        """Record the calls of a target by a script, or load recorded ones.

        Args:
            spec: The target.
            source: As returned by `TargetProject.capture_source`.
            shared: Folder that measurement processes can read but not write.
        """
        return with_captured(self.lab, spec, source, shared, tell=self._tell)

    def compare(
        self, baseline: Arm, candidate: Arm, request: ComparisonRequest, *, governance: ChangeControl | None = None
    ) -> MeasurementReport:
        """Compare correctness and speed of two targets."""
        from esper_agents.torchlab.compare.compare import compare

        return compare(self.lab, baseline, candidate, request, governance=governance, tell=self._tell)

    def run(self, kind: str, target: TargetSpec, options: Any) -> MeasurementReport:
        """Run a measurement.

        Args:
            kind: Its kind, such as `nan`.
            target: The target.
            options: Options of the class that the descriptor names.
        """
        from esper_agents.torchlab.measurement import measurement

        return measurement(kind).run(self.lab, target, options, self._tell)

    def environment(self) -> JsonObject:
        """Return versions, hardware and sandbox of the measurements."""
        return {**self.lab.environment(), "sandbox": self.lab.choice.described()}


@contextmanager
def open_measurement_lab(
    place: TargetProject,
    settings: LabSettings,
    *,
    readable: Sequence[Path] = (),
    roots: Sequence[Path] = (),
    keep: Path | None = None,
    tell: Tell | None = None,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[MeasurementLab]:
    """Yield an open lab; at its end no process is left.

    Args:
        place: Project of the target.
        settings: Settings for running its code.
        readable: Files and folders that the code may read although they are secret, ignored or outside the project.
        roots: Further folders that it may read.
        keep: Folder for output files; discarded if None.
        tell: Progress callback of the measurements.
        waiting: Called with the position in the queue of timings; the progress callback if omitted.

    Raises:
        EvidenceError: No sandbox works here, or the interpreter has no usable torch.
    """

    def withhold(root: Path, environments: Sequence[Path]) -> Sequence[Path]:
        return withheld_files(root, asked=readable, environments=environments)

    outside = (path for path in readable if not path.is_relative_to(place.root.resolve()))
    lab = Lab(
        place.root,
        settings,
        roots=(*roots, *outside),
        hidden=secret_places(home()),
        withhold=withhold,
        keep=keep,
        tell=tell,
        waiting=waiting,
    )
    lab.device_turn = partial(_device_turn, place.home.name)
    with lab:
        yield MeasurementLab(lab, tell)


@contextmanager
def _device_turn(
    project_key: str, device: str, timeout_s: float, is_cancelled: Callable[[], bool]
) -> Iterator[str | None]:
    """Yield when no other measurement runs on a device; see `device_turn`."""
    store = None
    if os.environ.get("ESPER_DATABASE_URL"):
        from esper_agents.storage.database_url import database_url
        from esper_agents.storage.store import Store

        store = Store(database_url(Path()))
    try:
        with device_turn(
            device,
            store=store if store is not None and store.is_shared else None,
            project_key=project_key,
            timeout_s=timeout_s,
            is_cancelled=is_cancelled,
        ) as visible:
            yield visible
    finally:
        if store is not None:
            store.close()


@contextmanager
def report_folder(output: Path | None, data: Path, kind: str) -> Iterator[Path]:
    """Yield the folder for a report and its artifacts; an empty one is removed afterwards.

    Args:
        output: The folder; a new one in the data directory if None.
        data: Data directory of the project.
        kind: Kind of measurement.

    Raises:
        UsageError: The folder cannot be created.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    folder = (output if output is not None else data / "torch" / f"{stamp}-{kind}").absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"no report can be kept in {str(folder)!r}: {error.strerror}", remedy="name another directory with --output"
        ) from error
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()


def with_captured_inputs(report: MeasurementReport, captured: CapturedTarget) -> MeasurementReport:
    """Return a report that names the recorded calls whose inputs were used."""
    body = {**report.body, "captured": captured.described()}
    return replace(report, body=body, made=(*report.made, captured.record))
