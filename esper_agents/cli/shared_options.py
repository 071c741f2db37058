"""Shared command-line options, and `gathered`, which turns options into one object."""

from __future__ import annotations

from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., None]


class DefinitionSource(StrEnum):
    """Agents, playbooks, skills and policy to use after drift."""

    RECORDED = "recorded"
    CURRENT = "current"


class LintLevel(StrEnum):
    """Level of a problem in definitions or skills that makes the command fail."""

    WARNING = "warning"
    NEVER = "never"


class WorkPlace(StrEnum):
    """Where work is done."""

    HERE = "here"
    RAY = "ray"


HERE = Path()
"""Default of `ProjectOption`: the current directory."""

ProjectOption = Annotated[Path, typer.Option("--project", metavar="PATH", help="Project directory")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON")]
LimitOption = Annotated[
    int, typer.Option("-n", "--limit", metavar="N", min=1, max=100_000, help="Maximum number of rows")
]
YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask for confirmation")]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, stored in the log")]
FailOnOption = Annotated[LintLevel, typer.Option("--fail-on", help="Exit 3 on warnings")]
PluginDirsOption = Annotated[
    list[Path] | None,
    typer.Option("--plugin-dir", metavar="PATH", help="Load a plugin from this directory (repeatable)"),
]
WitnessOption = Annotated[
    list[str] | None,
    typer.Option("--require-witness", metavar="KEY|FILE", help="Witness that must have cosigned (repeatable)"),
]
OnOption = Annotated[WorkPlace, typer.Option("--on", help="Work here, or in parts on a Ray cluster")]
ClusterOption = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Head of the cluster [default: RAY_ADDRESS, or this machine]")
]
AllowOpenClusterOption = Annotated[
    bool, typer.Option("--allow-open-cluster", help="Accept a cluster that requires no token")
]
SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="Session ID, unique prefix, or `latest`")]
CertificateArgument = Annotated[str, typer.Argument(metavar="ID", help="Certificate ID, unique suffix, or `latest`")]
DefinitionsOption = Annotated[
    DefinitionSource | None,
    typer.Option("--definitions", help="Definitions to use if they changed since session start"),
]


def gathered(make: Callable[..., Any], into: str) -> Callable[[Command], Command]:
    """Replace one parameter of a command by the options of `make`, and pass it the object that `make` returns.

    Args:
        make: Builds the object; its parameters are the options.
        into: Name of the parameter of the command that receives the object.
    """
    shared = _options(make)

    def give(command: Command) -> Command:
        @wraps(command)
        def run(**given: Any) -> None:
            made = make(**{each.name: given.pop(each.name) for each in shared})
            command(**given, **{into: made})

        own = {option.name: [option] for option in _options(command, into)}
        options = [each for name in signature(command).parameters for each in own.get(name, shared)]
        # Typer reads both.
        vars(run)["__signature__"] = Signature(options)
        run.__annotations__ = {option.name: option.annotation for option in options}
        return run

    return give


def _options(function: Callable[..., Any], omitted: str = "") -> list[Parameter]:
    """Return the parameters of a function except one, with their annotations resolved."""
    # The types of the return value and of the omitted parameter may be imported for type checkers only.
    annotations = {name: each for name, each in function.__annotations__.items() if name not in {omitted, "return"}}
    known = get_type_hints(SimpleNamespace(__annotations__=annotations), function.__globals__, include_extras=True)
    return [
        parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=known[parameter.name])
        for parameter in signature(function).parameters.values()
        if parameter.name != omitted
    ]


def refuse_cluster_options(place: WorkPlace, cluster: str, *, allow_open: bool) -> None:
    """Refuse options about a cluster without `--on ray`.

    Raises:
        UsageError: There is one.
    """
    if place is WorkPlace.HERE and (cluster or allow_open):
        problem = "--cluster and --allow-open-cluster are about a cluster"
        raise UsageError(problem, remedy="add --on ray, or leave them out")
