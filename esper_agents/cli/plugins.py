"""`esper plugins`: commands that build, install, list and remove plugins in the Claude Code format."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.indented_output import outline
from esper_agents.cli.shared_options import JsonOption
from esper_agents.cli.terminal import echo, echo_json, one_line, report

if TYPE_CHECKING:
    from esper_agents.api import Plugin

plugins_app = typer.Typer(no_args_is_help=True, help="Manage plugins", rich_markup_mode=None)

_SHOWN = 12
_MOST_NAMED = 5


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(plugins_app, name="plugins")


@plugins_app.command()
def add(
    path: Annotated[Path, typer.Argument(help="Plugin directory, which contains `.claude-plugin`")],
    as_json: JsonOption = False,
) -> None:
    """Install a plugin.

    Copies the plugin into your data directory and replaces a plugin of the same name. No code of it is executed.

    Examples:
      esper plugins add ../torch-pack
    """
    from esper_agents.api import add_plugin, missing_tools

    added = add_plugin(path)
    missing = missing_tools(added)
    if as_json:
        not_offered = [{"tool": each.name, "why": each.reason, "agents": each.agents} for each in missing]
        echo_json(_summary(added) | {"not_offered": not_offered})
        return
    echo(f"added: {_heading(added)}")
    _show(added)
    for each in missing:
        outline(f"{each.name} is not offered to {', '.join(each.agents)}: {each.reason}", 1)


@plugins_app.command()
def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty directory")],
    command: Annotated[
        str, typer.Option(metavar="PROGRAM", help="Program that the MCP server is started with")
    ] = "esper",
    as_json: JsonOption = False,
) -> None:
    """Build a plugin for Claude Code.

    Writes the included agents, skills and commands in the format of Claude Code, and `.mcp.json` with the MCP server of
    this program, which gives the agents their evidence.

    Examples:
      esper plugins build esper-plugin
      claude --plugin-dir esper-plugin
    """
    from esper_agents.api import build_plugin

    built = build_plugin(folder, command=command)
    if as_json:
        echo_json(_summary(built.plugin) | {"server": list(built.server)})
        return
    echo(f"built: {_heading(built.plugin)}")
    for part, names in built.plugin.names.items():
        outline(f"{part}: {len(names)}", 1)
    outline(f"server: {shlex.join(built.server)}", 1)
    echo(one_line(f"next: claude --plugin-dir {shlex.quote(str(folder))}"))


@plugins_app.command("list")
def list_plugins(as_json: JsonOption = False) -> None:
    """List installed plugins.

    Marks plugins whose files have changed since installation.

    Examples:
      esper plugins list
    """
    from esper_agents.api import installed_plugins

    found = installed_plugins()
    if as_json:
        refused = [{"path": each.path, "problem": each.problem, "remedy": each.remedy} for each in found.refused]
        echo_json({"plugins": [_summary(plugin) for plugin in found.plugins], "refused": refused})
        return
    for plugin in found.plugins:
        echo(_heading(plugin))
        _show(plugin)
    if not found.plugins:
        echo("no plugin yet; add one: esper plugins add PATH")
    for error in found.refused:
        report(error)


@plugins_app.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="PLUGIN", help="Plugin name")], as_json: JsonOption = False
) -> None:
    """Remove a plugin.

    Deletes its copy in your data directory.

    Examples:
      esper plugins remove torch-pack
    """
    from esper_agents.api import remove_plugin

    digest = remove_plugin(name)
    if as_json:
        echo_json({"removed": name, "sha256": digest})
    else:
        echo(f"removed: {name}, sha256 {digest[:_SHOWN]}")


def _heading(plugin: Plugin) -> str:
    version = f" {plugin.version}" if plugin.version else ""
    return f"{plugin.name}{version}, sha256 {plugin.sha256[:_SHOWN]}"


def _show(plugin: Plugin) -> None:
    if plugin.description:
        outline(plugin.description, 1)
    for part, names in plugin.names.items():
        if names:
            outline(f"{part}: {', '.join(names)}", 1)
    if plugin.passed_over:
        some = ", ".join(plugin.passed_over[:_MOST_NAMED])
        left = len(plugin.passed_over) - _MOST_NAMED
        outline(f"not used here: {some}{f' and {left} more' if left > 0 else ''}", 1)


def _summary(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "version": plugin.version,
        "description": plugin.description,
        "folder": str(plugin.folder),
        "sha256": plugin.sha256,
        **{str(part): list(names) for part, names in plugin.names.items()},
        "passed_over": list(plugin.passed_over),
    }
