"""`esper dev`: commands for authors of extensions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from esper_agents.api import Category, ExtensionKind
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo, echo_json, say

dev_app = typer.Typer(name="dev", help="Write extensions of esper-agents", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(dev_app, name="dev")


@dev_app.callback()
def dev() -> None:
    """Write extensions of esper-agents."""


@dev_app.command()
def new(
    kind: Annotated[ExtensionKind, typer.Argument(help="Kind of extension")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name, in words joined by hyphens")],
    category: Annotated[
        Category | None, typer.Option("--category", help="Category of a rule [default: silent-correctness]")
    ] = None,
    package: Annotated[
        Path | None, typer.Option("--package", metavar="PATH", help="Python package for the file, in the project")
    ] = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Create an extension with its test.

    Writes a small working example and its test, and prints the command that runs the test. Lines to change are marked
    FILL. In a checkout of esper-agents the files go next to the others of their kind, and the remaining steps are
    printed. In another project, an agent goes into .esper/agents, and everything else into a Python package. No file
    is replaced.

    Examples:
      esper dev new rule copy-in-every-step
      esper dev new rule cache-emptied-in-loop --category performance
      esper dev new tool count-lines --package my_package
      esper dev new agent checkpoint-keeper
    """
    from esper_agents.api import new_extension

    made = new_extension(kind, name, category=category, project=project, package=package)
    if as_json:
        echo_json(asdict(made) | {"files": [str(file) for file in made.files]})
        return
    for file in made.files:
        say("wrote", str(file))
    say("change", "the lines marked FILL")
    if made.entry_point:
        say("add", "this to pyproject.toml, and install the package again")
        echo(f"\n{made.entry_point}\n")
    say("next", made.test_command)
    for step in made.steps:
        say("then", step)
