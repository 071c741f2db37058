"""`esper certificates diff`: command that compares two certificates of one component."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.certificates import certificates_app
from esper_agents.cli.indented_output import outline
from esper_agents.cli.published_output import report_reading, show_trust
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.api import CertificateDiff
    from esper_agents.domain.finding import Finding

_MOST_LISTED = 40


@certificates_app.command()
def diff(
    first: Annotated[str, typer.Argument(metavar="ID", help="ID or unique suffix of the older certificate")],
    second: Annotated[
        str, typer.Argument(metavar="ID", help="Newer certificate [default: latest of the component]")
    ] = "",
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Compare two certificates.

    Both must be about the same component. With one ID, that certificate is compared with the latest one of its
    component; the latest one is compared with its predecessor.

    Examples:
      esper certificates diff latest
      esper certificates diff 12faba12a09f latest
    """
    found = asyncio.run(_diff(project, first, second))
    if as_json:
        echo_json(_diff_as_data(found))
        return
    for each in (found.before, found.after):
        outline(f"{each.id} {each.issued_at[:16].replace('T', ' ')}Z {each.verdict.status}, by {each.agent}")
    for label, change in (("status", found.status), ("ceiling", found.ceiling)):
        is_same = change.before == change.after
        outline(f"{label}: {change.after}{', as before' if is_same else f'; {change.before} before'}")
    _list_findings("gone", found.gone)
    _list_findings("new", found.new)
    _list_findings("still there", found.still)
    _list_files(found)
    _list_numbers(found)


async def _diff(where: Path, first: str, second: str) -> CertificateDiff:
    from esper_agents.api import open_project

    async with open_project(where) as project:
        report_reading(project)
        for named in filter(None, (first, second)):
            show_trust(await project.certificates.get(named))
        return await project.certificates.diff(first, second)


def _list_findings(label: str, findings: Sequence[Finding]) -> None:
    outline(f"{label}: {len(findings) or 'none'}")
    for finding in findings[:_MOST_LISTED]:
        claim = finding.claim
        outline(f"{claim.severity} {claim.rule} at {claim.location}: {claim.message}", 1)
    _say_left(len(findings))


def _list_files(found: CertificateDiff) -> None:
    outline(f"files: {len(found.files) or 'none'} changed, {found.same_files} the same")
    for file in found.files[:_MOST_LISTED]:
        if file.before and file.after:
            said = f"was {_digests(file.before)}, is {_digests(file.after)}"
        else:
            said = "read only before" if file.before else "read only afterwards"
        outline(f"{file.path}: {said}", 1)
    _say_left(len(found.files))


def _list_numbers(found: CertificateDiff) -> None:
    from esper_agents.api import amount_text

    def written(amounts: tuple[float, ...]) -> str:
        return " and ".join(map(amount_text, amounts)) or "not there"

    outline(f"numbers: {len(found.numbers) or 'none'} changed")
    for number in found.numbers[:_MOST_LISTED]:
        times = f" ({number.ratio:.3g} times)" if number.ratio else ""
        outline(f"{number.name}: was {written(number.before)}, is {written(number.after)}{times}", 1)
    _say_left(len(found.numbers))


def _say_left(count: int) -> None:
    if count > _MOST_LISTED:
        outline(f"and {count - _MOST_LISTED} more, see --json", 1)


def _digests(digests: tuple[str, ...]) -> str:
    return " and ".join(digest[:12] for digest in digests)


def _diff_as_data(found: CertificateDiff) -> dict[str, Any]:
    return {
        "before": found.before.id,
        "after": found.after.id,
        "component": found.after.component,
        "status": asdict(found.status),
        "ceiling": asdict(found.ceiling),
        "findings": {
            "gone": [asdict(each) for each in found.gone],
            "new": [asdict(each) for each in found.new],
            "still": [asdict(each) for each in found.still],
        },
        "files": {"changed": [asdict(file) for file in found.files], "same": found.same_files},
        "numbers": [asdict(number) | {"ratio": number.ratio} for number in found.numbers],
    }
