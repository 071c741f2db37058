"""Measurement operations of an open project: correctness, speed, memory, numbers, data."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.api.measurement_lab import (
    MeasurementInputs,
    MeasurementLab,
    report_folder,
    with_captured_inputs,
)
from esper_agents.api.service import Service
from esper_agents.api.target_project import TargetProject
from esper_agents.torchlab.compare.change_control import ChangeControl, base_revision
from esper_agents.torchlab.compare.compare import ComparisonRequest
from esper_agents.torchlab.compare.measure import Arm
from esper_agents.torchlab.effort import Effort
from esper_agents.torchlab.measurements.behaviour import BehaviourOptions
from esper_agents.torchlab.measurements.data import DataOptions
from esper_agents.torchlab.measurements.explain import ExplainOptions
from esper_agents.torchlab.measurements.export import ExportOptions
from esper_agents.torchlab.measurements.memory import MemoryOptions
from esper_agents.torchlab.measurements.nan import NanOptions
from esper_agents.torchlab.measurements.profile import ProfileOptions
from esper_agents.torchlab.measurements.scaffold import ScaffoldOptions
from esper_agents.torchlab.measurements.test import DraftOptions
from esper_agents.torchlab.measurements.watch import WatchOptions
from esper_agents.torchlab.report import MeasurementReport, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurements.watch import LineRange
    from esper_agents.torchlab.recheck import RecheckResult
    from esper_agents.torchlab.target import TargetSpec

_NO_INPUTS = MeasurementInputs()


@dataclass(frozen=True, slots=True)
class StoredReport:
    """Report of a measurement as stored.

    Attributes:
        report: The report; its `result` holds the findings.
        folder: Folder with `report.json` and the output files.
    """

    report: MeasurementReport
    folder: Path


class MeasureService(Service):
    """Measurements of an open project, in sandboxed processes.

    A target is `FILE.py:NAME`, relative to the project, or `package.module:NAME`. Reports are stored in `output`, or in
    a new folder in the data directory of the project. Each measurement raises `UsageError` if the target or its inputs
    cannot be used, and `EvidenceError` if it could not be made: the code raised, hung or crashed, or no sandbox works.
    """

    @property
    def folder(self) -> Path:
        """Folder in the data directory of the project with a folder for each report."""
        return self._services.home / "torch"

    async def compare(
        self,
        baseline: str,
        candidate: str = "",
        inputs: MeasurementInputs = _NO_INPUTS,
        *,
        base: str = "",
        request: ComparisonRequest | None = None,
        flag: str = "",
        output: Path | None = None,
    ) -> StoredReport:
        """Compare correctness and speed of two targets.

        Args:
            baseline: Target A.
            candidate: Target B; A if empty, which needs `base`.
            inputs: Inputs of the calls.
            base: Git revision from which A is taken.
            request: Claim, mode and effort of the comparison.
            flag: Feature flag that disables B, to record.
            output: Folder for the report.
        """
        asked = request or ComparisonRequest()
        other = candidate or baseline
        with base_revision(self._root, base, other, baseline) as found:
            root = found.root if found else self._root

            def work(lab: MeasurementLab, spec: TargetSpec) -> MeasurementReport:
                arms = Arm(replace(spec, name=baseline), root), Arm(spec, self._root)
                return lab.compare(*arms, asked, governance=ChangeControl(base=found, flag=flag))

            return await self._measure(
                "compare", other, replace(inputs, seed=asked.seed), output, work, roots=[root] if found else []
            )

    async def profile(
        self,
        target: str,
        inputs: MeasurementInputs = _NO_INPUTS,
        *,
        train: bool = False,
        effort: Effort = Effort.NORMAL,
        external_profilers: bool = True,
        output: Path | None = None,
    ) -> StoredReport:
        """Profile a target and find its bottleneck.

        Args:
            target: The target.
            inputs: Inputs of the calls.
            train: Whether to include the backward pass.
            effort: Measurement time.
            external_profilers: Whether py-spy and perf are used if they are installed.
            output: Folder for the report.
        """
        options = ProfileOptions(effort, not external_profilers, train)
        return await self._run("profile", target, options, inputs, output)

    async def explain(
        self,
        target: str,
        inputs: MeasurementInputs = _NO_INPUTS,
        *,
        train: bool = False,
        output: Path | None = None,
    ) -> StoredReport:
        """Explain graph breaks and recompilations of `torch.compile`; the arguments are those of `profile`."""
        return await self._run("explain", target, ExplainOptions(train), inputs, output)

    async def behaviour(
        self, target: str, inputs: MeasurementInputs = _NO_INPUTS, *, output: Path | None = None
    ) -> StoredReport:
        """Show what calls of a target do: shapes, state, gradients, batches; the arguments are those of `profile`."""
        return await self._run("behaviour", target, BehaviourOptions(), inputs, output)

    async def export(
        self, target: str, inputs: MeasurementInputs = _NO_INPUTS, *, output: Path | None = None
    ) -> StoredReport:
        """Check whether a target can be exported; the arguments are those of `profile`."""
        return await self._run("export", target, ExportOptions(), inputs, output)

    async def memory(
        self,
        target: str,
        inputs: MeasurementInputs = _NO_INPUTS,
        *,
        train: bool = False,
        optimizer: str = "adamw",
        steps: int = 8,
        limit_bytes: int | None = None,
        estimate_only: bool = False,
        output: Path | None = None,
    ) -> StoredReport:
        """Measure memory use and detect leaks.

        Args:
            target: The target.
            inputs: Inputs of the calls.
            train: Whether to include the backward pass.
            optimizer: Optimizer for training: sgd, adam, adamw or none.
            steps: Steps of the leak search; 0 disables it.
            limit_bytes: Memory budget to check against.
            estimate_only: Whether to estimate from shapes without running the target.
            output: Folder for the report.
        """
        options = MemoryOptions(steps, optimizer, limit_bytes, estimate_only, train)
        return await self._run("memory", target, options, inputs, output)

    async def nan(
        self,
        target: str,
        inputs: MeasurementInputs = _NO_INPUTS,
        *,
        steps: int = 10,
        train: bool = False,
        lr: float | None = None,
        output: Path | None = None,
    ) -> StoredReport:
        """Find the first operation producing NaN or Inf.

        Args:
            target: The target.
            inputs: Inputs of the calls.
            steps: Maximum number of calls.
            train: Whether to include the backward pass.
            lr: Rate at which weights are updated by gradient descent; None for no update.
            output: Folder for the report.
        """
        options = NanOptions(steps=steps, train=train, lr=lr)
        return await self._run("nan", target, options, inputs, output)

    async def watch(
        self,
        target: str,
        lines: Sequence[LineRange],
        inputs: MeasurementInputs = _NO_INPUTS,
        *,
        calls: int = 3,
        train: bool = False,
        output: Path | None = None,
    ) -> StoredReport:
        """Count how often lines run.

        Args:
            target: The target.
            lines: The lines.
            inputs: Inputs of the calls.
            calls: Number of calls.
            train: Whether to include the backward pass.
            output: Folder for the report.
        """
        return await self._run("watch", target, WatchOptions(tuple(lines), calls, train), inputs, output)

    async def data(
        self,
        target: str,
        options: DataOptions | None = None,
        *,
        device: str = "cpu",
        seed: int = 0,
        output: Path | None = None,
    ) -> StoredReport:
        """Measure whether the input pipeline is the bottleneck of a step.

        Args:
            target: A DataLoader, a dataset, or a function without arguments that returns one.
            options: Step and effort.
            device: Device of the step.
            seed: Random seed.
            output: Folder for the report.
        """
        inputs = MeasurementInputs(device=device, seed=seed)
        return await self._run("data", target, options or DataOptions(), inputs, output)

    async def scaffold(
        self, target: str, options: ScaffoldOptions | None = None, *, seed: int = 0, output: Path | None = None
    ) -> StoredReport:
        """Find arguments with which a target runs, and write them to `.esper/harness` as a harness.

        Args:
            target: A class, a method or a function.
            options: Limits of the search.
            seed: Random seed.
            output: Folder for the report.
        """
        inputs = MeasurementInputs(seed=seed)
        return await self._run("scaffold", target, options or ScaffoldOptions(), inputs, output)

    async def draft_test(
        self, target: str, options: DraftOptions | None = None, *, seed: int = 0, output: Path | None = None
    ) -> StoredReport:
        """Write a first test of a target to `.esper/tests`, and run it once.

        Args:
            target: A class, a method or a function.
            options: Limits of the search for inputs.
            seed: Random seed.
            output: Folder for the report.
        """
        inputs = MeasurementInputs(seed=seed)
        return await self._run("test", target, options or DraftOptions(), inputs, output)

    def recheck(self, report: Path) -> RecheckResult:
        """Recompute a stored report from its measurements, and compare its files.

        Args:
            report: Path of a `report.json`.

        Raises:
            UsageError: The file cannot be read.
            IntegrityError: The report does not follow from its measurements, or a file has changed.
        """
        return recheck_report(report)

    async def _run(
        self, kind: str, target: str, options: Any, inputs: MeasurementInputs, output: Path | None
    ) -> StoredReport:
        return await self._measure(kind, target, inputs, output, lambda lab, spec: lab.run(kind, spec, options))

    async def _measure(
        self,
        kind: str,
        target: str,
        inputs: MeasurementInputs,
        output: Path | None,
        work: Callable[[MeasurementLab, TargetSpec], MeasurementReport],
        *,
        roots: Sequence[Path] = (),
    ) -> StoredReport:
        spec = inputs.spec(target)
        with ExitStack() as opened:
            folder = opened.enter_context(report_folder(output, self._services.home, kind))
            shared = opened.enter_context(_shared_folder()) if inputs.capture else None

            def run(lab: Lab) -> StoredReport:
                measuring = MeasurementLab(lab)
                if shared is None:
                    return _stored(work(measuring, spec), folder)
                named = replace(spec, captured_from=inputs.capture)
                place = TargetProject(self._root, self._services.home, self._root, target)
                captured = measuring.captured(named, place.capture_source(inputs.capture), shared)
                return _stored(with_captured_inputs(work(measuring, captured.target), captured), folder)

            readable = [*roots, *([shared] if shared else [])]
            return await self._services.bench.measure(run, roots=readable)


def recheck_report(report: Path) -> RecheckResult:
    """Recompute a stored report from its measurements; see `MeasureService.recheck`."""
    from esper_agents.torchlab.recheck import recheck

    return recheck(read(report), report.parent)


@contextmanager
def _shared_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="esper-shared-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _stored(report: MeasurementReport, folder: Path) -> StoredReport:
    """Store a report and copies of its output files, which the lab deletes."""
    made = tuple(replace(each, path=Path(shutil.copy2(each.path, folder))) for each in report.made)
    kept = replace(report, made=made)
    (folder / "report.json").write_text(kept.text(), encoding="utf-8")
    return StoredReport(kept, folder)
