"""`esper torch profile|explain|export|memory|nan`: commands that measure one target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.torch.options import (
    MeasurementOptions,
    Quick,
    Target,
    Thorough,
    bytes_of,
    chosen_effort,
    measuring,
)
from esper_agents.cli.torch.run import measure
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from esper_agents.api import MeasurementLab, MeasurementReport, TargetSpec


def add(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (profile, explain, export, memory, nan):
        app.command()(measuring(command))


def profile(
    target: Target,
    *,
    asked: MeasurementOptions,
    quick: Quick = False,
    thorough: Thorough = False,
    alone: Annotated[
        bool, typer.Option("--no-external-profilers", "--alone", help="Disable external profilers (py-spy, perf)")
    ] = False,
) -> None:
    """Profile a target and find its bottleneck.

    Compares the target with the peak performance of this machine, measured in the same run. Writes a Chrome trace, a
    memory timeline and a plot next to the report. Also samples with py-spy and perf if they are installed.

    Examples:
      esper torch profile model.py:make_model --input "randn(32,128)"
      esper torch profile train.py:make_step --quick
      esper torch profile model.py:make_model --capture train.py --train --out profile/
    """
    from esper_agents.cli.torch.profile import show

    effort = chosen_effort(quick=quick, thorough=thorough)

    def work(lab: MeasurementLab, spec: TargetSpec) -> MeasurementReport:
        return lab.profile(spec, train=asked.train, effort=effort, external_profilers=not alone)

    measure("profile", target, asked, work, show)


def explain(
    target: Target,
    *,
    asked: MeasurementOptions,
    fail_on_break: Annotated[bool, typer.Option("--fail-on-break", help="Exit 3 on graph breaks")] = False,
) -> None:
    """Explain graph breaks and recompilations.

    Reports every graph break with its reason and line, recompilations over repeated calls, and whether torch.compile
    with fullgraph is possible. Generates no kernels. Exits with 0 unless --fail-on-break is given.

    Examples:
      esper torch explain model.py:make_model --input "randn(32,128)"
      esper torch explain model.py:make_model --capture train.py --train
      esper torch explain my_package.loss:focal --inputs tests/samples.py:focal --fail-on-break
    """
    from esper_agents.cli.torch.explain import show

    def work(lab: MeasurementLab, spec: TargetSpec) -> MeasurementReport:
        return lab.explain(spec, train=asked.train)

    found = measure("explain", target, asked, work, show).result
    if fail_on_break and found.get("status") != "clean":
        raise typer.Exit(ExitCode.AGAINST if "status" in found else ExitCode.UNDECIDED)


def export(
    target: Target,
    *,
    asked: MeasurementOptions,
    fail: Annotated[bool, typer.Option("--fail", help="Exit 3 unless all exports succeed")] = False,
) -> None:
    """Check whether a target can be exported.

    Tries torch.export (strict, non-strict, draft, with a dynamic batch size) and ONNX, and compares each exported
    program with eager mode. Exits with 0 unless --fail is given.

    Examples:
      esper torch export model.py:make_model --input "randn(32,128)"
      esper torch export model.py:make_model --capture train.py --fail
    """
    from esper_agents.cli.torch.export import show

    def work(lab: MeasurementLab, spec: TargetSpec) -> MeasurementReport:
        return lab.export(spec)

    found = measure("export", target, asked, work, show).result
    if fail and found["status"] != "exports":
        raise typer.Exit(ExitCode.AGAINST)


def memory(
    target: Target,
    *,
    asked: MeasurementOptions,
    steps: Annotated[int, typer.Option(min=0, metavar="N", help="Steps of the leak search; 0 disables it")] = 8,
    optimizer: Annotated[
        str, typer.Option(metavar="NAME", help="Optimizer for --train: sgd, adam, adamw or none")
    ] = "adamw",
    limit: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Memory budget to check against, e.g. 24G", show_default=False),
    ] = "",
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Estimate from shapes without running the target")
    ] = False,
    fail: Annotated[bool, typer.Option("--fail", help="Exit 3 on a leak or if --limit is exceeded")] = False,
) -> None:
    """Measure memory use and detect leaks.

    Estimates and measures the peak: parameters, gradients, optimizer state and activations. Reports memory that grows
    from step to step and the object that holds it. Exits with 0 unless --fail is given.

    Examples:
      esper torch memory train.py:make_step --steps 20
      esper torch memory model.py:make_model --input "randn(32,128)" --train --optimizer adam --limit 24G
      esper torch memory model.py:make_model --capture train.py --train --estimate
    """
    from esper_agents.cli.torch.memory import show

    limit_bytes = bytes_of(limit) if limit else None

    def work(lab: MeasurementLab, spec: TargetSpec) -> MeasurementReport:
        return lab.memory(
            spec,
            train=asked.train,
            optimizer=optimizer,
            steps=steps,
            limit_bytes=limit_bytes,
            estimate_only=estimate,
        )

    found = measure("memory", target, asked, work, show).result
    if fail and found["issue"]["type"] != "none":
        raise typer.Exit(ExitCode.AGAINST)


def nan(
    target: Target,
    *,
    asked: MeasurementOptions,
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of calls")] = 10,
    lr: Annotated[
        float | None,
        typer.Option(
            metavar="RATE", min=0.0, help="Update weights by gradient descent at this rate", show_default=False
        ),
    ] = None,
    fail: Annotated[bool, typer.Option("--fail", help="Exit 3 on NaN or Inf")] = False,
) -> None:
    """Find the first operation producing NaN or Inf.

    Reports the module and line in forward or backward, the statistics of its inputs, the cause and the first affected
    batch. Exits with 0 unless --fail is given.

    Examples:
      esper torch nan train.py:make_step --steps 100
      esper torch nan model.py:make_model --input "randn(32,128)" --train --lr 0.1 --fail
    """
    from esper_agents.cli.torch.nan import show

    def work(lab: MeasurementLab, spec: TargetSpec) -> MeasurementReport:
        return lab.nan(spec, steps=steps, train=asked.train, lr=lr)

    found = measure("nan", target, asked, work, show).result
    if fail and found["status"] != "clean":
        raise typer.Exit(ExitCode.AGAINST)
