"""`esper certificates audit|import`: commands for third-party certificates."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.api import CheckOutcome
from esper_agents.cli.certificates import certificates_app
from esper_agents.cli.indented_output import outline
from esper_agents.cli.shared_options import HERE, JsonOption, LimitOption, ProjectOption
from esper_agents.cli.terminal import echo, echo_json, one_line, table

if TYPE_CHECKING:
    from esper_agents.api import AuditedDocument, DocumentAudit, ImportCount, ImportedCertificate

_MOST_SHOWN = 100
_MOST_PROBLEMS = 20
_Paths = Annotated[list[Path], typer.Argument(metavar="PATH", help="Certificates, memory documents, or directories")]
_Agents = Annotated[
    list[str] | None, typer.Option("--agent", metavar="AGENT", help="Additional known agent name (repeatable)")
]
_Days = Annotated[int, typer.Option("--days", min=0, help="Maximum days between a date and its commit")]


@certificates_app.command()
def audit(paths: _Paths, agent: _Agents = None, days: _Days = 7, as_json: JsonOption = False) -> None:
    """Check hand-written certificates.

    Checks certificates written by people or models, and memory documents of agents, against the files and git. Executes
    and changes nothing. Exits with 0 if no problem was found; 7 if a statement is false; 4 if a statement cannot be
    checked, such as a date outside the git history.

    Examples:
      esper certificates audit docs/ai/agents
      esper certificates audit docs/ai/agents --agent system-architect --json
    """
    found = _audit(paths, agent or [], days)
    if as_json:
        echo_json(_as_data(found))
    else:
        _report(found)
    raise typer.Exit(found.exit_code)


@certificates_app.command("import")
def import_(paths: _Paths, agent: _Agents = None, days: _Days = 7, as_json: JsonOption = False) -> None:
    """Import third-party certificates, unverified.

    Imported certificates are stored with the result of their audit. They are not signed by esper-agents, cannot be
    verified, and never satisfy a gate. A file that was imported before is skipped.

    Examples:
      esper certificates import docs/ai/agents
    """
    found = _audit(paths, agent or [], days)
    count = asyncio.run(_import(paths, found))
    faulty = sum(bool(document.problems) for document in found.documents)
    if as_json:
        echo_json({**asdict(count), "with_problems": faulty, "left_out": found.left_out})
        return
    echo(f"imported: {count.added}, already imported: {count.known}; none is verified")
    if count.passed_over:
        echo(f"not taken in: {count.passed_over} (memory documents, and what cannot be read)")
    for each in found.left_out[:_MOST_PROBLEMS]:
        outline(f"omitted: {each}")


@certificates_app.command("imported", hidden=True)
def list_imported(
    limit: LimitOption = 20,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """List imported certificates.

    Newest first, with the result of their audit. Imported certificates are unverified.

    Examples:
      esper certificates list --imported --limit 5
    """
    found = asyncio.run(_imported(project, limit + 1))
    if as_json:
        echo_json([asdict(each) for each in found[:limit]])
        return
    for each in found[:limit]:
        outline(f"{each.id} {each.imported_at[:16].replace('T', ' ')}Z unverified: {each.path}")
        outline(f"{each.agent or 'no agent'} says {each.status or 'nothing'} of {each.component or 'nothing'}", 1)
        if each.problems:
            outline(f"does not hold: {', '.join(each.problems)}", 1)
    if not found:
        echo("nothing was taken in; do so with: esper certificates import PATH")
    if len(found) > limit:
        echo(f"there are more: esper certificates list --imported --limit {2 * limit}")


async def _import(paths: list[Path], found: DocumentAudit) -> ImportCount:
    from esper_agents.api import open_project

    async with open_project(*paths) as project:
        return await project.certificates.import_documents(found)


async def _imported(where: Path, limit: int) -> tuple[ImportedCertificate, ...]:
    from esper_agents.api import open_project

    async with open_project(where) as opened:
        return await opened.certificates.list_imported(limit=limit)


def _audit(paths: list[Path], names: list[str], days: int) -> DocumentAudit:
    from esper_agents.api import audit_documents

    return audit_documents(paths, agents=names, days=days)


def _report(found: DocumentAudit) -> None:
    with_problems = [document for document in found.documents if document.problems]
    for with_problem in with_problems[:_MOST_SHOWN]:
        _report_document(with_problem)
    if len(with_problems) > _MOST_SHOWN:
        echo(f"and {len(with_problems) - _MOST_SHOWN} more documents; --json has all of them\n")
    if found.counts:
        _report_counts(found)
    for left in found.left_out[:_MOST_PROBLEMS]:
        outline(f"omitted: {left}")
    if len(found.left_out) > _MOST_PROBLEMS:
        outline(f"omitted: {len(found.left_out) - _MOST_PROBLEMS} more")
    failing = sum(any(problem.outcome is CheckOutcome.FAILS for problem in every.problems) for every in found.documents)
    over = f"; {found.passed_over} other Markdown files passed over" if found.passed_over else ""
    count = len(found.documents)
    echo(f"{count} document{'s'[: count != 1]} audited, {failing} with something that does not hold{over}")


def _report_document(audited: AuditedDocument) -> None:
    said = ", ".join(one_line(each) for each in (audited.status[:60], audited.agent[:60]) if each)
    outline(f"{audited.path}{f': {said}' if said else ''}")
    for problem in audited.problems[:_MOST_PROBLEMS]:
        where = f"line {problem.line}: " if problem.line else ""
        doubt = "cannot decide: " if problem.outcome is CheckOutcome.CANNOT_DECIDE else ""
        outline(f"{problem.code}: {where}{doubt}{problem.detail}", 1)
    if len(audited.problems) > _MOST_PROBLEMS:
        outline(f"and {len(audited.problems) - _MOST_PROBLEMS} more", 1)
    echo()


def _report_counts(found: DocumentAudit) -> None:
    from esper_agents.api import audit_problem_meanings

    known = audit_problem_meanings()
    table(
        ("problem", "documents", "what it means"),
        [(code, str(count), known[code]) for code, count in found.counts.items()],
    )
    echo()


def _as_data(found: DocumentAudit) -> dict[str, Any]:
    def document(each: AuditedDocument) -> dict[str, Any]:
        return {name: text for name, text in asdict(each).items() if name != "file"}

    return {
        "documents": [document(each) for each in found.documents],
        "counts": found.counts,
        "passed_over": found.passed_over,
        "left_out": found.left_out,
        "exit_code": int(found.exit_code),
    }
