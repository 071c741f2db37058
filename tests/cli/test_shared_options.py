from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pytest
import typer
from typer.testing import CliRunner

from esper_agents.cli.shared_options import gathered

if TYPE_CHECKING:
    from esper_agents.cli.memory_actions import NoteFilter

Width = Annotated[int, typer.Option("--width", "-w", min=1, help="How wide.")]
Names = Annotated[list[str] | None, typer.Option("--name", help="Repeatable.")]


def size_of(*, width: Width = 1, names: Names = None) -> NoteFilter:
    return (width, names)


@pytest.fixture
def app():
    app = typer.Typer()

    @app.command()
    @gathered(size_of, "size")
    def draw(
        to: Annotated[str, typer.Argument(help="Where to.")] = "here",
        *,
        size: NoteFilter,
        folder: Annotated[Path, typer.Option(help="A folder.")] = Path(),
    ) -> None:
        """Draw something."""
        typer.echo(repr((to, size, str(folder))))

    return app


def test_a_command_is_given_one_thing_made_of_shared_options(app):
    done = CliRunner().invoke(app, ["there", "-w", "3", "--name", "a", "--name", "b", "--folder", "away"])
    assert done.output == "('there', (3, ['a', 'b']), 'away')\n"


def test_what_is_left_out_has_the_default_of_the_option(app):
    assert CliRunner().invoke(app, []).output == "('here', (1, None), '.')\n"


def test_shared_options_are_checked_as_any_option_is(app):
    refused = CliRunner().invoke(app, ["--width", "0"])
    assert refused.exit_code == 2
    assert "--width" in refused.output


def test_options_stand_in_the_help_where_the_parameter_stands(app):
    (command,) = app.registered_commands
    assert [*signature(command.callback).parameters] == ["to", "width", "names", "folder"]
    help_text = CliRunner().invoke(app, ["--help"]).output
    assert help_text.index("--width") < help_text.index("--name") < help_text.index("--folder")
    assert "Draw something." in help_text
