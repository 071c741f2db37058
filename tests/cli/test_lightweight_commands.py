"""Commands that are there at once: what they take is the same, and nothing heavy is loaded for it."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from esper_agents.cli.lightweight_commands import LightweightCommand, LightweightGroup

HEAVY = ("pydantic", "asyncio", "torch", "sqlalchemy", "importlib.metadata", "libcst", "rich")


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def paint(
    *,
    files: Annotated[list[Path] | None, typer.Argument()] = None,
    colour: Annotated[Colour, typer.Option()] = Colour.RED,
    more: Annotated[list[Colour] | None, typer.Option()] = None,
    output: Annotated[Path | None, typer.Option()] = None,
    name: Annotated[str, typer.Option()] = "",
    count: Annotated[int, typer.Option()] = 1,
    dry: Annotated[bool, typer.Option("--dry")] = False,
) -> None:
    typer.echo(repr((files, colour, more, output, name, count, dry)))


def run(*arguments: str, quick: bool) -> tuple[int, str]:
    app = typer.Typer(cls=LightweightGroup) if quick else typer.Typer()
    app.command(cls=LightweightCommand if quick else None)(paint)
    app.command()(lambda: None)
    done = CliRunner().invoke(app, ["paint", *arguments])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("a", "b/c"),
        ("--colour", "blue", "--more", "red", "--more", "blue"),
        ("--output", "x.json", "--name", "n", "--dry", "--count", "3"),
        ("--colour", "green"),
        ("--more", "green"),
        ("--count", "many"),
        ("--nothing",),
        ("--help",),
    ],
)
def test_a_quick_command_takes_what_the_usual_one_takes(arguments):
    assert run(*arguments, quick=True) == run(*arguments, quick=False)


def test_a_review_of_one_file_loads_nothing_heavy(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n\nx = torch.zeros(3)\n")
    script = (
        "import sys; sys.argv = ['esper', 'review', '--no-cache', 'train.py']\n"
        "from esper_agents.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=_environment(tmp_path),
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_other_commands_are_there_beside_a_quick_one():
    done = subprocess.run(
        [sys.executable, "-m", "esper_agents.cli.main", "reviwe"], capture_output=True, text=True, check=False
    )
    assert "Did you mean 'review'?" in done.stderr


def _environment(home: Path) -> dict[str, str]:
    import os

    return {**os.environ, "ESPER_HOME": str(home / "home")}
