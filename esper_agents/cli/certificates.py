"""`esper certificates`: list, show, verify and find what has been certified."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.certificates.check import Outcome
from esper_agents.cli.exhibits import ARCHIVE, find_exhibit, published_views
from esper_agents.cli.outline import outline, outline_command
from esper_agents.cli.terminal import echo, echo_json, width
from esper_agents.cli.verifying import Currency, Verified, check, outcome_of
from esper_agents.errors import ExitCode

if TYPE_CHECKING:
    from esper_agents.certificates.archive import Entry
    from esper_agents.certificates.check import Check
    from esper_agents.domain.certificate import Certificate

certificates_app = typer.Typer(no_args_is_help=True, help="What has been certified.", rich_markup_mode=None)

_Project = Annotated[Path, typer.Option("--project", help="The project; the working folder's where left out.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Certificate = Annotated[str, typer.Argument(metavar="ID", help="Its identifier, the end of it, or `latest`.")]
_HERE = Path()
_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(certificates_app, name="certificates")


@certificates_app.command("list")
def list_certificates(
    agent: Annotated[str, typer.Option(help="Only what this agent concluded.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    project: _Project = _HERE,
    as_json: _Json = False,
) -> None:
    """List the project's certificates, newest first.

    Examples:
      esper certificates list --agent pytorch-code-reviewer --limit 5
    """
    found = asyncio.run(_list(project, agent, limit + 1))
    if as_json:
        echo_json([asdict(each) for each in found[:limit]])
        return
    for each in found[:limit]:
        outline(f"{each.id} {each.issued_at[:16].replace('T', ' ')} {each.status}")
        outline(f"{each.agent} on {each.component}: {each.request}", 1)
    if not found:
        echo('no certificates yet; begin with: esper submit "review this training code" train.py')
    if len(found) > limit:
        echo(f"there are more: esper certificates list --limit {2 * limit}")


@certificates_app.command()
def show(
    certificate: _Certificate = "latest",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the view that is published.")] = False,
    project: _Project = _HERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record, an in-toto Statement.")] = False,
) -> None:
    """Show a certificate: all of it, laid out for the terminal.

    Examples:
      esper certificates show
      esper certificates show 12faba12a09f --markdown
    """
    from esper_agents.certificates.render import render_markdown, render_text

    data = asyncio.run(_record(project, certificate))
    if as_json:
        echo_json(json.loads(data))
    else:
        echo((render_markdown(data) if markdown else render_text(data, width())).removesuffix("\n"))


@certificates_app.command()
def verify(
    certificate: Annotated[
        str, typer.Argument(metavar="ID|FILE", help="An identifier, the end of one, `latest`; or a published file.")
    ] = "latest",
    project: Annotated[
        Path | None, typer.Option("--project", help="The tree to compare with; the file's own, or the one at hand.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Check that a certificate is what was issued, follows from its evidence, and speaks of the code as it is now.

    Writes nothing. Exits with 0; 7 where it is not what it was; 8 where it is stale; 4 where that cannot be decided.

    Examples:
      esper certificates verify latest
      esper certificates verify 12faba12a09f --project ~/my-model
      esper certificates verify code_review_train_20260131_093000.md
    """
    verified = check(asyncio.run(find_exhibit(certificate, project)))
    if as_json:
        echo_json(_as_data(verified))
    else:
        _report(verified)
    raise typer.Exit(verified.exit_code)


@certificates_app.command()
def path(certificate: _Certificate = "latest", project: _Project = _HERE, as_json: _Json = False) -> None:
    """Print where a certificate's view is published, its record beside it; what is gone is written anew.

    Examples:
      less $(esper certificates path)
    """
    from esper_agents.orchestration.publish import record_path

    view = asyncio.run(_path(project, certificate))
    if as_json:
        echo_json({"view": str(view), "record": str(record_path(view))})
    else:
        echo(str(view))


async def _list(where: Path, agent: str, limit: int) -> tuple[Entry, ...]:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        found = await project.certificates(agent=agent, limit=limit)
        if agent and not found:
            project.workshop.agents.get(agent)
        return found


async def _record(where: Path, certificate: str) -> bytes:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        return await project.record(certificate)


async def _path(where: Path, certificate: str) -> Path:
    from esper_agents.api import open_project
    from esper_agents.orchestration.publish import record_path

    async with open_project(where) as project:
        entry = await project.certificate(certificate)
        whole = [each for each in published_views(project.workshop, entry) if record_path(each).is_file()]
        return whole[0] if whole else await project.view(entry.id)


def _report(verified: Verified) -> None:
    issued = verified.certificate
    if issued is not None:
        outline(f"{issued.id}: {issued.verdict.status} for {issued.component}, by {issued.agent}")
    _report_group("genuine", verified.genuine)
    if not any(each.name == ARCHIVE for each in verified.genuine):
        outline("no archive here vouches for it: files that were made to fit one another would look the same", 1)
    _report_group("verdict", verified.verdict)
    _report_group("citations", verified.citations)
    _report_files(verified)
    if verified.exit_code:
        outline_command("next", _next(verified))


def _report_group(label: str, checks: tuple[Check, ...]) -> None:
    whole = outcome_of(*checks)
    outline(f"{label}: {whole}")
    for each in checks:
        outline(f"{each.name}{'' if each.outcome is whole else f' {each.outcome}'}: {_short(each.detail)}", 1)
    if not checks:
        outline("not checked", 1)


def _report_files(verified: Verified) -> None:
    from esper_agents.certificates.subjects import SubjectState

    outline(f"current: {verified.currency} in {verified.root}")
    changed = [each for each in verified.files if each.state is not SubjectState.VALID]
    for file in changed:
        outline(f"{file.path} is {file.state}: {_short(file.detail)}", 1)
        for each in file.citations:
            outline(f"{each.name}: {each.detail}", 2)
    count = len(verified.files)
    outline(f"{count - len(changed)} of {count} files are what they were" if count else "it judged no file", 1)


def _short(text: str) -> str:
    """Return text with its digests cut to what a person compares; the whole ones are in the JSON."""
    return _DIGEST.sub(r"\1", text)


def _next(verified: Verified) -> str:
    issued = verified.certificate
    if issued is None or verified.exit_code is ExitCode.TAMPERED:
        return "do not rely on it; `esper certificates list` names what the archive has"
    if verified.exit_code is ExitCode.NOT_CURRENT:
        return f"esper submit --again {issued.id}"
    if verified.currency is Currency.CANNOT_DECIDE:
        return "name the tree that it speaks of with --project, and make its files readable"
    if outcome_of(*verified.citations) is Outcome.CANNOT_DECIDE:
        return "compare the lines that it cites with the files yourself: esper certificates show"
    if outcome_of(*verified.verdict) is Outcome.CANNOT_DECIDE:
        return f"check it with what issued it: pip install {_issuer(issued)}"
    return "remove the view, and have it written anew: esper certificates path"


def _issuer(issued: Certificate) -> str:
    version = issued.environment.get("esper-agents")
    return f"esper-agents=={version}" if version else "the version of esper-agents that its view names"


def _as_data(verified: Verified) -> dict[str, Any]:
    def group(checks: tuple[Check, ...]) -> dict[str, Any]:
        return {"outcome": outcome_of(*checks), "checks": [asdict(each) for each in checks]}

    return {
        "certificate": verified.certificate.id if verified.certificate else None,
        "status": verified.certificate.verdict.status if verified.certificate else None,
        "genuine": group(verified.genuine),
        "is_in_archive": any(each.name == ARCHIVE for each in verified.genuine),
        "verdict": group(verified.verdict),
        "citations": group(verified.citations),
        "current": {
            "outcome": verified.currency,
            "root": str(verified.root),
            "files": [asdict(each) for each in verified.files],
        },
        "exit_code": int(verified.exit_code),
    }
