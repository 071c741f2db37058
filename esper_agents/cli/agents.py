"""`esper agents`: commands that list, show, check and export agents."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.definition_output import beginning, refused_json, report_lint, report_refused
from esper_agents.cli.indented_output import outline
from esper_agents.cli.shared_options import (
    HERE,
    FailOnOption,
    JsonOption,
    LintLevel,
    PluginDirsOption,
    ProjectOption,
)
from esper_agents.cli.terminal import echo, echo_json, one_line
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import InputFileError

if TYPE_CHECKING:
    from esper_agents.domain.agent import Agent

agents_app = typer.Typer(name="agents", help="Manage agents", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add `esper agents` to the command line."""
    app.add_typer(agents_app, name="agents")


@agents_app.command("list", epilog="Example: esper agents list")
def list_agents(
    *, project: ProjectOption = HERE, plugin_dir: PluginDirsOption = None, as_json: JsonOption = False
) -> None:
    """List agents.

    Shows which agents work without a model, and definition files that cannot be used.
    """
    from esper_agents.api import load_agents

    catalog = load_agents(project, plugins=plugin_dir or ())
    registry, playbooks = catalog.registry, catalog.playbooks
    if as_json:
        agents = [_summary(agent) | {"has_playbook": agent.name in playbooks} for agent in registry.agents.values()]
        echo_json({"agents": agents, "refused": refused_json(registry.refused)})
        return
    for agent in registry.agents.values():
        by = "has a playbook" if agent.name in playbooks else "needs a model"
        outline(f"{agent.name} ({agent.domain}): {by}")
        outline(beginning(agent.description), 1)
    report_refused(registry.refused)


@agents_app.command("show", epilog="Example: esper agents show pytorch-expert")
def show(
    name: Annotated[str, typer.Argument(metavar="AGENT", help="Agent name")],
    *,
    project: ProjectOption = HERE,
    plugin_dir: PluginDirsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an agent.

    Shows the tasks it handles and declines, its handoff targets, tools and skills.
    """
    from esper_agents.api import load_agents

    found = load_agents(project, plugins=plugin_dir or ()).show(name)
    agent, packs, offered = found.agent, found.packs, found.offered
    if as_json:
        echo_json(asdict(agent) | {"packs": asdict(packs), "offered": asdict(offered)})
        return
    tools = "every tool it is permitted" if agent.tools is None else ", ".join(offered.tools) or "none"
    echo(f"{one_line(agent.name)} ({one_line(agent.domain)})\n\n{agent.description}\n")
    echo(f"model: {one_line(agent.model)}\ntools: {one_line(tools)}")
    echo(f"file: {one_line(agent.path)}\nsha256: {agent.sha256}")
    echo(f"from: {one_line(agent.provider) or 'the project'}")
    for title, items in (
        ("handles", agent.handles),
        ("declines", agent.declines),
        ("hands off to", agent.hands_off_to),
        ("skills", agent.skills),
        ("further packs", packs.lines),
        ("done without a tool", [f"{each}: by {move}" for each, move in offered.moves]),
        ("not offered", [f"{each}: {why}" for each, why in offered.missing]),
        ("examples for it", [example.text for example in agent.examples if example.is_for]),
        (
            "examples for others",
            [_against(example.text, example.instead) for example in agent.examples if not example.is_for],
        ),
        ("odd", [f"{odd.path}:{odd.line}: {odd.problem}" for odd in agent.oddities]),
    ):
        if items:
            echo("\n".join((f"\n{title}:", *(f"  - {one_line(item)}" for item in items))))


@agents_app.command(
    "lint",
    epilog="Examples: esper agents lint .claude/agents; esper agents lint --fail-on warning my-agent.md",
)
def lint(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Definition files or directories [default: all agents]")
    ] = None,
    *,
    project: ProjectOption = HERE,
    plugin_dir: PluginDirsOption = None,
    fail_on: FailOnOption = LintLevel.NEVER,
    as_json: JsonOption = False,
) -> None:
    """Check agent definitions.

    Exits with 2 if a definition cannot be used, and with `--fail-on warning` with 3 if there is a warning.
    """
    from esper_agents.api import load_agents

    found = load_agents(project, plugins=plugin_dir or ()).lint(paths or ())
    read = f"{number_of(found.checked, 'agent')} read, {number_of(len(found.warnings), 'warning')}"
    report_lint(found, read, is_strict=fail_on is LintLevel.WARNING, as_json=as_json)


@agents_app.command("export", epilog="Example: esper agents export --output AGENTS.md")
def export(
    *,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file", dir_okay=False)
    ] = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Export agents as Markdown or JSON."""
    import json

    from esper_agents.api import load_agents

    catalog = load_agents(project)
    registry = catalog.registry
    whole = {"agents": [asdict(agent) for agent in registry.agents.values()], "refused": refused_json(registry.refused)}
    if output is None:
        echo_json(whole) if as_json else echo(catalog.export())
        return
    text = json.dumps(whole, indent=2, sort_keys=True) + "\n" if as_json else catalog.export()
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = (error.strerror or "cannot be written").lower()
        raise InputFileError(str(output), problem, remedy="name a file that you may write with --output") from error
    echo(f"wrote {number_of(len(registry.agents), 'agent')} to {output}")


def _summary(agent: Agent) -> dict[str, Any]:
    return {
        "name": agent.name,
        "domain": agent.domain,
        "description": agent.description,
        "model": agent.model,
        "path": agent.path,
        "sha256": agent.sha256,
        "oddities": len(agent.oddities),
    }


def _against(text: str, instead: str) -> str:
    return f"{text} -> {instead}" if instead else text
