"""Command group `esper torch`, which imports its commands on first use."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from esper_agents.cli.lightweight_commands import LightweightGroup, make_lightweight

if TYPE_CHECKING:
    from collections.abc import Mapping

_HELP = """Measure PyTorch code in a sandbox

Each measurement runs in its own sandboxed process. A target is FILE.py:FUNCTION or package.module:Class.method: a
function, an nn.Module, a factory of a module, or a training step. Inputs come from --input, --inputs, --capture, or
from a get_inputs() function in the file of the target.

Examples:
  esper torch profile model.py:make_model --input "randn(32,128)"
  esper torch explain model.py:make_model --input "randn(32,128)" --fail-on break
  esper torch memory train.py:make_step --steps 20
  esper torch data train.py:make_loader --step train.py:make_step
  esper torch nan train.py:make_step --steps 100
  esper torch export model.py:make_model --capture train.py
  esper torch environment
"""


class _WhenAsked(LightweightGroup):
    """Group that builds its commands on first use: their options are slow to build."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        self._make()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by name, built without the others: their measurements are slow to import."""
        return super().get_command(ctx, cmd_name) or _commands(cmd_name).get(cmd_name)

    def _make(self) -> None:
        if not self.commands:
            self.commands.update(_commands())


def register(app: typer.Typer) -> None:
    """Add `esper torch` to the command line."""
    empty = typer.Typer(cls=_WhenAsked, help=_HELP, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(empty, name="torch")


def _commands(command: str = "") -> Mapping[str, Any]:
    from esper_agents.cli.main import derive_short_help, keep_examples

    app = typer.Typer(rich_markup_mode=None, callback=lambda: None)
    for found in pkgutil.iter_modules([str(Path(__file__).parent)]):
        module = importlib.import_module(f"esper_agents.cli.torch.{found.name}")
        if add := getattr(module, "add", None):
            add(app, command)
    make_lightweight(app)
    derive_short_help(app)
    made = typer.main.get_command(app)
    keep_examples(made)
    commands: Mapping[str, Any] = vars(made)["commands"]
    return commands
