"""`esper skills`: commands that list, show, check and accept skills."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.definition_output import beginning, refused_json, report_lint, report_refused
from esper_agents.cli.shared_options import (
    HERE,
    FailOnOption,
    JsonOption,
    LintLevel,
    PluginDirsOption,
    ProjectOption,
    YesOption,
)
from esper_agents.cli.terminal import echo, echo_json, is_interactive, one_line, table
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from esper_agents.domain.skill import Skill

skills_app = typer.Typer(name="skills", help="Manage skills", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add `esper skills` to the command line."""
    app.add_typer(skills_app, name="skills")


@skills_app.command("list", epilog="Example: esper skills list")
def list_skills(
    *, project: ProjectOption = HERE, plugin_dir: PluginDirsOption = None, as_json: JsonOption = False
) -> None:
    """List skills.

    Also lists skill files that cannot be used.
    """
    from esper_agents.api import load_agents

    library = load_agents(project, plugins=plugin_dir or ()).skills
    skills = library.skills.values()
    if as_json:
        echo_json({"skills": [_summary(skill) for skill in skills], "refused": refused_json(library.refused)})
        return
    rows = [(skill.name, str(len(skill.sheets)), beginning(skill.description)) for skill in skills]
    table(("skill", "sheets", "what it is for"), rows)
    report_refused(library.refused)


@skills_app.command(
    "show",
    epilog="Examples: esper skills show using-training-optimization; "
    "esper skills show using-training-optimization gradient-management",
)
def show(
    name: Annotated[str, typer.Argument(metavar="SKILL", help="Skill name, or words of its description")],
    sheet: Annotated[str, typer.Argument(metavar="SHEET", help="Sheet of the skill")] = "",
    *,
    project: ProjectOption = HERE,
    plugin_dir: PluginDirsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a skill.

    Prints the skill, or one of its sheets, as an agent loads it.
    """
    from esper_agents.api import load_agents

    library = load_agents(project, plugins=plugin_dir or ()).skills
    found = library.load(name, sheet)
    if as_json:
        echo_json(asdict(found))
        return
    echo(f"{one_line(found.skill)} {one_line(found.sheet)}".rstrip())
    echo(f"file: {one_line(found.path)}\nsha256: {found.sha256}")
    if not found.sheet:
        _show_front(library.get(found.skill))
    echo(f"\n{found.text}")


@skills_app.command(
    "lint",
    epilog="Examples: esper skills lint .claude/skills; esper skills lint --fail-on warning my-skill",
)
def lint(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Skill directories or their parents [default: all skills]")
    ] = None,
    *,
    project: ProjectOption = HERE,
    plugin_dir: PluginDirsOption = None,
    fail_on: FailOnOption = LintLevel.NEVER,
    as_json: JsonOption = False,
) -> None:
    """Check skill files.

    Exits with 2 if a skill cannot be used, and with `--fail-on warning` with 3 if there is a warning.
    """
    from esper_agents.api import load_agents

    found = load_agents(project, plugins=plugin_dir or ()).lint_skills(paths or ())
    read = f"skills read: {found.checked}; warnings: {len(found.warnings)}"
    report_lint(found, read, is_strict=fail_on is LintLevel.WARNING, as_json=as_json)


@skills_app.command("accept")
def accept(
    name: Annotated[str, typer.Argument(metavar="SKILL", help="Name of the proposed skill")],
    *,
    yes: YesOption = False,
    project: ProjectOption = HERE,
) -> None:
    """Add a proposed skill to the project.

    Shows a skill that `esper retrospect` proposed and, after confirmation, writes it to the `.esper/skills` directory
    of the project.

    Examples:
      esper skills accept learnt-memory
    """
    from esper_agents.api import load_agents

    catalog = load_agents(project)
    proposal = catalog.proposed_skill(name)
    echo(proposal.text)
    if not yes:
        if not is_interactive():
            raise UsageError("accepting a skill needs a confirmation", remedy=f"esper skills accept --yes {name}")
        if not typer.confirm(f"take {name} into the project, where agents load it?"):
            raise typer.Exit(ExitCode.CANCELLED)
    echo(f"taken: {catalog.accept_skill(proposal)}")


def _show_front(skill: Skill) -> None:
    echo(f"sheets: {one_line(', '.join(skill.sheets)) or 'none'}\n\n{skill.description}")
    for odd in skill.oddities:
        echo(f"odd: {one_line(odd.path)}:{odd.line}: {one_line(odd.problem)}")


def _summary(skill: Skill) -> dict[str, Any]:
    return {
        "name": skill.name,
        "description": skill.description,
        "sheets": skill.sheets,
        "path": skill.path,
        "sha256": skill.sha256,
        "oddities": len(skill.oddities),
    }
